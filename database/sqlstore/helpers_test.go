package sqlstore

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sluice/database"
)

// childEnv names the job that a re-executed test binary runs instead of the tests.
const childEnv = "SQLSTORE_TEST_CHILD"

// TestMain checks that no goroutines outlive the tests.
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

// openAt opens a store and closes it when the test ends.
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

// value returns the only row of a query, an integer.
func value(tb testing.TB, s *Store, query string, in ...any) int64 {
	tb.Helper()
	var n int64
	err := s.db.read(context.Background(), func(t *tx) error {
		_, err := t.row(query, in, (*integer)(&n))
		return err
	})
	if err != nil {
		tb.Fatal(err)
	}
	return n
}

func listMigrations(tb testing.TB, dir string) []migration {
	tb.Helper()
	list, err := migrations(dir)
	if err != nil {
		tb.Fatal(err)
	}
	return list
}

// transactor runs a function in a transaction, as the methods of an engine do.
type transactor = func(context.Context, func(*tx) error) error

// hookedEngine is an engine whose transactions tests wrap. A hook that is nil changes
// nothing.
type hookedEngine struct {
	engine
	onWrite, onWriteLocked, onRead func(transactor) transactor
}

func hooked(hook func(transactor) transactor, run transactor) transactor {
	if hook == nil {
		return run
	}
	return hook(run)
}

func (e hookedEngine) write(ctx context.Context, fn func(*tx) error) error {
	return hooked(e.onWrite, e.engine.write)(ctx, fn)
}

func (e hookedEngine) writeLocked(ctx context.Context, fn func(*tx) error) error {
	return hooked(e.onWriteLocked, e.engine.writeLocked)(ctx, fn)
}

func (e hookedEngine) startLocked(until time.Time, fn func(*tx) error, done func(any, error)) error {
	if e.onWriteLocked == nil {
		return e.engine.startLocked(until, fn, done)
	}
	go func() {
		done(recovered(func() error {
			return e.writeLocked(database.WithPatience(context.Background(), time.Until(until)), fn)
		}))
	}()
	return nil
}

func (e hookedEngine) read(ctx context.Context, fn func(*tx) error) error {
	return hooked(e.onRead, e.engine.read)(ctx, fn)
}

func (e hookedEngine) snapshot(ctx context.Context, fn func(*tx) error) error {
	return hooked(e.onRead, e.engine.snapshot)(ctx, fn)
}
