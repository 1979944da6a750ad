package sqlstore

import (
	"context"
	"time"

	"sluice/database/sqlstore/internal/engine"
	"sluice/database/sqlstore/internal/meta"
	"sluice/database/sqlstore/internal/money"
)

// Options configures a store. The zero value is suitable for production.
type Options struct {
	// Now, if it is not nil, replaces the clock of everything but leases, on both
	// engines. DeletionErr and ClockErr then return nil. It is for tests.
	Now func() time.Time
	// Readers is the number of SQLite connections for reads. 0: 4 to 8, depending on the
	// number of processors.
	Readers int
	// TempFiles makes SQLite's reads sort in files, and not in memory, what exceeds their caches.
	// It is for commands that read a whole database.
	TempFiles bool
	// Beside says that another process has the SQLite database open and looks after its log. This
	// store then neither waits until the log is empty before its first write, nor ever moves the
	// log into the database, so that the other process's writes wait for its commits only. If the
	// other process is still emptying the log, a power failure may lose what this store commits.
	Beside bool
	// Schema is what opening may change.
	Schema SchemaChange
	// BlobCache bounds, in bytes, a cache for blobs that are read often, with their inline bodies;
	// 0: no cache. It is for SQLite only, and requires that no other Store, in this process or
	// another, changes blobs while this one is open.
	BlobCache int64
}

// Store implements every contract of an instance's database on an SQL engine. Its methods may be
// called concurrently. Several stores, in one process or in several, may be open on the same
// database.
type Store struct {
	*meta.Metastore
	*money.Ledger
	db    *engine.DB
	in    engine.Scope[storeTx]
	cache *meta.BlobCache // may be nil
}

func newStore(db *engine.DB, cache *meta.BlobCache) *Store {
	in := engine.NewScope(db, func(t *engine.Tx) storeTx { return storeTx{t} })
	return &Store{Metastore: meta.New(db, cache), Ledger: money.New(db), db: db, in: in, cache: cache}
}

// storeTx is a transaction with the statements of this package.
type storeTx struct{ *engine.Tx }

// Migrated returns the schema's version before and after opening. They are equal unless opening
// created the schema (from is then 0) or migrated it.
func (s *Store) Migrated() (from, to int64) { return s.db.Migrated() }

// Guard sets a function that is called immediately before each commit of changes to the instance,
// and not before commits of properties, leases and nodes: these belong to the database and its
// processes. If it returns an error, the transaction is rolled back and the call returns the error,
// wrapped. Other transactions may wait for it, so it must wait for nothing but the disk.
func (s *Store) Guard(permit func() error) { s.db.Guard(permit) }

// Close waits for the running transaction, fails the waiting calls with ErrClosed and releases all
// resources. Calls after Close return ErrClosed.
func (s *Store) Close() error { return s.db.Close() }

// Err returns the reason why the store refuses writes, or nil if it accepts them. The reason is
// ErrStopped or ErrCorrupt with its cause, database.ErrUnavailable while PostgreSQL cannot be
// reached, COMMITs without a response hold all its connections for writes, or SQLite's log has not
// been emptied yet, or ErrClosed.
func (s *Store) Err() error { return s.db.Err() }

// Stopped returns a channel that is closed when Err has become ErrStopped: the process should then
// end its work and open the store again. It returns nil on PostgreSQL, where a failed connection is
// replaced.
func (s *Store) Stopped() <-chan struct{} { return s.db.Stopped() }

// CheckSQLite reads the whole database at path, which no process may have open, and returns what is
// damaged in it: at most 100 findings in SQLite's words, and none if the database is whole. step is
// called before each of its steps, a step for all pages and one for each table; an error of step
// ends the check. It changes no content, and ends soon after ctx with its error.
func CheckSQLite(ctx context.Context, path string, step func(done, total int) error) (found []string, err error) {
	return engine.CheckSQLite(ctx, path, step)
}

// QuickCheck reads all pages in an SQLite database, a table at a time, beside its other users.
// After each table it calls rest with the time that this took; the log is held only in between. If
// it finds damage, it makes the store refuse writes, and returns an ErrCorrupt. Any other error,
// such as ctx's soon after ctx has ended, says that the check is incomplete. On PostgreSQL it does
// nothing. It must have returned before Close is called.
func (s *Store) QuickCheck(ctx context.Context, rest func(took time.Duration)) error {
	return s.db.QuickCheck(ctx, rest)
}

