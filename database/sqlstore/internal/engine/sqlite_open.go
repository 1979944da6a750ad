package engine

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"modernc.org/sqlite"

	"sluice/database"
)

const (
	// sqliteBegin takes the write lock immediately. A transaction that takes it later fails
	// if it has read a state that is no longer the last.
	sqliteBegin = "BEGIN IMMEDIATE"
	// mmapSize exceeds SQLite's own limit: it maps just under 2 GiB. Without a map, readers contend
	// for the mutex of SQLite's allocator.
	mmapSize = 1 << 40
	// writerCacheKiB is the writer's page cache. SQLite scans the cache's whole hash table in each
	// commit that has rebalanced a tree of less than 1 GiB, so that a larger cache makes commits
	// slower.
	writerCacheKiB = 16 << 10
	// busyTimeout is how long SQLite waits for a lock before callers can cancel.
	busyTimeout = 500 * time.Millisecond
)

// OpenSQLite opens the database at path; see sqlstore.OpenSQLite.
func OpenSQLite(path string, opt Options) (*DB, error) {
	eng, err := openSQLiteEngine(path, opt)
	var db *DB
	if err == nil {
		db, err = newDB(context.Background(), eng, opt.Now)
	}
	if err != nil {
		switch class := classifySQLite(err); {
		case class == classFull && !errors.Is(err, database.ErrNoSpace):
			err = fmt.Errorf("%w: %w", database.ErrNoSpace, err)
		case class == classCorrupt:
			err = fmt.Errorf("%w: %w", ErrCorrupt, err)
		}
		return nil, fmt.Errorf("sqlstore: open %s: %w", path, err)
	}
	return db, nil
}

// sqliteEngine is the engine for SQLite: one connection for writes, a pool for reads and a
// connection for checkpoints.
type sqliteEngine struct {
	writer       *writer
	readers      *readers
	checkpointer *checkpointer
	health       *health
	guard        *commitGuard
	wallClock    *wallClock
	path         string // of the database
	versions
	closing func() error
}

var _ Engine = (*sqliteEngine)(nil)

func openSQLiteEngine(path string, opt Options) (*sqliteEngine, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if !opt.Beside {
		if err := checkLog(path); err != nil {
			return nil, err
		}
	}
	write, found, err := openWriterConn(path, opt)
	if err != nil {
		return nil, err
	}
	check, err := openSQLiteConn(path, checkpointTimeout, nil)
	if err != nil {
		return nil, errors.Join(err, write.close())
	}
	h := newHealth()
	pool, err := openReaders(path, opt, h)
	if err != nil {
		return nil, errors.Join(err, write.close(), check.close())
	}
	rows := opt.Rows
	if rows == nil {
		rows = noWatcher{}
	}
	g := &commitGuard{}
	w := newWriter(write, sqliteBegin, h, g, rows)
	e := &sqliteEngine{
		writer: w, readers: pool, checkpointer: newCheckpointer(check, w, opt.Beside), health: h, guard: g,
		wallClock: newWallClock(opt.Wall, opt.Passed), path: path, versions: found,
	}
	e.closing = sync.OnceValue(e.closeAll)
	return e, nil
}

// openWriterConn opens the connection for writes, and changes the schema as opt permits.
func openWriterConn(path string, opt Options) (*sqliteConn, versions, error) {
	if opt.Schema == Keep {
		if _, err := os.Stat(path); err != nil { // SQLite would create it
			return nil, versions{}, err
		}
	}
	c, err := openSQLiteConn(path, busyTimeout, []string{fmt.Sprintf("cache_size(-%d)", writerCacheKiB)})
	if err != nil {
		return nil, versions{}, err
	}
	found, err := prepareSQLite(c, opt)
	if err == nil {
		err = checkDurable(c)
	}
	if err != nil {
		return nil, versions{}, errors.Join(err, c.close())
	}
	return c, found, nil
}

// openReaders opens the connections for reads.
func openReaders(path string, opt Options, h *health) (*readers, error) {
	pragmas := []string{"query_only(1)", "cache_size(-8192)", fmt.Sprintf("mmap_size(%d)", mmapSize)}
	if opt.TempFiles {
		pragmas = append(pragmas, tempFiles)
	}
	n := opt.Readers
	if n == 0 {
		n = min(max(runtime.NumCPU(), 4), 8)
	}
	return newReaders(n, h, func() (*sqliteConn, error) {
		return openSQLiteConn(path, busyTimeout, pragmas)
	})
}

func (e *sqliteEngine) Write(ctx context.Context, fn func(*Tx) error) error {
	return e.writer.write(ctx, fn)
}

// WriteLocked is Write, because there is one writer.
func (e *sqliteEngine) WriteLocked(ctx context.Context, fn func(*Tx) error) error {
	return e.writer.write(ctx, fn)
}

// StartLocked implements Engine. It does not need until: callers do not wait for each other longer
// than for the queue.
func (e *sqliteEngine) StartLocked(_ time.Time, fn func(*Tx) error, done func(any, error)) error {
	return e.writer.start(fn, done)
}

func (e *sqliteEngine) oneWriter() bool { return true }

