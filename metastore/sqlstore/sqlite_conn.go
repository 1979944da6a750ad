package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
)

// conn is one connection to the embedded engine and its prepared statements.
// One goroutine uses it at a time. It speaks to the driver itself: the pool of
// database/sql would cost a third of a batch for nothing, since connections
// are never shared and never replaced here.
type sqliteConn struct {
	driver     driver.Conn
	stmts      map[string]driver.Stmt
	in         []driver.NamedValue // parameters of the statement at work
	out        []driver.Value      // row of the result at work
	open       sqliteRows
	classifier func(error) errorClass
	inTx       bool // a transaction could not be left
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

// prepared gives the statement of a query. The queries are constants, so that
// their number is small.
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

// exec runs a statement and tells how many rows it changed.
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

// run executes a statement of which the count of rows means nothing.
func (c *sqliteConn) run(query string) error {
	_, err := c.exec(query, nil)
	return err
}

// leave ends the transaction that the connection may be in. Until it returns nil
// the connection may still be in it, and reads an old state.
func (c *sqliteConn) leave() error {
	err := c.run("ROLLBACK")
	if err != nil && c.run("BEGIN") == nil {
		// There was none: BEGIN fails within a transaction.
		err = c.run("ROLLBACK")
	}
	c.inTx = err != nil
	return err
}

// script runs the statements of a text, without keeping them prepared.
func (c *sqliteConn) script(text string) (err error) {
	s, err := c.driver.Prepare(text)
	if err != nil {
		return err
	}
	_, err = s.(driver.StmtExecContext).ExecContext(context.Background(), nil)
	return errors.Join(err, s.Close())
}

// result is the open result of a query.
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

func (c *sqliteConn) classify(err error) errorClass { return c.classifier(err) }

// next scans the next row; false at the end.
func (r *sqliteRows) next(out args) (bool, error) {
	for len(r.conn.out) < len(out) {
		r.conn.out = append(r.conn.out, nil)
	}
	row := r.conn.out[:len(out)]
	switch err := r.rows.Next(row); {
	case err == io.EOF: //nolint:errorlint // the driver's contract: io.EOF itself
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

// scan stores a column. Drivers give a []byte that is the caller's to keep
// only until the next row, so it is copied where it stays.
func scan(out, v any) error {
	switch out := out.(type) {
	case sql.Scanner:
		return out.Scan(v)
	case *string:
		switch v := v.(type) {
		case []byte:
			*out = string(v)
			return nil
		case string:
			*out = v
			return nil
		}
	case *[]byte:
		switch v := v.(type) {
		case []byte:
			*out = append([]byte(nil), v...)
			return nil
		case nil:
			*out = nil
			return nil
		}
	}
	return fmt.Errorf("%T does not go into %T", v, out)
}