// CheckPages compares each table with its indexes, beside the database's other users, and returns
// what is damaged: at most 100 findings in the engine's words. On SQLite it also checks the pages.
// On PostgreSQL it needs the extension amcheck and the right to call bt_index_check; what it could
// not check is said in unchecked. step is called before each table or index, and at the end; an
// error of step ends the check, and so does ctx soon after it has ended.
func (s *Store) CheckPages(ctx context.Context, step func(done, total int) error) (found []string, unchecked string, err error) {
	return s.db.CheckPages(ctx, step)
}

// Stats returns the figures.
func (s *Store) Stats() Stats { return Stats{EngineStats: s.db.Stats(), BlobCache: s.cache.Stats()} }

// Now implements database.Clock.
func (s *Store) Now() time.Time { return s.db.Now() }

// ClockErr implements database.Clock.
func (s *Store) ClockErr() error { return s.db.ClockErr() }

// DeletionErr implements database.Clock.
func (s *Store) DeletionErr() error { return s.db.DeletionErr() }

// OpenSQLite opens the database at path, and changes its schema as opt.Schema says. It creates the
// database if there is none, unless that is Keep; the folder must exist. It returns
// database.ErrNewer if a newer program version wrote the database, ErrCorrupt if it is too damaged
// to be opened, and database.ErrNoSpace if the disk has no space for what opening writes, such as
// the log's index. A database that it refuses is not changed.
//
// Every commit is synced to disk before it is acknowledged (journal_mode=WAL, synchronous=FULL).
// Both settings are read back; the store does not open without them. Writes return
// database.ErrUnavailable, or database.ErrNoSpace if that is the reason, until earlier processes'
// whole log has been moved into the database and truncated (wal_checkpoint(TRUNCATE)), and Err
// returns the reason. Until then reads work, and the checkpoint is retried every second. Opening
// waits up to two seconds for the log's other users.
//
// The files path-wal and path-shm belong to the database. Several stores may be open on
// one database, in several processes of one machine too. Only SQLite 3.51.3 or newer may
// write the file: earlier versions have a bug in resetting the log.
func OpenSQLite(path string, opt Options) (*Store, error) {
	cache := meta.NewBlobCache(opt.BlobCache)
	db, err := engine.OpenSQLite(path, opt.engine(cache))
	if err != nil {
		return nil, err
	}
	return newStore(db, cache), nil
}

// OpenPostgres opens dsn's database (a URL, or a list of keyword=value as in libpq), and changes
// its schema (the first one of search_path) as opt.Schema says. Any number of nodes may open it
// concurrently; one of them migrates. It returns database.ErrNewer if a newer program version wrote
// the database. A database that it refuses is not changed. ctx bounds the opening.
//
// The server must be PostgreSQL 13 or newer, with fsync on, and synchronous_commit on or
// remote_apply for the user. Each connection is checked for that, and keeps its own setting if the
// server's is weakened later. A connection pooler must be in session mode.
//
// pool_max_conns in dsn is the maximum number of connections: at least 2, 16 by default. dsn may
// name several servers (host=A,B); the one that accepts writes is used. Servers that accept none
// are refused on every connection.
//
// Writes use at most half the connections, so that reads continue while writes wait. While the
// server cannot be reached, calls are retried until their patience ends and then return
// database.ErrUnavailable. A COMMIT is never cancelled. If the server does not acknowledge it in
// that time, for example because a synchronous standby is unreachable, the call returns
// database.ErrUnknownOutcome, and the COMMIT keeps its connection and its slot among the writers
// until it is acknowledged. If the response is lost, the store queries the outcome on the server.
func OpenPostgres(ctx context.Context, dsn string, opt Options) (*Store, error) {
	db, err := engine.OpenPostgres(ctx, dsn, opt.engine(nil))
	if err != nil {
		return nil, err
	}
	return newStore(db, nil), nil
}

func (o Options) engine(rows engine.RowWatcher) engine.Options {
	return engine.Options{Now: o.Now, Readers: o.Readers, TempFiles: o.TempFiles, Beside: o.Beside, Schema: o.Schema, Rows: rows}
}

// Stats are the figures of a Store since it was opened. Each is exact, but together they are not a
// snapshot.
type Stats struct {
	EngineStats
	BlobCache BlobCacheStats // zero without a cache
}
