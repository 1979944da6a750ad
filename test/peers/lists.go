//go:build linux

package main

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"modernc.org/sqlite"

	"sluice/internal/datadir"
	"sluice/internal/gcfloor"
	"sluice/metastore"
	"sluice/storage"
)

func listsGroup() *group {
	return &group{name: "lists", title: "Lists", prepare: prepareLists, notes: []string{
		"We measured a page of 1,000 of 1,000,000 names, after a random one: a call of the metadata store, and an index scan that reads the same rows by the engine's driver, both in the benchmark's process, without HTTP.",
	}}
}

const (
	listedNames = 1_000_000
	pageSize    = 1000
	listAccount = "lists"
	firstName   = "row"
)

// serverHeap is a server's least Go heap, below which Go collects nothing.
const serverHeap = 64 << 20

func listedName(i int) string { return fmt.Sprintf("names/%07d", i) }

// scanPage reads a page's columns, in index order.
const scanPage = `SELECT name_head, content, size, crc64, part_size, sha256, content_type, modified, expires, owner, shared_second
	FROM blobs WHERE account = $1 AND name_head >= $2 ORDER BY name_head, name_hash LIMIT 1000`

func prepareLists(ctx context.Context, e *environment) ([]*row, error) {
	if err := e.requireSpace(2); err != nil {
		return nil, err
	}
	gcfloor.Set(serverHeap)
	embedded, err := e.fillSQLite(ctx)
	if err != nil {
		return nil, err
	}
	rows := []*row{embedded}
	shared, err := e.fillPostgres(ctx)
	if err != nil {
		failed := side{"sluice", func(context.Context, time.Duration) (measurement, error) { return measurement{}, err }}
		shared = &row{name: listPostgres, unit: microseconds, sluice: failed, peers: []peer{{side: always("index scan by pgx", 1), target: listTarget, atMost: true}}}
	}
	return append(rows, shared), nil
}

const (
	listSQLite   = "1,000 names, SQLite"
	listPostgres = "1,000 names, PostgreSQL"
	listTarget   = 1.3
	microseconds = "us, median"
)

// listRow returns a row that compares a store's pages with a scan.
func listRow(name, scanner string, s *storage.Stores, scan func(ctx context.Context, after string) (rows int, err error)) *row {
	page := func(ctx context.Context, after string) (int, error) {
		p, err := s.Meta.ListBlobs(ctx, metastore.ListQuery{Account: listAccount, After: after, Limit: pageSize})
		return len(p.Blobs), err
	}
	one := func(name string, fn func(context.Context, string) (int, error)) side {
		return side{name, func(ctx context.Context, d time.Duration) (measurement, error) { return callPages(ctx, d, fn) }}
	}
	return &row{name: name, unit: microseconds, sluice: one("sluice", page), peers: []peer{{side: one(scanner, scan), target: listTarget, atMost: true}}}
}

// callPages reads pages after random names for a time, and returns the median of their times.
func callPages(ctx context.Context, d time.Duration, page func(ctx context.Context, after string) (rows int, err error)) (m measurement, err error) {
	var times []float64
	before, err := ownTime()
	if err != nil {
		return m, err
	}
	for begin := time.Now(); time.Since(begin) < d; {
		called := time.Now()
		n, err := page(ctx, listedName(rand.IntN(listedNames-pageSize-1)))
		if err := errors.Join(err, errorIf(n != pageSize, fmt.Sprintf("the page has %d names", n))); err != nil {
			return m, err
		}
		times = append(times, float64(time.Since(called))/float64(time.Microsecond))
	}
	after, err := ownTime()
	return measurement{median(times), float64((after-before)/time.Microsecond) / float64(len(times))}, err
}

// ownTime returns the processor time of this process.
func ownTime() (time.Duration, error) {
	var u syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), err
}

// openStore opens a store with one empty blob. Its row is copied.
func (e *environment) openStore(ctx context.Context, l storage.Location) (*storage.Stores, error) {
	s, err := storage.OpenMeta(ctx, l, true)
	if err != nil {
		return nil, err
	}
	e.closers = append(e.closers, s.Close)
	return s, commitFirst(ctx, s)
}

// commitFirst stores an empty blob. A list's names are copies of it.
func commitFirst(ctx context.Context, s *storage.Stores) error {
	_, err := s.Meta.CommitBlob(ctx, metastore.Blob{Account: listAccount, Name: firstName, Content: metastore.ContentID{1}, ContentType: "text/plain"}, nil, nil)
	return err
}

// copyRows returns the statement that copies the blob's row, with some columns replaced.
func copyRows(columns []string, replaced map[string]string, series string) string {
	values := slices.Clone(columns)
	for i, column := range columns {
		values[i] = cmp.Or(replaced[column], column)
	}
	return fmt.Sprintf(`INSERT INTO blobs (%s) SELECT %s FROM blobs, %s`, strings.Join(columns, ", "), strings.Join(values, ", "), series)
}

