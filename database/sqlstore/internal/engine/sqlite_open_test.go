package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"sluice/database"
	"sluice/test/testenv"
)

func TestDurabilitySettings(t *testing.T) {
	path := databasePath(t)
	for range 2 { // new, and opened again
		s := testenv.Must(openDB(path, Options{}))(t)
		var mode string
		var sync int64
		err := s.Write(t.Context(), func(t *Tx) (err error) {
			mode, sync, err = durability(t)
			return err
		})
		if err != nil || mode != "wal" || sync != 2 {
			t.Errorf("journal_mode %q, synchronous %d, error %v; want wal, 2", mode, sync, err)
		}
		testenv.OK(t, s.Close())
	}
}

// TestRefusesWithoutDurability checks a connection that would not sync its commits.
func TestRefusesWithoutDurability(t *testing.T) {
	path := databasePath(t)
	openAt(t, path, Options{})
	c := testenv.Must(openSQLiteConn(path, 0, nil))(t)
	defer closeConn(t, c)
	testenv.OK(t, checkDurable(c))
	testenv.OK(t, c.run("PRAGMA synchronous=NORMAL"))
	if err := checkDurable(c); err == nil {
		t.Fatal("a connection with synchronous=NORMAL was accepted")
	}
}

func TestReadersCannotWrite(t *testing.T) {
	s := openAt(t, databasePath(t), Options{})
	err := s.Read(t.Context(), func(tx *Tx) error {
		_, err := tx.Exec(`INSERT INTO facts (name, value) VALUES ($1, $2)`, []byte("n"), []byte("v"))
		return err
	})
	if err == nil {
		t.Fatal("a reading connection wrote")
	}
}

func TestRacingFirstOpens(t *testing.T) {
	for range 5 {
		path := databasePath(t)
		const n = 6
		stores, errs := make([]testDB, n), make([]error, n)
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() {
				stores[i], errs[i] = openDB(path, Options{Readers: 1})
				if errs[i] == nil {
					errs[i] = stores[i].setFact(t.Context(), fmt.Sprint(i), "value")
				}
			})
		}
		wg.Wait()
		testenv.OK(t, errors.Join(errs...))
		for i := range n {
			testenv.Check(t, testenv.Error(stores[0].fact(t.Context(), fmt.Sprint(n-1-i))))
		}
		for _, s := range stores {
			testenv.Check(t, s.Close())
		}
	}
}

// TestOpenPaths opens databases at paths with characters that are special in URIs.
func TestOpenPaths(t *testing.T) {
	for _, name := range []string{"a b?c#d%41&e=f;g.db", "ü'\".db", "~.db"} {
		path := filepath.Join(t.TempDir(), name)
		openAt(t, path, Options{})
		testenv.Check(t, testenv.Error(os.Stat(path)))
	}
	if s, err := openDB(filepath.Join(t.TempDir(), "missing", "meta.db"), Options{}); err == nil {
		t.Error("a database was opened in a missing folder", s.Close())
	}
	garbage := databasePath(t)
	testenv.OK(t, os.WriteFile(garbage, make([]byte, 5000), 0o600))
	if s, err := openDB(garbage, Options{}); err == nil {
		t.Error("a file that is not a database was opened", s.Close())
	}
}

func TestClosed(t *testing.T) {
	s := testenv.Must(openDB(databasePath(t), Options{}))(t)
	testenv.Is(t, s.Err(), nil, "Err of an open store")
	for range 2 {
		testenv.OK(t, s.Close())
	}
	_, readErr := s.fact(t.Context(), "fact")
	_, useErr := s.use(t.Context(), "session")
	for _, err := range []error{readErr, useErr, s.setFact(t.Context(), "fact", "value"), s.Err()} {
		testenv.Is(t, err, ErrClosed, "after Close")
	}
}

// TestOpenExisting opens databases that must not be created or changed.
// Invariant 109.
func TestOpenExisting(t *testing.T) {
	existing := Options{Schema: Keep}
	missing := filepath.Join(t.TempDir(), "meta.db")
	testenv.Is(t, testenv.Error(openDB(missing, existing)), fs.ErrNotExist, "a missing database")
	testenv.Is(t, testenv.Error(os.Stat(missing)), fs.ErrNotExist, "a database that was not created")
	empty := databasePath(t)
	testenv.OK(t, os.WriteFile(empty, nil, 0o600))
	testenv.Is(t, testenv.Error(openDB(empty, existing)), database.ErrOlder, "a database without a schema")

	running := openAt(t, empty, Options{}) // a server that was started in the meantime
	s := testenv.Must(openDB(empty, existing))(t)
	testenv.OK(t, s.setFact(t.Context(), "name", "value"))
	testenv.OK(t, s.Close())
	if got, err := running.fact(t.Context(), "name"); err != nil || got != "value" {
		t.Fatalf("the server reads %q, %v", got, err)
	}
}