func (e *sqliteEngine) Read(ctx context.Context, fn func(*Tx) error) error {
	return e.readers.read(ctx, fn)
}

func (e *sqliteEngine) Snapshot(ctx context.Context, fn func(*Tx) error) error {
	return e.readers.snapshot(ctx, fn)
}

// Survey implements Engine: no snapshot has a time limit.
func (e *sqliteEngine) Survey(ctx context.Context, fn func(*Tx) error) error {
	return e.readers.snapshot(ctx, fn)
}

func (e *sqliteEngine) err() error {
	if e.writer.isClosed() {
		return ErrClosed
	}
	return e.health.err()
}

func (e *sqliteEngine) stopped() <-chan struct{} { return e.health.stopped }

func (e *sqliteEngine) clock() engineClock { return e.wallClock }

func (e *sqliteEngine) leaseTime(t *Tx) (time.Time, error) { return t.Now, nil }

func (e *sqliteEngine) commitGuard() *commitGuard { return e.guard }

func (e *sqliteEngine) lostCommits() error { return nil }

func (e *sqliteEngine) forgetCommits() {}

func (e *sqliteEngine) listsInside() bool { return false }

// maxLists returns half the connections for reads. Lists wait for nothing, so more of them would
// only share the processors.
func (e *sqliteEngine) maxLists() int { return max(1, cap(e.readers.free)/2) }

func (e *sqliteEngine) close() error { return e.closing() }

func (e *sqliteEngine) closeAll() error {
	e.writer.close()
	e.checkpointer.close()
	return errors.Join(e.readers.close(), e.checkpointer.conn.close(), e.writer.conn.close())
}

// tempFiles is the pragma that replaces the one by which temporary tables are in memory.
const tempFiles = "temp_store(FILE)"

// openSQLiteConn opens a connection with the settings of all connections and these pragmas. The
// driver does not run them in their order, so there must not be two for one setting.
func openSQLiteConn(path string, busy time.Duration, pragmas []string) (*sqliteConn, error) {
	if !slices.Contains(pragmas, tempFiles) {
		pragmas = append(slices.Clone(pragmas), "temp_store(MEMORY)")
	}
	q := url.Values{"_pragma": append([]string{
		fmt.Sprintf("busy_timeout(%d)", busy.Milliseconds()),
		"synchronous(FULL)",
		// fsync does not flush the disk's cache on every system.
		"fullfsync(1)", "checkpoint_fullfsync(1)",
		"wal_autocheckpoint(0)", // see checkpointer
		"journal_size_limit(67108864)",
	}, pragmas...)}
	q.Set("psow", "1") // see commitRefused
	name := "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + q.Encode()
	var c *sqliteConn
	err := retryBusy(func() error {
		d, err := new(sqlite.Driver).Open(name)
		if err == nil {
			c = newSQLiteConn(d, sqliteClassifier(func() error { return probeSpace(filepath.Dir(path)) }))
		}
		return err
	})
	return c, err
}

// sqliteVersionTables counts the tables with the name schema_version.
const sqliteVersionTables = `SELECT COUNT(*) FROM sqlite_master WHERE type = 'table' AND name = 'schema_version'`

// prepareSQLite checks the schema, then enables the log (a backup may have none), and then changes
// the schema under the write lock, so that concurrent opens are safe.
func prepareSQLite(c *sqliteConn, opt Options) (versions, error) {
	list, err := migrations(sqliteMigrations)
	if err != nil {
		return versions{}, err
	}
	var found versions
	err = retryBusy(func() error {
		found, err = checkVersion(c, list, opt.Schema, sqliteVersionTables)
		return err
	})
	if err != nil {
		return found, err
	}
	if err := retryBusy(func() error { return c.run("PRAGMA journal_mode=WAL") }); err != nil || found.from == found.to {
		return found, err
	}
	if err := retryBusy(func() error { return c.run(sqliteBegin) }); err != nil {
		return found, err
	}
	if err := migrate(c, list); err != nil {
		return found, errors.Join(err, c.run("ROLLBACK"))
	}
	return found, c.run("COMMIT")
}

// checkDurable reads back the settings on which the durability of commits depends.
func checkDurable(c *sqliteConn) error {
	mode, sync, err := durability(&Tx{conn: c})
	if err != nil {
		return err
	}
	if mode != "wal" || sync != 2 {
		return fmt.Errorf("journal_mode is %s and synchronous %d, want wal and 2", mode, sync)
	}
	return nil
}

func durability(t *Tx) (mode string, sync int64, err error) {
	if _, err := t.Row("PRAGMA journal_mode", nil, &mode); err != nil {
		return "", 0, err
	}
	_, err = t.Row("PRAGMA synchronous", nil, (*Integer)(&sync))
	return mode, sync, err
}

// openTimeout is how long an open waits for other processes that open or migrate.
const openTimeout = time.Minute

// retryBusy retries fn while SQLite returns, in spite of its timeout, that the database is locked,
// because other processes are opening it.
func retryBusy(fn func() error) error {
	for end := time.Now().Add(openTimeout); ; {
		err := fn()
		if err == nil || classifySQLite(err) != classBusy || time.Now().After(end) {
			return err
		}
		time.Sleep(5 * time.Millisecond)
	}
}
