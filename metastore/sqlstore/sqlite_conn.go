package sqlstore

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
)

// sqliteConn is a connection to SQLite with its prepared statements, for one goroutine at a
// time. It uses the driver directly: connections are never shared or replaced here, and
// the pool of database/sql would cost a third of the time of a batch.
type sqliteConn struct {
	driver     driver.Conn
	stmts      map[string]driver.Stmt
	in         []driver.NamedValue // reused for the parameters of each statement
	out        []driver.Value      // reused for each row
	open       sqliteRows
	classifier func(error) errorClass
	inTx       bool // a rollback failed
}

func newSQLiteConn(d driver.Conn, classify func(error) errorClass) *sqliteConn {
	return &sqliteConn{driver: d, stmts: map[string]driver.Stmt{}, classifier: classify}
}

func (c *sqliteConn) close() error {
	var errs []error
	for _, s := range c.stmts {
		errs = append(errs, s.Close())
	}
	return errors.Join(append(errs, c.driver.Close())...)
}

// prepared returns the prepared statement of a query. Queries are constants, so that their
// number is small.
func (c *sqliteConn) prepared(query string) (driver.Stmt, error) {
	if s, ok := c.stmts[query]; ok {
		return s, nil
	}
	s, err := c.driver.Prepare(query)
	if err != nil {
		return nil, err
	}
	c.stmts[query] = s
	return s, nil
}

func (c *sqliteConn) bind(in args) []driver.NamedValue {
	c.in = c.in[:0]
	for i, v := range in {
		c.in = append(c.in, driver.NamedValue{Ordinal: i + 1, Value: v})
	}
	return c.in
}

// exec implements runner.
func (c *sqliteConn) exec(query string, in args) (int64, error) {
	s, err := c.prepared(query)
	if err != nil {
		return 0, err
	}
	r, err := s.(driver.StmtExecContext).ExecContext(context.Background(), c.bind(in))
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

// change implements runner.
func (c *sqliteConn) change(query string, in args) error {
	_, err := c.exec(query, in)
	return err
}

// run executes a statement without parameters and ignores the number of rows.
func (c *sqliteConn) run(query string) error {
	_, err := c.exec(query, nil)
	return err
}

// rollback rolls back the transaction that the connection may be in. Until it returns nil the
// connection may still be in the transaction and read an old state.
func (c *sqliteConn) rollback() error {
	err := c.run("ROLLBACK")
	if err != nil && c.run("BEGIN") == nil {
		// There was no transaction: BEGIN fails within one.
		err = c.run("ROLLBACK")
	}
	c.inTx = err != nil
	return err
}

// script runs the statements of a text without caching them.
func (c *sqliteConn) script(text string) (err error) {
	s, err := c.driver.Prepare(text)
	if err != nil {
		return err
	}
	_, err = s.(driver.StmtExecContext).ExecContext(context.Background(), nil)
	return errors.Join(err, s.Close())
}

// sqliteRows is the open result of a query.
type sqliteRows struct {
	conn *sqliteConn
	rows driver.Rows
}

func (c *sqliteConn) query(query string, in args) (cursor, error) {
	s, err := c.prepared(query)
	if err != nil {
		return nil, err
	}
	r, err := s.(driver.StmtQueryContext).QueryContext(context.Background(), c.bind(in))
	if err != nil {
		return nil, err
	}
	c.open = sqliteRows{conn: c, rows: r}
	return &c.open, nil
}

// forUpdate implements runner: there is one writer at a time.
func (c *sqliteConn) forUpdate() string { return "" }

// lock implements runner: there is one writer at a time.
func (c *sqliteConn) lock(string, []string) error { return nil }

func (c *sqliteConn) classify(err error) errorClass { return c.classifier(err) }

// embedded implements runner.
func (c *sqliteConn) embedded() bool { return true }

// next implements cursor.
func (r *sqliteRows) next(out args) (bool, error) {
	for len(r.conn.out) < len(out) {
		r.conn.out = append(r.conn.out, nil)
	}
	row := r.conn.out[:len(out)]
	switch err := r.rows.Next(row); {
	case err == io.EOF: //nolint:errorlint // drivers return io.EOF itself
		return false, nil
	case err != nil:
		return false, err
	}
	for i, v := range row {
		if err := scan(out[i], v); err != nil {
			return false, fmt.Errorf("column %d: %w", i+1, err)
		}
	}
	return true, nil
}

func (r *sqliteRows) close() error { return r.rows.Close() }
