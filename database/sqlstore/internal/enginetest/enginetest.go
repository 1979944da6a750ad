// Package enginetest has helpers that several packages' tests need: databases, transactions that a
// test delays, observes or lets fail, and a writer that a test holds.
package enginetest

import (
	"context"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"sluice/database/sqlstore/internal/engine"
)

// OpenSQLite opens a database and closes it when the test ends.
func OpenSQLite(tb testing.TB, path string, opt engine.Options) *engine.DB {
	tb.Helper()
	db, err := engine.OpenSQLite(path, opt)
	if err != nil {
		tb.Fatal(err)
	}
	closeAtEnd(tb, db)
	return db
}

// OpenPostgres opens a database and closes it when the test ends.
func OpenPostgres(tb testing.TB, dsn string, opt engine.Options) *engine.DB {
	tb.Helper()
	db, err := engine.OpenPostgres(context.Background(), dsn, opt)
	if err != nil {
		tb.Fatal(err)
	}
	closeAtEnd(tb, db)
	return db
}

func closeAtEnd(tb testing.TB, db *engine.DB) {
	tb.Cleanup(func() {
		if err := db.Close(); err != nil {
			tb.Error(err)
		}
	})
}

// Connect opens a connection to PostgreSQL for the test itself.
func Connect(tb testing.TB, dsn string) *pgx.Conn {
	tb.Helper()
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		tb.Fatal(err)
	}
	for name := range config.RuntimeParams { // a pool's parameters; the server does not know them
		if len(name) > 5 && name[:5] == "pool_" {
			delete(config.RuntimeParams, name)
		}
	}
	conn, err := pgx.ConnectConfig(context.Background(), config)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := conn.Close(context.Background()); err != nil {
			tb.Error(err)
		}
	})
	return conn
}

// Value returns a query's only row, an integer.
func Value(tb testing.TB, db *engine.DB, query string, in ...any) int64 {
	tb.Helper()
	var n int64
	err := db.Read(context.Background(), func(t *engine.Tx) error {
		_, err := t.Row(query, in, (*engine.Integer)(&n))
		return err
	})
	if err != nil {
		tb.Fatal(err)
	}
	return n
}

// AwaitLock returns when a transaction waits for a lock in a database on PostgreSQL.
func AwaitLock(tb testing.TB, db *engine.DB) {
	tb.Helper()
	for waiting := int64(0); waiting == 0; {
		waiting = Value(tb, db, `SELECT CAST(COUNT(*) AS BIGINT) FROM pg_catalog.pg_locks WHERE NOT granted AND pid IN
			(SELECT a.pid FROM pg_catalog.pg_stat_activity a WHERE a.datname = current_database())`)
	}
}

// Explain returns PostgreSQL's result for "EXPLAIN" followed by options and a query, on a
// connection to the database that plans as the engine's connections do.
func Explain(tb testing.TB, db *engine.DB, conn *pgx.Conn, options, query string, in ...any) string {
	tb.Helper()
	if Value(tb, db, `SELECT CASE WHEN current_setting('enable_seqscan') = 'off' AND current_setting('jit') = 'off' THEN 1 ELSE 0 END`) != 1 {
		tb.Fatal("the engine plans otherwise")
	}
	if _, err := conn.Exec(tb.Context(), `SET enable_seqscan = off; SET jit = off`); err != nil {
		tb.Fatal(err)
	}
	rows, err := conn.Query(tb.Context(), "EXPLAIN "+options+" "+query, in...)
	if err != nil {
		tb.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		tb.Fatal(err)
	}
	return strings.Join(lines, "\n")
}

// Held is SQLite's writer, running a transaction until it is released, so that calls that arrive
// meanwhile become one batch.
type Held struct {
	db     *engine.DB
	open   chan struct{}
	result chan error
}

// Hold holds a database's writer.
func Hold(tb testing.TB, db *engine.DB) *Held {
	tb.Helper()
	h := &Held{db, make(chan struct{}), make(chan error, 1)}
	entered := make(chan struct{})
	var once sync.Once
	var e engine.Engine // which reads no clock
	db.Wrap(func(current engine.Engine) engine.Engine { e = current; return e })
	go func() {
		h.result <- e.Write(context.Background(), func(*engine.Tx) error {
			once.Do(func() { close(entered) })
			<-h.open
			return nil
		})
	}()
	<-entered
	return h
}

// Queued returns when n calls wait for the writer.
func (h *Held) Queued(n int) {
	for h.Waiting() < n {
		runtime.Gosched()
	}
}

// Waiting returns how many calls wait for the writer.
func (h *Held) Waiting() int { return h.db.Stats().SQLite.Queue }

// Release lets the writer continue.
func (h *Held) Release() { close(h.open) }

// Result returns the error of the transaction that held the writer.
func (h *Held) Result() error { return <-h.result }
