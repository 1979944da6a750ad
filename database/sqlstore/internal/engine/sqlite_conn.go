package engine

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
)

// sqliteConn is a connection to SQLite with its prepared statements, for one goroutine at a time.
// It uses the driver directly: connections are never shared or replaced here, and database/sql's
// pool would take a third of a batch's time.
type sqliteConn struct {
	driver     driver.Conn
	stmts      map[string]sqliteStatement
	in         []driver.NamedValue // reused for the parameters of each statement
	out        []driver.Value      // reused for each row
	open       sqliteRows
	classifier func(error) errorClass
	inTx       bool // a rollback failed
}

func newSQLiteConn(d driver.Conn, classify func(error) errorClass) *sqliteConn {
	return &sqliteConn{driver: d, stmts: map[string]sqliteStatement{}, classifier: classify}
}

func (c *sqliteConn) close() error {
	var errs []error
	for _, s := range c.stmts {
		errs = append(errs, s.Close())
	}
	return errors.Join(append(errs, c.driver.Close())...)
}

// sqliteStatement is a prepared statement.
type sqliteStatement struct {
	driver.Stmt
	params []int // for each parameter, its value's index in the args
}

// prepared returns a query's prepared statement. Queries are constants, so that their number is
// small.
func (c *sqliteConn) prepared(query string) (sqliteStatement, error) {
	if s, ok := c.stmts[query]; ok {
		return s, nil
	}
	text, params := numberless(query)
	prepared, err := c.driver.Prepare(text)
	if err != nil {
		return sqliteStatement{}, err
	}
	s := sqliteStatement{prepared, params}
	c.stmts[query] = s
	return s, nil
}

var numbered = regexp.MustCompile(`\$[0-9]+`)

// numberless replaces a query's parameters $1, $2 and so on by ?, and returns each one's index in
// the args. The driver asks SQLite for every named parameter's name each time it is bound.
func numberless(query string) (text string, params []int) {
	text = numbered.ReplaceAllStringFunc(query, func(name string) string {
		n, err := strconv.Atoi(name[1:])
		if err != nil {
			panic(err) // not in a constant
		}
		params = append(params, n-1)
		return "?"
	})
	return text, params
}

// bind returns the parameters of s. The result is valid until the next call.
func (c *sqliteConn) bind(s sqliteStatement, in Args) []driver.NamedValue {
	c.in = c.in[:0]
	for i, at := range s.params {
		c.in = append(c.in, driver.NamedValue{Ordinal: i + 1, Value: in[at]})
	}
	return c.in
}

// exec implements runner.
func (c *sqliteConn) exec(query string, in Args) (int64, error) {
	s, err := c.prepared(query)
	if err != nil {
		return 0, err
	}
	r, err := s.Stmt.(driver.StmtExecContext).ExecContext(context.Background(), c.bind(s, in))
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

// change implements runner.
func (c *sqliteConn) change(query string, in Args) error {
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

// nodes implements migrator. A data folder has one server, which holds its lock.
func (c *sqliteConn) nodes() (int64, error) { return 0, nil }

// script runs a text's statements without caching them.
func (c *sqliteConn) script(text string) (err error) {
	s, err := c.driver.Prepare(text)
	if err != nil {
		return err
	}
	_, err = s.(driver.StmtExecContext).ExecContext(context.Background(), nil)
	return errors.Join(err, s.Close())
}

// sqliteRows is a query's open result.
type sqliteRows struct {
	conn *sqliteConn
	rows driver.Rows
}

func (c *sqliteConn) query(query string, in Args) (cursor, error) {
	s, err := c.prepared(query)
	if err != nil {
		return nil, err
	}
	r, err := s.Stmt.(driver.StmtQueryContext).QueryContext(context.Background(), c.bind(s, in))
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
func (r *sqliteRows) next(out Args) (bool, error) {
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
