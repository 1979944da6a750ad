package engine

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/test/testenv"
)

// noSteps ignores steps.
func noSteps(int, int) error { return nil }

// closedDatabase returns the path of a database that nobody uses.
func closedDatabase(t *testing.T) string {
	t.Helper()
	path := databasePath(t)
	s := testenv.Must(openDB(path, Options{}))(t)
	testenv.OK(t, errors.Join(s.setFact(t.Context(), "fact", "v"), s.Close()))
	return path
}

// lackingIndex returns a database with a row that an index lacks.
func lackingIndex(t *testing.T) string {
	t.Helper()
	path := closedDatabase(t)
	c := testenv.Must(openSQLiteConn(path, 0, nil))(t)
	defer closeConn(t, c)
	for _, statement := range []string{
		"CREATE TABLE indexed (a INTEGER) STRICT", "CREATE INDEX of_a ON indexed (a)", "INSERT INTO indexed VALUES (1)",
		"PRAGMA writable_schema = ON", "CREATE TEMP TABLE kept AS SELECT * FROM main.sqlite_schema WHERE name = 'of_a'",
		"DELETE FROM main.sqlite_schema WHERE name = 'of_a'", "PRAGMA writable_schema = RESET",
		"INSERT INTO indexed VALUES (2)", "DELETE FROM indexed WHERE a = 1", "PRAGMA writable_schema = ON", "INSERT INTO main.sqlite_schema SELECT * FROM kept",
	} {
		testenv.OK(t, c.script(statement))
	}
	return path
}

// TestCheckSQLite checks a whole database, and finds the damage in damaged ones.
// Invariant 111.
func TestCheckSQLite(t *testing.T) {
	cut := closedDatabase(t)
	info := testenv.Must(os.Stat(cut))(t)
	testenv.OK(t, os.Truncate(cut, info.Size()/2))
	other := databasePath(t)
	testenv.OK(t, os.WriteFile(other, []byte(strings.Repeat("not a database", 1000)), 0o600))
	for name, c := range map[string]struct{ path, finding string }{
		"a damaged page":      {damaged(t, "leases"), "Tree"},
		"a row without index": {lackingIndex(t), "missing from index of_a"},
		"a cut file":          {cut, "malformed"},
		"another file":        {other, "not a database"},
	} {
		found := testenv.Must(CheckSQLite(t.Context(), c.path, noSteps))(t)
		if len(found) > maxFindings || !slices.ContainsFunc(found, func(one string) bool { return strings.Contains(one, c.finding) }) {
			t.Errorf("%s: found %q, want %q", name, found, c.finding)
		}
	}
}

// TestCheckOfAWholeDatabase reports each step, and can be ended before each.
func TestCheckOfAWholeDatabase(t *testing.T) {
	path := closedDatabase(t)
	var steps []int
	last := 0
	found, err := CheckSQLite(t.Context(), path, func(done, total int) error {
		steps, last = append(steps, done), total
		return nil
	})
	if err != nil || len(found) > 0 || len(steps) != last || !slices.IsSorted(steps) || last < 10 {
		t.Errorf("found %q, %v in the steps %v of %d", found, err, steps, last)
	}
	end := errors.New("end")
	for i := range steps {
		_, err := CheckSQLite(t.Context(), path, func(done, _ int) error {
			if done == i {
				return end
			}
			return nil
		})
		testenv.Is(t, err, end, "a check that is ended before step %d", i)
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, err = CheckSQLite(ctx, path, func(int, int) error { cancel(); return nil })
	testenv.Is(t, err, context.Canceled, "a check whose context has ended")
}

// TestQuickCheck finds a damaged page in a store that is open: it refuses writes from then on.
// Invariant 112.
func TestQuickCheck(t *testing.T) {
	s := openAt(t, damaged(t, "leases"), Options{})
	testenv.OK(t, s.setFact(t.Context(), "before", "v"))
	testenv.Is(t, s.QuickCheck(t.Context(), func(time.Duration) {}), ErrCorrupt, "the check")
	testenv.Is(t, s.Err(), ErrCorrupt, "Err")
	testenv.Is(t, s.setFact(t.Context(), "later", "v"), ErrCorrupt, "a write")
	testenv.Equal(t, testenv.Must(s.fact(t.Context(), "fact"))(t), "v", "a read of an undamaged table")
}

// TestQuickCheckYields checks that between its steps a quick check keeps no commit from being made,
// and the log from being restarted, and that it can be interrupted.
// Invariant 112.
func TestQuickCheckYields(t *testing.T) {
	path := databasePath(t)
	s := openAt(t, path, Options{})
	log := testenv.Must(openSQLiteConn(path, 0, nil))(t)
	defer closeConn(t, log)
	rests := 0
	testenv.OK(t, s.QuickCheck(t.Context(), func(time.Duration) {
		rests++
		testenv.Check(t, s.setFact(t.Context(), "during", "v"))
		var busy, pages, moved Integer
		testenv.Must((&Tx{conn: log}).Row("PRAGMA wal_checkpoint(RESTART)", nil, &busy, &pages, &moved))(t)
		testenv.Equal(t, int64(busy), 0, "the log is in use")
	}))
	if rests < 10 {
		t.Errorf("the check has rested %d times", rests)
	}
	ctx, cancel := context.WithCancel(t.Context())
	testenv.Is(t, s.QuickCheck(ctx, func(time.Duration) { cancel() }), context.Canceled, "a check that is interrupted")
	testenv.Is(t, s.Err(), nil, "Err after that")
}
