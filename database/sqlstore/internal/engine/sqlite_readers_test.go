package engine

import (
	"context"
	"database/sql/driver"
	"errors"
	"testing"

	"sluice/database"
	"sluice/test/testenv"
)

var errRollback = errors.New("rollback failed")

// badRollback is a connection that fails its next rollbacks and stays in its transaction.
type badRollback struct {
	driver.Conn
	fail int
}

func (c *badRollback) Prepare(query string) (driver.Stmt, error) {
	s, err := c.Conn.Prepare(query)
	if err == nil && query == "ROLLBACK" {
		s = &badStmt{Stmt: s, conn: c}
	}
	return s, err
}

type badStmt struct {
	driver.Stmt
	conn *badRollback
}

func (s *badStmt) ExecContext(ctx context.Context, in []driver.NamedValue) (driver.Result, error) {
	if s.conn.fail > 0 {
		s.conn.fail--
		return nil, errRollback
	}
	return s.Stmt.(driver.StmtExecContext).ExecContext(ctx, in)
}

// TestReaderEndsItsTransaction makes the only reader's rollbacks fail: no later read sees the old
// state, regardless of how long the connection stays in the transaction.
func TestReaderEndsItsTransaction(t *testing.T) {
	ctx := t.Context()
	e := testenv.Must(openSQLiteEngine(databasePath(t), Options{Readers: 1}))(t)
	s := testDB{testenv.Must(newDB(t.Context(), e, nil))(t)}
	testenv.AtEnd(t, s.Close)
	c := <-e.readers.free
	bad := &badRollback{Conn: c.driver}
	c.driver = bad
	e.readers.free <- c

	snapshot := func() error {
		return s.Snapshot(ctx, func(t *Tx) error { _, err := t.Row(`SELECT 1 FROM facts`, nil, new(Integer)); return err })
	}
	testenv.OK(t, snapshot())
	bad.fail = 3
	testenv.Is(t, snapshot(), errRollback, "a read whose transaction does not end")
	testenv.OK(t, s.setFact(ctx, "fact", "v"))
	refused := 0
	for {
		got, err := s.fact(ctx, "fact")
		if err == nil {
			testenv.Equal(t, got, "v", "the fact")
			break
		}
		if errors.Is(err, database.ErrNotFound) {
			t.Fatal("a read saw the state of an earlier transaction")
		}
		if refused++; refused > 3 {
			t.Fatalf("the connection is not returned: %v", err)
		}
	}
	if refused == 0 {
		t.Error("no read hit the failing rollback")
	}
	testenv.Is(t, snapshot(), nil, "a snapshot afterwards")
	// The engine may have ended the transaction by itself.
	err := s.Snapshot(ctx, func(t *Tx) error { return t.conn.(*sqliteConn).run("ROLLBACK") })
	testenv.Is(t, err, nil, "a snapshot whose transaction the engine ended")
}

// TestTempFiles: readers sort in files if that is wanted, and otherwise in memory.
func TestTempFiles(t *testing.T) {
	for wanted, store := range map[bool]int64{true: 1, false: 2} {
		s := openAt(t, databasePath(t), Options{TempFiles: wanted})
		testenv.Equal(t, value(t, s, `PRAGMA temp_store`), store, "the place for temporary tables with TempFiles %t", wanted)
	}
}