func (e *environment) fillSQLite(ctx context.Context) (*row, error) {
	l := storage.Location{Data: filepath.Join(e.work, "lists")}
	s, err := e.openStore(ctx, l)
	if err != nil {
		return nil, err
	}
	// database/sql would add its own time.
	opened, err := new(sqlite.Driver).Open(filepath.Join(l.Data, datadir.Database))
	if err != nil {
		return nil, err
	}
	e.closers = append(e.closers, opened.Close)
	c := opened.(sqliteConn)
	columns, err := columnsOfBlobs(ctx, c)
	if err != nil {
		return nil, err
	}
	_, err = c.ExecContext(ctx, copyRows(columns, map[string]string{"name_head": "CAST(printf('names/%07d', i) AS BLOB)", "content": "randomblob(16)"},
		sqliteSeries(listedNames)), nil)
	if err != nil {
		return nil, err
	}
	statement, err := c.PrepareContext(ctx, scanPage)
	if err != nil {
		return nil, err
	}
	e.closers = append(e.closers, statement.Close)
	return listRow(listSQLite, "index scan by the driver", s, func(ctx context.Context, after string) (n int, err error) {
		rows, err := statement.(driver.StmtQueryContext).QueryContext(ctx, []driver.NamedValue{{Ordinal: 1, Value: []byte(listAccount)}, {Ordinal: 2, Value: []byte(after)}})
		if err != nil {
			return 0, err
		}
		return n, eachRow(rows, func([]driver.Value) { n++ })
	}), nil
}

// columnsOfBlobs returns the columns in the table of blobs.
func columnsOfBlobs(ctx context.Context, c sqliteConn) (columns []string, err error) {
	err = queryRows(ctx, c, `SELECT name FROM pragma_table_info('blobs')`, nil, func(row []driver.Value) { columns = append(columns, fmt.Sprint(row[0])) })
	return columns, err
}

// sqliteSeries returns the numbers i below n as a table of SQLite.
func sqliteSeries(n int) string {
	return fmt.Sprintf("(WITH RECURSIVE s (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM s WHERE i < %d) SELECT i FROM s)", n-1)
}

// sqliteConn are the driver's connections' methods.
type sqliteConn interface {
	driver.QueryerContext
	driver.ExecerContext
	driver.ConnPrepareContext
}

func queryRows(ctx context.Context, c sqliteConn, query string, args []driver.NamedValue, fn func([]driver.Value)) error {
	rows, err := c.QueryContext(ctx, query, args)
	if err != nil {
		return err
	}
	return eachRow(rows, fn)
}

// eachRow calls fn for each row, and closes the rows.
func eachRow(rows driver.Rows, fn func([]driver.Value)) error {
	row := make([]driver.Value, len(rows.Columns()))
	for {
		err := rows.Next(row)
		if errors.Is(err, io.EOF) {
			return rows.Close()
		}
		if err != nil {
			return errors.Join(err, rows.Close())
		}
		fn(row)
	}
}

func (e *environment) fillPostgres(ctx context.Context) (*row, error) {
	if err := e.need("postgres"); err != nil {
		return nil, err
	}
	server, err := e.startPostgres(ctx)
	if err != nil {
		return nil, err
	}
	s, err := e.openStore(ctx, storage.Location{Meta: server.DSN()})
	if err != nil {
		return nil, err
	}
	c, err := pgx.Connect(ctx, server.DSN())
	if err != nil {
		return nil, err
	}
	e.closers = append(e.closers, func() error { return c.Close(context.WithoutCancel(ctx)) })
	found, err := c.Query(ctx, `SELECT CAST(column_name AS TEXT) FROM information_schema.columns WHERE table_name = 'blobs' AND table_schema = current_schema()`)
	if err != nil {
		return nil, err
	}
	columns, err := pgx.CollectRows(found, pgx.RowTo[string])
	if err != nil {
		return nil, err
	}
	if _, err := c.Exec(ctx, copyRows(columns, map[string]string{"name_head": "convert_to('names/' || lpad(CAST(i AS TEXT), 7, '0'), 'UTF8')", "content": "decode(md5(CAST(i AS TEXT)), 'hex')"},
		fmt.Sprintf("generate_series(0, %d) i", listedNames-1))); err != nil {
		return nil, err
	}
	if _, err := c.Exec(ctx, "VACUUM ANALYZE blobs"); err != nil {
		return nil, err
	}
	return listRow(listPostgres, "index scan by pgx", s, func(ctx context.Context, after string) (n int, err error) {
		rows, err := c.Query(ctx, scanPage, []byte(listAccount), []byte(after))
		if err != nil {
			return 0, err
		}
		for rows.Next() {
			_ = rows.RawValues()
			n++
		}
		return n, rows.Err()
	}), nil
}
