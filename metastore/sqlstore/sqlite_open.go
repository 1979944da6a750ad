package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"sluice/metastore"
)

const (
	// sqliteBegin takes the write lock at once: a transaction that takes it
	// later can fail for having read an old state.
	sqliteBegin = "BEGIN IMMEDIATE"
	// mmapSize is more than SQLite maps (just under 2 GiB of the database).
	// Without a map the readers meet in the allocator's mutex.
	mmapSize = 1 << 40
	// busyTimeout is how long SQLite itself waits for a lock, before the
	// callers get another chance to leave.
	busyTimeout = 500 * time.Millisecond
)

// OpenSQLite opens the database at path, creates it when there is none, and
// brings its schema up to date. metastore.ErrNewer when a newer program wrote
// it; metastore.ErrNoSpace when the disk has no room for what an open writes,
// such as the index of the log. The folder must exist. With opt.Existing the database must be there
// (fs.ErrNotExist) and be up to date (metastore.ErrOlder).
//
// Every commit is synced to disk before it is acknowledged (journal_mode=WAL,
// synchronous=FULL; both are read back, and the store does not open without
// them). A store that opens takes writes only once the whole log was moved into
// the database and cut (wal_checkpoint(TRUNCATE)): until then writes are
// metastore.ErrUnavailable or, where that finds no room, metastore.ErrNoSpace,
// and Err has the reason; reads go on, and it is tried again every second. The
// open waits two seconds for others that are in the way. Beside path there will be path-wal and path-shm; the three belong
// together. Several stores may be open on one database, also in several
// processes of one machine. Only a version of SQLite from 3.51.3 on may write
// the file: earlier ones have a bug in resetting the log.
func OpenSQLite(path string, opt Options) (*Store, error) {
	eng, err := openSQLite(path, opt)
	if err != nil {
		if classifySQLite(err) == classFull && !errors.Is(err, metastore.ErrNoSpace) {
			err = fmt.Errorf("%w: %w", metastore.ErrNoSpace, err)
		}
		return nil, fmt.Errorf("sqlstore: open %s: %w", path, err)
	}
	return newStore(eng.engine(), opt), nil
}

// sqliteEngine is one writing connection, a pool of reading ones, and one for
// checkpoints.
type sqliteEngine struct {
	writer       *writer
	readers      *readers
	checkpointer *checkpointer
	health       *health
	time         *wallClock
}

func openSQLite(path string, opt Options) (_ *sqliteEngine, err error) {
	path, err = filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	prepare := migrateSQLite
	if opt.Existing {
		prepare = checkSQLite
		if _, err := os.Stat(path); err != nil { // SQLite would make a database
			return nil, err
		}
	}
	var opened []*sqliteConn
	defer func() {
		for _, c := range opened {
			if err != nil {
				err = errors.Join(err, c.close())
			}
		}
	}()
	open := func(busy time.Duration, pragmas ...string) (*sqliteConn, error) {
		c, err := openSQLiteConn(path, busy, pragmas)
		if err == nil {
			opened = append(opened, c)
		}
		return c, err
	}
	write, err := open(busyTimeout, "wal_autocheckpoint(16000)", "cache_size(-65536)")
	if err != nil {
		return nil, err
	}
	if err := prepare(write); err != nil {
		return nil, err
	}
	if err := checkDurable(write); err != nil {
		return nil, err
	}
	check, err := open(checkpointTimeout, "wal_autocheckpoint(0)")
	if err != nil {
		return nil, err
	}
	n := opt.Readers
	if n == 0 {
		n = min(max(runtime.NumCPU(), 4), 8)
	}
	h := newHealth()
	pool, err := newReaders(n, h, func() (*sqliteConn, error) {
		return openSQLiteConn(path, busyTimeout, []string{"query_only(1)", "cache_size(-8192)", fmt.Sprintf("mmap_size(%d)", mmapSize)})
	})
	if err != nil {
		return nil, err
	}
	w := newWriter(write, sqliteBegin, h)
	return &sqliteEngine{
		writer: w, readers: pool, checkpointer: newCheckpointer(check, w), health: h,
		time: newWallClock(opt.wall, opt.passed),
	}, nil
}

