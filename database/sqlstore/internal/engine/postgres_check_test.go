package engine

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/database"
	"sluice/test/testenv"
)

// checkedIndexes checks a store's indexes, and returns the findings and why indexes are not
// checked.
func checkedIndexes(t *testing.T, s testDB) (found []string, unchecked string) {
	t.Helper()
	found, unchecked, err := s.CheckPages(t.Context(), func(int, int) error { return nil })
	testenv.OK(t, err)
	return found, unchecked
}

// TestDamagedPostgresIndex exchanges two entries on a page of an index file, while the server is
// stopped: the index is named, and no other.
// Invariant 113.
func TestDamagedPostgresIndex(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t)
	testenv.OK(t, server.Exec(`CREATE SCHEMA "the tools"; CREATE EXTENSION amcheck SCHEMA "the tools"`))
	s := testenv.Must(openNodeDB(t.Context(), server.DSN(), Options{}))(t)
	execute(t, s, `INSERT INTO facts (name, value) SELECT convert_to('name ' || n, 'UTF8'), CAST('value' AS BYTEA) FROM generate_series(1, 2000) n`)
	if found, unchecked := checkedIndexes(t, s); len(found) > 0 || unchecked != "" {
		t.Errorf("a whole database: found %q, not checked %q", found, unchecked)
	}
	var file string
	testenv.OK(t, s.Read(t.Context(), func(t *Tx) error {
		_, err := t.Row(`SELECT convert_to(pg_relation_filepath('facts_pkey'), 'UTF8')`, nil, &file)
		return err
	}))
	testenv.OK(t, errors.Join(s.Close(), server.StopFast()))
	exchangeEntries(t, filepath.Join(filepath.Dir(server.Socket()), "data", file))
	testenv.OK(t, server.Start())

	s = testenv.Must(openNodeDB(t.Context(), server.DSN(), Options{}))(t)
	closeAtEnd(t, s)
	found, unchecked := checkedIndexes(t, s)
	if len(found) != 1 || !strings.HasPrefix(found[0], "index facts_pkey: ") || unchecked != "" {
		t.Errorf("found %q, not checked %q", found, unchecked)
	}
}

// exchangeEntries exchanges the third and the fourth pointer to an entry on the first leaf of a
// B-tree.
func exchangeEntries(t *testing.T, file string) {
	t.Helper()
	const page, header, pointer = 8192, 24, 4
	f := testenv.Must(os.OpenFile(file, os.O_RDWR, 0))(t)
	entries := make([]byte, 2*pointer)
	at := int64(page + header + 2*pointer)
	_, err := f.ReadAt(entries, at)
	testenv.OK(t, err)
	_, err = f.WriteAt(slices.Concat(entries[pointer:], entries[:pointer]), at)
	testenv.OK(t, errors.Join(err, f.Close()))
}

// TestPostgresIndexesAreNotChecked checks that the missing part is named: the extension, then the
// right to use it.
// Invariant 113.
func TestPostgresIndexesAreNotChecked(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t)
	testenv.OK(t, server.Exec(`CREATE ROLE plain LOGIN; GRANT ALL ON SCHEMA public TO plain`))
	dsn := testenv.Must(url.Parse(server.DSN()))(t)
	query := dsn.Query()
	query.Set("user", "plain")
	dsn.RawQuery = query.Encode()
	s := testenv.Must(openNodeDB(t.Context(), dsn.String(), Options{}))(t)
	closeAtEnd(t, s)
	for _, c := range []struct{ statement, says string }{
		{`SELECT 1`, "the extension amcheck is not installed; run CREATE EXTENSION amcheck as a superuser"},
		{`CREATE EXTENSION amcheck`, "this user may not call bt_index_check: permission denied"},
		{`GRANT EXECUTE ON FUNCTION bt_index_check(regclass, boolean) TO plain`, ""},
	} {
		testenv.OK(t, server.Exec(c.statement))
		found, unchecked := checkedIndexes(t, s)
		if len(found) > 0 || (unchecked == "") != (c.says == "") || !strings.Contains(unchecked, c.says) {
			t.Errorf("after %s: found %q, not checked %q; want %q", c.statement, found, unchecked, c.says)
		}
	}
}

// TestSurveyOutlastsPatience: a survey's statement takes longer than its call may wait, and ends
// when its context does.
// Invariant 113.
func TestSurveyOutlastsPatience(t *testing.T) {
	t.Parallel()
	s, _ := openNode(t, testenv.Postgres(t))
	sleep := func(t *Tx, seconds int) error {
		var one Integer
		_, err := t.Row(fmt.Sprintf(`SELECT 1 FROM pg_sleep(%d)`, seconds), nil, &one)
		return err
	}
	ctx := database.WithPatience(t.Context(), time.Second)
	testenv.OK(t, s.Survey(ctx, func(t *Tx) error { return sleep(t, 2) }))
	short := database.WithPatience(t.Context(), time.Second)
	if err := s.Snapshot(short, func(t *Tx) error { return sleep(t, 600) }); err == nil {
		t.Error("a snapshot outlasted its patience")
	}
	cancelled, cancel := context.WithCancel(t.Context())
	err := s.Survey(cancelled, func(t *Tx) error {
		cancel()
		return sleep(t, 600)
	})
	testenv.Is(t, err, context.Canceled, "a survey that is cancelled")
	testenv.Is(t, testenv.Error(s.fact(t.Context(), "name")), database.ErrNotFound, "a read afterwards")
}
