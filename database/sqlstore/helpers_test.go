package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"sluice/database/sqlstore/internal/engine"
	"sluice/database/sqlstore/internal/enginetest"
	"sluice/internal/testenv"
)

// childEnv names the job that a re-executed test binary runs instead of the tests.
const childEnv = "SQLSTORE_TEST_CHILD"

// histories is how many random histories a check of the suites plays here.
const histories = "25"

// TestMain checks that no goroutines outlive the tests.
func TestMain(m *testing.M) {
	if job := os.Getenv(childEnv); job != "" {
		if err := runChild(job, os.Args[len(os.Args)-1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
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

// executeOlder does it with a statement of an earlier version, in SQLite's dialect.
func executeOlder(tb testing.TB, s *Store, statement string) {
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
// counted. The audit must not find so much that it leaves others out.
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
	_, _, err := s.DeleteBlob(tb.Context(), "a", name, nil)
	testenv.OK(tb, err)
}

// onBoth runs a test on a new store of each engine.
func onBoth(t *testing.T, test func(*testing.T, *Store)) {
	t.Helper()
	t.Run("SQLite", func(t *testing.T) { test(t, openAt(t, databasePath(t), Options{})) })
	t.Run("PostgreSQL", func(t *testing.T) { test(t, openAtPostgres(t)) })
}

// olderSchema returns the statements that create an earlier version's schema. kind is the engine's
// migrations folder.
func olderSchema(tb testing.TB, kind string, version int) string {
	tb.Helper()
	files, err := filepath.Glob(filepath.Join("internal", "engine", "migrations", kind, "*.sql"))
	if err != nil || len(files) < version {
		tb.Fatalf("%d migrations, %v", len(files), err)
	}
	var script strings.Builder
	script.WriteString("BEGIN; CREATE TABLE schema_version (version BIGINT NOT NULL PRIMARY KEY);\n")
	for i, file := range files[:version] {
		text := testenv.Must(os.ReadFile(file))(tb)
		fmt.Fprintf(&script, "%s\nINSERT INTO schema_version (version) VALUES (%d);\n", text, i+1)
	}
	return script.String() + "COMMIT;"
}

// olderSQLite creates an earlier version's database with these rows.
func olderSQLite(tb testing.TB, version int, rows string) (path string) {
	tb.Helper()
	path = databasePath(tb)
	db := testenv.Must(sql.Open("sqlite", "file:"+path))(tb)
	_, err := db.ExecContext(tb.Context(), olderSchema(tb, "sqlite", version)+rows)
	testenv.OK(tb, errors.Join(err, db.Close()))
	return path
}

// olderPostgres does the same on PostgreSQL, with rows for SQLite, and returns a connection too.
func olderPostgres(tb testing.TB, version int, rows string) (dsn string, conn *pgx.Conn) {
	tb.Helper()
	dsn = testenv.Postgres(tb)
	conn = enginetest.Connect(tb, dsn)
	testenv.Must(conn.Exec(tb.Context(), olderSchema(tb, "postgres", version)+forPostgres(rows)))(tb)
	return dsn, conn
}

// onOlder runs a test on stores of both engines, each opened on an older version's database with
// these rows.
func onOlder(t *testing.T, version int, rows string, test func(*testing.T, *Store)) {
	t.Helper()
	t.Run("SQLite", func(t *testing.T) { test(t, openAt(t, olderSQLite(t, version, rows), Options{})) })
	t.Run("PostgreSQL", func(t *testing.T) {
		dsn, _ := olderPostgres(t, version, rows)
		test(t, openNode(t, dsn))
	})
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
