package engine

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"sluice/database"
	"sluice/test/testenv"
)

// childEnv names the job that a re-executed test binary runs instead of its tests.
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
	goleak.VerifyTestMain(testenv.KeepPostgres(m))
}

func databasePath(tb testing.TB) string { return filepath.Join(testenv.MemoryDir(tb), "meta.db") }

// testDB is a database with the tests' verbs. They are transactions on the table facts: setFact is
// one that the engine isolates, use one that locks the row on which it decides.
type testDB struct{ *DB }

func openDB(path string, opt Options) (testDB, error) {
	db, err := OpenSQLite(path, opt)
	return testDB{db}, err
}

func openNodeDB(ctx context.Context, dsn string, opt Options) (testDB, error) {
	db, err := OpenPostgres(ctx, dsn, opt)
	return testDB{db}, err
}

// openAt opens a database and closes it when the test ends.
func openAt(tb testing.TB, path string, opt Options) testDB {
	tb.Helper()
	s, _ := openWithEngine(tb, path, opt)
	return s
}

// openWithEngine is openAt that also returns the engine.
func openWithEngine(tb testing.TB, path string, opt Options) (testDB, *sqliteEngine) {
	tb.Helper()
	s := testenv.Must(openDB(path, opt))(tb)
	closeAtEnd(tb, s)
	return s, s.eng.(*sqliteEngine)
}

// openNode opens a database and returns it with its engine. It is closed when the test ends.
func openNode(tb testing.TB, dsn string) (testDB, *postgresEngine) {
	tb.Helper()
	s := testenv.Must(openNodeDB(context.Background(), dsn, Options{}))(tb)
	closeAtEnd(tb, s)
	return s, s.eng.(*postgresEngine)
}

func closeAtEnd(tb testing.TB, s testDB) {
	testenv.AtEnd(tb, s.Close)
}

// connectTo opens a connection to PostgreSQL for the test itself.
func connectTo(tb testing.TB, dsn string) *pgx.Conn {
	tb.Helper()
	conn := testenv.Must(pgx.Connect(context.Background(), dsn))(tb)
	tb.Cleanup(func() {
		testenv.Check(tb, conn.Close(context.Background()))
	})
	return conn
}

// setFact sets a fact.
func (s testDB) setFact(ctx context.Context, name, value string) error {
	return s.Write(ctx, func(t *Tx) error {
		_, err := t.Exec(`INSERT INTO facts (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value`,
			[]byte(name), []byte(value))
		return err
	})
}

// fact returns a fact.
func (s testDB) fact(ctx context.Context, name string) (string, error) {
	return ResultOf(ctx, s.Read, func(t *Tx) (string, error) { return readFact(t, name, "") })
}

// use decrements the counter that a fact is, and returns the rest.
func (s testDB) use(ctx context.Context, name string) (left int64, err error) {
	return ResultOf(ctx, s.WriteLocked, func(t *Tx) (int64, error) {
		left, err := readCounter(t, name, t.ForUpdate())
		if err != nil {
			return 0, err
		}
		left--
		return left, t.Change(`UPDATE facts SET value = $2 WHERE name = $1`, []byte(name), strconv.AppendInt(nil, left, 10))
	})
}

// left returns a counter.
func (s testDB) left(ctx context.Context, name string) (int64, error) {
	return ResultOf(ctx, s.Read, func(t *Tx) (int64, error) { return readCounter(t, name, "") })
}

func readCounter(t *Tx, name, forUpdate string) (int64, error) {
	value, err := readFact(t, name, forUpdate)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(value, 10, 64)
}

func readFact(t *Tx, name, forUpdate string) (value string, err error) {
	found, err := t.Row(`SELECT value FROM facts WHERE name = $1`+forUpdate, Args{[]byte(name)}, &value)
	if err == nil && !found {
		err = fmt.Errorf("fact %s: %w", name, database.ErrNotFound)
	}
	return value, err
}

// value returns a query's only row, an integer.
func value(tb testing.TB, s testDB, query string, in ...any) int64 {
	tb.Helper()
	n, err := ResultOf(context.Background(), s.Read, func(t *Tx) (n int64, err error) {
		_, err = t.Row(query, in, (*Integer)(&n))
		return n, err
	})
	testenv.OK(tb, err)
	return n
}

// holds ends the test unless a query's only row is this integer.
func holds(tb testing.TB, s testDB, want int64, query string) {
	tb.Helper()
	if got := value(tb, s, query); got != want {
		tb.Fatalf("%s: %d, want %d", query, got, want)
	}
}

// execute runs a statement in a write transaction.
func execute(tb testing.TB, s testDB, query string, in ...any) {
	tb.Helper()
	testenv.OK(tb, s.Write(tb.Context(), func(t *Tx) error { return t.Change(query, in...) }))
}

func closeConn(tb testing.TB, c *sqliteConn) {
	tb.Helper()
	testenv.Check(tb, c.close())
}

func listMigrations(tb testing.TB, dir string) []migration {
	tb.Helper()
	return testenv.Must(migrations(dir))(tb)
}

// gate blocks the writer in a transaction until it is opened, so that calls that arrive while it is
// closed become one batch.
type gate struct {
	entered, open chan struct{}
	result        chan error
}

func holdWriter(t *testing.T, s testDB) *gate {
	t.Helper()
	g := &gate{entered: make(chan struct{}), open: make(chan struct{}), result: make(chan error, 1)}
	var once sync.Once
	go func() {
		g.result <- s.eng.Write(context.Background(), func(*Tx) error {
			once.Do(func() { close(g.entered) })
			<-g.open
			return nil
		})
	}()
	<-g.entered
	return g
}

// queued waits until n calls wait for the writer.
func queued(w *writer, n int) {
	for {
		w.mu.Lock()
		have := len(w.mu.queue)
		w.mu.Unlock()
		if have >= n {
			return
		}
		runtime.Gosched()
	}
}

// eventually waits until a condition holds. The deadline only ends a test that would hang.
func eventually(t *testing.T, condition string, holds func() bool) {
	t.Helper()
	deadline, poll := time.NewTimer(time.Minute), time.NewTicker(5*time.Millisecond)
	defer deadline.Stop()
	defer poll.Stop()
	for !holds() {
		select {
		case <-poll.C:
		case <-deadline.C:
			t.Fatalf("not within a minute: %s", condition)
		}
	}
}