func (e *sqliteEngine) engine() engine {
	return engine{
		write:       e.writer.write,
		writeLocked: e.writer.write, // there is one writer
		read:        e.readers.read,
		snapshot:    e.readers.snapshot,
		err:         e.err,
		stopped:     e.health.stopped,
		time:        e.time,
		clock:       func(t *tx) (time.Time, error) { return t.now, nil },
		headIs:      "name_head = $2",
		close:       sync.OnceValue(e.close),
	}
}

func (e *sqliteEngine) err() error {
	if e.writer.isClosed() {
		return ErrClosed
	}
	return e.health.err()
}

func (e *sqliteEngine) close() error {
	e.writer.close()
	e.checkpointer.close()
	return errors.Join(e.readers.close(), e.checkpointer.conn.close(), e.writer.conn.close())
}

// openSQLiteConn opens one connection with the settings that all of them share
// and some of its own.
func openSQLiteConn(path string, busy time.Duration, pragmas []string) (*sqliteConn, error) {
	q := url.Values{"_pragma": append([]string{
		fmt.Sprintf("busy_timeout(%d)", busy.Milliseconds()),
		"synchronous(FULL)",
		// A plain fsync does not empty the disk's own cache on every system.
		"fullfsync(1)", "checkpoint_fullfsync(1)",
		"journal_size_limit(67108864)",
		"temp_store(MEMORY)",
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

// migrateSQLite switches the log on and brings the schema up to date. Others
// may be at it too; the write lock is the lock around the migrations.
func migrateSQLite(c *sqliteConn) error {
	list, err := migrations(sqliteMigrations)
	if err != nil {
		return err
	}
	for _, query := range []string{"PRAGMA journal_mode=WAL", sqliteBegin} {
		if err := retryBusy(func() error { return c.run(query) }); err != nil {
			return err
		}
	}
	if err := migrate(c, list); err != nil {
		return errors.Join(err, c.run("ROLLBACK"))
	}
	return c.run("COMMIT")
}

// checkSQLite is checkVersion for SQLite.
func checkSQLite(c *sqliteConn) error {
	list, err := migrations(sqliteMigrations)
	if err != nil {
		return err
	}
	return checkVersion(c, list, `SELECT COUNT(*) FROM sqlite_master WHERE type = 'table' AND name = 'schema_version'`)
}

// checkDurable reads the settings back on which every acknowledgement rests.
func checkDurable(c *sqliteConn) error {
	mode, sync, err := durability(&tx{conn: c})
	if err != nil {
		return err
	}
	if mode != "wal" || sync != 2 {
		return fmt.Errorf("journal_mode is %s and synchronous %d, want wal and 2", mode, sync)
	}
	return nil
}

func durability(t *tx) (mode string, sync int64, err error) {
	if _, err := t.row("PRAGMA journal_mode", nil, &mode); err != nil {
		return "", 0, err
	}
	_, err = t.row("PRAGMA synchronous", nil, (*integer)(&sync))
	return mode, sync, err
}

// Durability reads the settings back on which every acknowledgement rests,
// from the writer's own connection: the journal mode ("wal") and the level of
// syncing (2: the log is synced by each commit). It is for SQLite only.
func (s *Store) Durability(ctx context.Context) (journalMode string, synchronous int64, err error) {
	err = s.write(ctx, func(t *tx) (err error) {
		journalMode, synchronous, err = durability(t)
		return err
	})
	return journalMode, synchronous, err
}

// openPatience is how long an open waits for others that open or migrate.
const openTimeout = time.Minute

// retryBusy repeats what SQLite refuses, in spite of its own timeout, because
// others are opening the same database.
func retryBusy(fn func() error) error {
	for end := time.Now().Add(openTimeout); ; {
		err := fn()
		if err == nil || classifySQLite(err) != classBusy || time.Now().After(end) {
			return err
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// sqliteFault gives SQLite's result codes their meaning.
func classifySQLite(err error) errorClass {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return classOther
	}
	switch e.Code() {
	case sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY, sqlite3.SQLITE_CONSTRAINT_UNIQUE:
		return classUnique
	case sqlite3.SQLITE_IOERR_SHMSIZE: // the log's index cannot grow
		return classFull
	}
	switch e.Code() & 0xff { // the primary code
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL:
		return classBusy
	case sqlite3.SQLITE_FULL:
		return classFull
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return classCorrupt
	case sqlite3.SQLITE_IOERR:
		return classIO
	}
	return classOther
}
