package engine

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"sluice/database"
	"sluice/test/testenv"
)

// crashed returns a database as after a crash: its log holds rows that the database itself lacks.
func crashed(t *testing.T) string {
	t.Helper()
	path := databasePath(t)
	s := openAt(t, path, Options{})
	testenv.OK(t, s.setFact(t.Context(), "first", "v"))
	left := databasePath(t)
	hold := testenv.Must(openSQLiteConn(path, 0, nil))(t)
	defer closeConn(t, hold)
	var n Integer
	testenv.OK(t, hold.run("BEGIN"))
	testenv.Must((&Tx{conn: hold}).Row(`SELECT COUNT(*) FROM facts`, nil, &n))(t)
	for i := range 20 { // the open read keeps them in the log
		testenv.OK(t, s.setFact(t.Context(), fmt.Sprint("logged", i), "v"))
	}
	for _, ending := range []string{"", "-wal"} {
		data, err := os.ReadFile(path + ending)
		if err == nil {
			err = os.WriteFile(left+ending, data, 0o600)
		}
		testenv.OK(t, err)
	}
	return left
}

// TestStartEmptiesTheLog opens a store on a crashed process's log: before the first acknowledgement
// the store has moved everything from the log into the database, and in the new log nothing old
// precedes the acknowledged write.
// Invariant 106.
func TestStartEmptiesTheLog(t *testing.T) {
	for _, change := range []SchemaChange{Migrate, Keep} {
		path := crashed(t)
		e := testenv.Must(openSQLiteEngine(path, Options{Schema: change}))(t)
		testenv.AtEnd(t, e.close)
		testenv.OK(t, e.err())
		info, err := os.Stat(path + "-wal")
		if err != nil || info.Size() != 0 {
			t.Fatalf("the log as writes begin: %d bytes, %v", info.Size(), err)
		}
		alone := databasePath(t)
		data, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(alone, data, 0o600)
		}
		testenv.OK(t, err)
		testenv.Is(t, testenv.Error(openAt(t, alone, Options{}).fact(t.Context(), "logged19")), nil, "the database without its log")
	}
}

// TestStartDuringARead opens a store while another connection reads from a crashed process's log:
// writes are refused, reads succeed, and once that read has ended writes succeed without
// intervention.
// Invariant 106.
func TestStartDuringARead(t *testing.T) {
	t.Parallel()
	path := crashed(t)
	other := testenv.Must(openSQLiteConn(path, 0, nil))(t)
	defer closeConn(t, other)
	testenv.OK(t, other.run("BEGIN"))
	var n Integer
	testenv.Must((&Tx{conn: other}).Row(`SELECT COUNT(*) FROM facts`, nil, &n))(t)
	e := testenv.Must(openSQLiteEngine(path, Options{}))(t)
	s := testDB{testenv.Must(newDB(t.Context(), e, nil))(t)}
	defer func() {
		testenv.Check(t, s.Close())
	}()
	if err := s.Err(); !errors.Is(err, database.ErrUnavailable) || !errors.Is(err, errLogInUse) {
		t.Errorf("Err: %v", err)
	}
	testenv.Is(t, s.setFact(t.Context(), "refused", "v"), database.ErrUnavailable, "a write before the log was emptied")
	testenv.Is(t, testenv.Error(s.fact(t.Context(), "logged19")), nil, "a read before the log was emptied")
	testenv.OK(t, other.run("ROLLBACK"))
	<-e.health.ready
	testenv.Is(t, s.Err(), nil, "Err")
	testenv.Check(t, s.setFact(t.Context(), "accepted", "v"))
	testenv.Is(t, testenv.Error(s.fact(t.Context(), "refused")), database.ErrNotFound, "the refused write")
	select {
	case <-s.Stopped():
		t.Error("the store has stopped")
	default:
	}
}

// damaged returns a database with one table's first page overwritten.
func damaged(t *testing.T, table string) string {
	t.Helper()
	path := databasePath(t)
	s := testenv.Must(openDB(path, Options{}))(t)
	var page Integer
	err := errors.Join(s.setFact(t.Context(), "fact", "v"), s.Read(t.Context(), func(t *Tx) error {
		found, err := t.Row(`SELECT rootpage FROM sqlite_master WHERE name = $1`, Args{table}, &page)
		if err == nil && !found {
			err = errors.New("no such table")
		}
		return err
	}), s.Close())
	testenv.OK(t, err)
	f := testenv.Must(os.OpenFile(path, os.O_WRONLY, 0))(t)
	noise := make([]byte, 4096)
	for i := range noise {
		noise[i] = 0xa5
	}
	_, err = f.WriteAt(noise, (int64(page)-1)*4096)
	testenv.OK(t, errors.Join(err, f.Close()))
	return path
}

// TestDamagedDatabase finds damage in a read and in a write: further writes are refused, reads
// of undamaged tables succeed, and Stopped is not closed.
func TestDamagedDatabase(t *testing.T) {
	for name, meet := range map[string]func(testDB) error{
		"read": func(s testDB) error {
			return s.Read(t.Context(), func(t *Tx) error {
				_, err := t.Row(`SELECT 1 FROM leases WHERE name = $1`, Args{[]byte("name")}, new(Integer))
				return err
			})
		},
		"write": func(s testDB) error {
			return s.Write(t.Context(), func(t *Tx) error {
				_, err := t.Exec(`INSERT INTO leases (name, holder, expires) VALUES ($1, $1, 1)`, []byte("name"))
				return err
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := openAt(t, damaged(t, "leases"), Options{})
			testenv.OK(t, s.Err())
			testenv.Is(t, s.setFact(t.Context(), "before", "v"), nil, "a write before the damage was found")
			if err := meet(s); err == nil {
				t.Fatal("the damage was not found")
			}
			if err := s.Err(); !errors.Is(err, ErrCorrupt) || errors.Is(err, ErrStopped) {
				t.Errorf("Err: %v", err)
			}
			if err := s.setFact(t.Context(), "later", "v"); !errors.Is(err, ErrCorrupt) || !errors.Is(err, database.ErrUnavailable) {
				t.Errorf("a write: %v", err)
			}
			testenv.Equal(t, testenv.Must(s.fact(t.Context(), "fact"))(t), "v", "a read of an undamaged table")
			select {
			case <-s.Stopped():
				t.Error("the store has stopped")
			default:
			}
		})
	}
}
