package dbtest

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"sluice/test/testclock"
	"sluice/test/testenv"
)

// OpenFunc opens the SQLite database at path with this clock, and creates it if there is none.
type OpenFunc func(path string, now func() time.Time) (Handle, error)

// Copies creates an empty database, and returns a function that copies it to a new folder: most
// checks are shorter than creating the schema.
func Copies(tb testing.TB, open OpenFunc) func(testing.TB) (path string) {
	tb.Helper()
	empty := emptyDatabase(tb, open)
	return func(tb testing.TB) string {
		tb.Helper()
		path := filepath.Join(testenv.MemoryDir(tb), "meta.db")
		testenv.OK(tb, os.WriteFile(path, empty, 0o600))
		return path
	}
}

// emptyDatabase returns the file of a new database.
func emptyDatabase(tb testing.TB, open OpenFunc) []byte {
	tb.Helper()
	path := filepath.Join(testenv.MemoryDir(tb), "meta.db")
	h := testenv.Must(open(path, testclock.New().Now))(tb)
	testenv.OK(tb, h.Close())
	empty, err := os.ReadFile(path)
	if _, lerr := os.Stat(path + "-wal"); err != nil || !errors.Is(lerr, os.ErrNotExist) {
		tb.Fatalf("the empty database: %v; its log: %v", err, lerr)
	}
	return empty
}

// Template copies one empty database for all tests of a package. The copies have the same instance
// id.
type Template struct {
	once  sync.Once
	empty []byte
}

// Copy returns the path of a copy in a new folder. The first call creates the database.
func (c *Template) Copy(tb testing.TB, open OpenFunc) (path string) {
	tb.Helper()
	c.once.Do(func() { c.empty = emptyDatabase(tb, open) })
	path = filepath.Join(testenv.MemoryDir(tb), "meta.db")
	testenv.OK(tb, os.WriteFile(path, c.empty, 0o600))
	return path
}
