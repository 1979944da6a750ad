package engine

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

const (
	// maxFindings is how many findings CheckSQLite returns at most.
	maxFindings = 100
	// quickFindings is how many a quick check looks for in a table. One is enough to refuse writes,
	// and to look for more cannot be interrupted.
	quickFindings = 1
	// checkedWhole is the result of SQLite's checks if they find nothing.
	checkedWhole = "ok"
	// checkCacheKiB is the page cache when a connection checks. It reads by the map instead.
	checkCacheKiB = 2 << 10
)

// CheckSQLite reads the whole database at path, which no process may have open, and returns its
// damage: at most 100 findings in SQLite's words, and none if the database is whole. First all
// pages are checked, then each table with its indexes; step is called before each step. CheckSQLite
// changes no content, and ends soon after ctx with its error.
func CheckSQLite(ctx context.Context, path string, step func(done, total int) error) (found []string, err error) {
	if err := checkLog(path); errors.Is(err, ErrCorrupt) {
		return []string{err.Error()}, nil
	} else if err != nil {
		return nil, err
	}
	c, err := openChecking(path)
	if err != nil {
		return damage(nil, err)
	}
	defer func() { err = errors.Join(err, c.close()) }()
	if err := step(0, 1); err != nil {
		return nil, err
	}
	found, err = c.check(ctx, "quick_check", "", maxFindings)
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
		more, err := c.check(ctx, "integrity_check", table, maxFindings-len(found))
		if found = append(found, more...); err != nil || len(found) == maxFindings {
			return found, err
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
		return e.damaged(damage(nil, err))
	}
	for _, table := range tables {
		began := time.Now()
		if err := e.damaged(c.check(ctx, "quick_check", table, quickFindings)); err != nil {
			return err
		}
		rest(time.Since(began))
	}
	return nil
}

// checkPages implements Engine, with a statement for each table like quickCheck.
func (e *sqliteEngine) checkPages(ctx context.Context, step func(done, total int) error) (found []string, unchecked string, err error) {
	c, err := openChecking(e.path)
	if err != nil {
		found, err = damage(nil, err)
		return found, "", err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	tables, err := c.tables()
	if err != nil {
		found, err = damage(nil, err)
		return found, "", err
	}
	for i, name := range tables {
		if err := step(i, len(tables)); err != nil {
			return found, "", err
		}
		more, err := c.check(ctx, "integrity_check", name, maxFindings-len(found))
		if found = append(found, more...); err != nil || len(found) == maxFindings {
			return found, "", err
		}
	}
	return found, "", step(len(tables), len(tables))
}

// damaged makes the store refuse writes if a check has found something, and returns why.
func (e *sqliteEngine) damaged(found []string, err error) error {
	if err != nil || len(found) == 0 {
		return err
	}
	e.health.observe(classCorrupt, errors.New(strings.Join(found, "; ")))
	return e.health.err()
}

// openChecking opens a connection for checks. It has no part in the pool for reads.
func openChecking(path string) (*sqliteConn, error) {
	return openSQLiteConn(path, busyTimeout, []string{"query_only(1)", fmt.Sprintf("cache_size(-%d)", checkCacheKiB), fmt.Sprintf("mmap_size(%d)", mmapSize)})
}

// tables returns the names of all tables, SQLite's own first, with which its list of free pages is
// checked.
func (c *sqliteConn) tables() ([]string, error) {
	list := []string{"sqlite_schema"}
	var name string
	err := (&Tx{conn: c}).Each(`SELECT CAST(name AS BLOB) FROM sqlite_schema WHERE type = 'table' ORDER BY name`, nil, Args{&name}, func() error {
		list = append(list, name)
		return nil
	})
	return list, err
}

// check runs one of SQLite's checks, on a table or on all, and returns up to limit lines with its
// findings. It returns ctx's error soon after ctx has ended, unless something was found.
func (c *sqliteConn) check(ctx context.Context, pragma, table string, limit int) (found []string, err error) {
	if table != "" {
		pragma += "('" + table + "')" // a name of our schema, which has no quotes
	}
	s, err := c.driver.Prepare("PRAGMA " + pragma)
	if err != nil {
		return damage(nil, err)
	}
	found, err = c.findings(ctx, s, limit)
	if closed := s.Close(); err == nil { // otherwise it returns the same error again
		err = closed
	}
	found, err = damage(found, err)
	return found[:min(len(found), limit)], err
}

// findings returns the first lines that a check returns, without the one for a whole database.
func (c *sqliteConn) findings(ctx context.Context, s driver.Stmt, limit int) (found []string, err error) {
	// The driver waits for the first row with the context. A database that is whole has only one.
	rows, err := s.(driver.StmtQueryContext).QueryContext(ctx, nil)
	if err != nil {
		return nil, err
	}
	row := []driver.Value{nil}
	for len(found) < limit && err == nil {
		if err = rows.Next(row); err == nil && row[0] != checkedWhole {
			text, _ := row[0].(string)
			found = append(found, strings.Split(text, "\n")...)
		}
	}
	closed := rows.Close()
	if err == nil || err == io.EOF { //nolint:errorlint // drivers return io.EOF itself
		err = closed
	}
	return found, err
}

// damage adds an error to the findings if it means that the database is damaged.
func damage(found []string, err error) ([]string, error) {
	if err != nil && classifySQLite(err) == classCorrupt {
		return append(found, err.Error()), nil
	}
	return found, err
}
