package engine

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	// maxFindings is how many findings CheckSQLite returns at most.
	maxFindings = 100
	// checkedWhole is what SQLite's checks return if they find nothing.
	checkedWhole = "ok"
	// checkCacheKiB is the page cache of a connection that checks. It reads by the map instead.
	checkCacheKiB = 2 << 10
)

// CheckSQLite reads the whole database at path, which no process may have open, and returns what is
// damaged in it: at most 100 findings in SQLite's words, and none if the database is whole. First
// all pages are checked, then each table with its indexes; step is called before each of these
// steps. CheckSQLite changes no content, and ends soon after ctx with its error.
func CheckSQLite(ctx context.Context, path string, step func(done, total int) error) (found []string, err error) {
	c, err := openChecking(path)
	if err != nil {
		return damage(nil, err)
	}
	defer func() { err = errors.Join(err, c.close()) }()
	if err := step(0, 1); err != nil {
		return nil, err
	}
	found, err = damage(c.check(ctx, "quick_check", ""))
	if err != nil || len(found) > 0 { // in damaged pages the rest would find the same again
		return found, err
	}
	tables, err := c.tables()
	if err != nil {
		return damage(nil, err)
	}
	for i, table := range tables {
		if err := step(1+i, 1+len(tables)); err != nil {
			return nil, err
		}
		more, err := damage(c.check(ctx, "integrity_check", table))
		if err != nil {
			return nil, err
		}
		if found = append(found, more...); len(found) >= maxFindings {
			return found[:maxFindings], nil
		}
	}
	return found, nil
}

// quickCheck implements Engine. Each table is checked by a statement of its own, because the log
// cannot be restarted while a statement reads from it.
func (e *sqliteEngine) quickCheck(ctx context.Context, rest func(took time.Duration)) (err error) {
	c, err := openChecking(e.path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	tables, err := c.tables()
	if err != nil {
		return e.damaged(nil, err)
	}
	for _, table := range tables {
		began := time.Now()
		if err := e.damaged(c.check(ctx, "quick_check", table)); err != nil {
			return err
		}
		rest(time.Since(began))
	}
	return nil
}

// damaged makes the store refuse writes if a check has found something, and returns why.
func (e *sqliteEngine) damaged(found []string, err error) error {
	if found, err = damage(found, err); err != nil || len(found) == 0 {
		return err
	}
	e.health.observe(classCorrupt, errors.New(strings.Join(found, "; ")))
	return e.health.err()
}

// damage returns an error that says that the database is damaged as a finding.
func damage(found []string, err error) ([]string, error) {
	if err != nil && classifySQLite(err) == classCorrupt {
		return []string{err.Error()}, nil
	}
	return found, err
}

// openChecking opens a connection for checks. It has no part in the pool for reads.
func openChecking(path string) (*sqliteConn, error) {
	return openSQLiteConn(path, busyTimeout, []string{"query_only(1)", fmt.Sprintf("cache_size(-%d)", checkCacheKiB), fmt.Sprintf("mmap_size(%d)", mmapSize)})
}

// tables returns the names of all tables, SQLite's own first, with which its list of free pages is
// checked.
func (c *sqliteConn) tables() ([]string, error) {
	list := []string{"sqlite_schema"}
	text, err := c.text(context.Background(), `SELECT COALESCE(group_concat(name, char(10)), '') FROM sqlite_schema WHERE type = 'table'`)
	return append(list, slices.Sorted(strings.FieldsFuncSeq(text, func(r rune) bool { return r == '\n' }))...), err
}

// check runs one of SQLite's checks, on a table or on all, and returns what it finds.
func (c *sqliteConn) check(ctx context.Context, pragma, table string) ([]string, error) {
	call := "pragma_" + pragma
	if table != "" {
		call += "('" + table + "')" // a name of our schema, which has no quotes
	}
	text, err := c.text(ctx, "SELECT group_concat("+pragma+", char(10)) FROM "+call)
	if err != nil || text == checkedWhole {
		return nil, err
	}
	return strings.Split(text, "\n"), nil
}

// text returns the text that a query returns in its only row, and ctx's error soon after ctx has
// ended. SQLite computes all of it before it returns the row, and a row is what the driver can wait
// for with a context.
func (c *sqliteConn) text(ctx context.Context, query string) (_ string, err error) {
	s, err := c.driver.Prepare(query)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	rows, err := s.(driver.StmtQueryContext).QueryContext(ctx, nil)
	if err != nil {
		return "", err
	}
	row := []driver.Value{nil}
	err = rows.Next(row)
	text, _ := row[0].(string)
	return text, errors.Join(err, rows.Close())
}
