package engine

import (
	"context"
	"database/sql/driver"
	"errors"
	"testing"

	"sluice/database"
	"sluice/test/testenv"
)

// failingStmt is a statement that fails and has no effect.
type failingStmt struct {
	driver.Stmt
	err error
}

func (s failingStmt) ExecContext(context.Context, []driver.NamedValue) (driver.Result, error) {
	return nil, s.err
}

func (s failingStmt) QueryContext(context.Context, []driver.NamedValue) (driver.Rows, error) {
	return nil, s.err
}

func (s failingStmt) Close() error { return nil }

// TestFailedCheckpointStopsTheWriter: after a sync has failed in a checkpoint, the disk's contents
// are unknown.
func TestFailedCheckpointStopsTheWriter(t *testing.T) {
	c := testenv.Must(openSQLiteConn(databasePath(t), busyTimeout, nil))(t)
	defer closeConn(t, c)
	c.stmts["PRAGMA wal_checkpoint(PASSIVE)"] = sqliteStatement{Stmt: failingStmt{err: errors.New("the disk does not respond")}}
	c.classifier = func(error) errorClass { return classIO }
	h := newHealth()
	h.markReady()
	k := &checkpointer{conn: c, health: h, limit: maxLog}
	k.checkpoint()
	testenv.Is(t, h.err(), ErrStopped, "after a checkpoint that failed to sync")
}

// TestRefusalDependsOnItsBatch: a call's error may depend on another call in its batch. If their
// COMMIT's outcome is unknown, so is the error.
func TestRefusalDependsOnItsBatch(t *testing.T) {
	s, w := openWithWriter(t, databasePath(t))
	g := holdWriter(t, s)
	w.conn.stmts["COMMIT"] = sqliteStatement{Stmt: failingStmt{err: errors.New("the disk does not respond")}}
	changes, refused := make(chan error), make(chan error)
	go func() { changes <- s.Write(context.Background(), insertFact("a")) }()
	queued(w, 1)
	go func() {
		refused <- s.Write(context.Background(), func(t *Tx) error {
			var one Integer
			found, err := t.Row(`SELECT 1 FROM facts WHERE name = $1`, Args{[]byte("a")}, &one)
			if err == nil && found {
				err = database.ErrExists
			}
			return err
		})
	}()
	queued(w, 2)
	close(g.open)
	for name, result := range map[string]chan error{"the change": changes, "the refusal": refused, "the first": g.result} {
		if err := <-result; !errors.Is(err, database.ErrUnknownOutcome) || errors.Is(err, database.ErrExists) {
			t.Errorf("%s: %v, want only an unknown outcome", name, err)
		}
	}
	testenv.Is(t, testenv.Error(s.fact(t.Context(), "a")), database.ErrNotFound, "the fact")
}
