package sqlstore

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
)

// childEnv names what a re-executed test binary does instead of testing.
const childEnv = "SQLSTORE_TEST_CHILD"

// TestMain looks for goroutines that outlive the tests.
func TestMain(m *testing.M) {
	if job := os.Getenv(childEnv); job != "" {
		if err := runChild(job, os.Args[len(os.Args)-1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func databasePath(tb testing.TB) string { return filepath.Join(tb.TempDir(), "meta.db") }

// openAt opens a store and closes it with the test.
func openAt(tb testing.TB, path string, opt Options) *Store {
	tb.Helper()
	s, err := OpenSQLite(path, opt)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	return s
}

func closeConn(tb testing.TB, c *sqliteConn) {
	tb.Helper()
	if err := c.close(); err != nil {
		tb.Error(err)
	}
}

func listMigrations(tb testing.TB, dir string) []migration {
	tb.Helper()
	list, err := migrations(dir)
	if err != nil {
		tb.Fatal(err)
	}
	return list
}
