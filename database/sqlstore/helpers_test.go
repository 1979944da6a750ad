package sqlstore

import (
	"context"
	"flag"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"sluice/database/dbtest"
	"sluice/database/sqlstore/internal/engine"
	"sluice/database/sqlstore/internal/enginetest"
	"sluice/test/testenv"
)

// histories is how many random histories a suite's check plays here.
const histories = "25"

// TestMain checks that no goroutines outlive the tests.
func TestMain(m *testing.M) {
	if err := flag.Set("rapid.checks", histories); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(testenv.KeepPostgres(m))
}

func databasePath(tb testing.TB) string { return filepath.Join(testenv.MemoryDir(tb), "meta.db") }

// openAt opens a store and closes it when the test ends.
func openAt(tb testing.TB, path string, opt Options) *Store {
	tb.Helper()
	s, err := OpenSQLite(path, opt)
	return closedAtEnd(tb, s, err)
}

// openNode opens a store for a test.
func openNode(tb testing.TB, dsn string) *Store {
	tb.Helper()
	s, err := OpenPostgres(context.Background(), dsn, Options{})
	return closedAtEnd(tb, s, err)
}

func openAtPostgres(tb testing.TB) *Store {
	tb.Helper()
	return openNode(tb, testenv.Postgres(tb))
}

func closedAtEnd(tb testing.TB, s *Store, err error) *Store {
	tb.Helper()
	testenv.OK(tb, err)
	testenv.AtEnd(tb, s.Close)
	return s
}

// value returns a query's only row, an integer.
func value(tb testing.TB, s *Store, query string, in ...any) int64 {
	tb.Helper()
	return enginetest.Value(tb, s.db, query, in...)
}

// holds ends the test unless a query's only row is this integer.
func holds(tb testing.TB, s *Store, want int64, query string) {
	tb.Helper()
	if got := value(tb, s, query); got != want {
		tb.Fatalf("%s: %d, want %d", query, got, want)
	}
}

// execute changes a store's rows without its methods.
func execute(tb testing.TB, s *Store, query string, in ...any) {
	tb.Helper()
	testenv.OK(tb, s.db.Write(tb.Context(), func(t *engine.Tx) error { return t.Change(query, in...) }))
}

// executeBoth is execute for a statement in SQLite's dialect, on either engine.
func executeBoth(tb testing.TB, s *Store, statement string) {
	tb.Helper()
	if s.db.ListsInside() { // on PostgreSQL
		statement = forPostgres(statement)
	}
	execute(tb, s, strings.TrimSuffix(statement, ";"))
}

// audited ends the test if the audit finds something.
func audited(tb testing.TB, s *Store) {
	tb.Helper()
	auditedExcept(tb, s)
}

// auditedExcept is audited for rows that lack something: findings with one of these phrases are not
// counted. The audit must not find so much that it leaves findings out.
func auditedExcept(tb testing.TB, s *Store, phrases ...string) {
	tb.Helper()
	found, err := s.Audit(tb.Context())
	found = slices.DeleteFunc(found, func(finding string) bool {
		return slices.ContainsFunc(phrases, func(phrase string) bool { return strings.Contains(finding, phrase) })
	})
	if err != nil || len(found) > 0 {
		tb.Fatalf("the audit found %.2000q, %v", found, err)
	}
}

// remove deletes a blob of account a.
func remove(tb testing.TB, s *Store, name string) {
	tb.Helper()
	_, _, err := dbtest.Remove(tb.Context(), s, "a", name, nil)
	testenv.OK(tb, err)
}

// onBoth runs a test on a new store of each engine.
func onBoth(t *testing.T, test func(*testing.T, *Store)) {
	t.Helper()
	t.Run("SQLite", func(t *testing.T) { test(t, openAt(t, databasePath(t), Options{})) })
	t.Run("PostgreSQL", func(t *testing.T) { test(t, openAtPostgres(t)) })
}

// forPostgres converts a test's SQL from SQLite's dialect to PostgreSQL's.
func forPostgres(text string) string { return strings.ReplaceAll(text, " AS BLOB)", " AS BYTEA)") }

// statement is a statement that a store has run.
type statement struct {
	text string
	in   engine.Args
}

// record records the statements in a store's write transactions.
func record(s *Store, statements *[]statement) {
	enginetest.Observe(s.db, func(text string, in engine.Args) { *statements = append(*statements, statement{text, in}) })
}
