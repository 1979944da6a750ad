package engine

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"sluice/database"
)

// Options configures a DB. The zero value is suitable for production.
type Options struct {
	// Now, if it is not nil, replaces the clock of everything but leases, on both engines.
	// DeletionErr and ClockErr then return nil. It is for tests.
	Now func() time.Time
	// Wall and Passed are the machine's wall clock and the time since it booted, including sleep.
	// nil: time.Now and boottime.Now. Tests set them.
	Wall   func() time.Time
	Passed func() time.Duration
	// Readers is the number of SQLite connections for reads. 0: 4 to 8, depending on the number of
	// processors.
	Readers int
	// TempFiles makes SQLite's reads sort rows that exceed their caches in files, and not in
	// memory.
	TempFiles bool
	// Schema is the change that opening may make.
	Schema SchemaChange
	// Beside leaves the log to another process, see sqlstore.Options. SQLite only.
	Beside bool
	// Rows receives the keys of all rows that each commit changes. It may be nil. SQLite only.
	Rows RowWatcher
}

// DB is a database on one engine. The verbs of all contracts share it: one writer, one batch, one
// table of transaction ids and one clock. Its methods may be called concurrently.
type DB struct {
	eng   Engine
	clock engineClock
	kept  atomic.Pointer[keptTime] // the last one that this process has written or read
	lists chan struct{}            // holds a token for each list that is being read
}

// newDB returns a database on an engine, and closes the engine if there is an error. now, if it is
// not nil, is Options.Now.
func newDB(ctx context.Context, eng Engine, now func() time.Time) (*DB, error) {
	db := &DB{eng: eng, clock: eng.clock(), lists: make(chan struct{}, eng.maxLists())}
	if now != nil {
		db.clock = injectedClock(now)
	}
	if err := db.beginTime(ctx); err != nil {
		return nil, errors.Join(err, eng.close())
	}
	return db, nil
}

// Wrap replaces the engine by around's result for it. It is for tests that observe transactions, or
// let them fail; no call may be running.
func (db *DB) Wrap(around func(Engine) Engine) { db.eng = around(db.eng) }

// ListsInside reports whether the database has the function list_blobs, because each statement
// costs a round trip.
func (db *DB) ListsInside() bool { return db.eng.listsInside() }

// OneWriter reports whether write transactions run one after another.
func (db *DB) OneWriter() bool { return db.eng.oneWriter() }

// LeaseTime returns the time by which leases are judged, to the microsecond.
func (db *DB) LeaseTime(t *Tx) (time.Time, error) { return db.eng.leaseTime(t) }

// pageRows is the number of rows that Pages reads at a time.
const pageRows = 5_000

// Pages calls page, which reads up to limit rows and returns their number, in transactions of its
// own until there are fewer.
func (db *DB) Pages(ctx context.Context, page func(t *Tx, limit int64) (rows int64, err error)) error {
	for {
		var rows int64
		err := db.Read(ctx, func(t *Tx) (err error) {
			rows, err = page(t, pageRows)
			return err
		})
		if err != nil || rows < pageRows {
			return err
		}
	}
}

// Migrated returns the schema's version before and after opening. They are equal unless opening
// created the schema (from is then 0) or migrated it.
func (db *DB) Migrated() (from, to int64) { return db.eng.migrated() }

// Guard sets a function that is called immediately before each commit of changes to the instance,
// and not before commits of properties, leases and nodes: these belong to the database and its
// processes. If it returns an error, the transaction is rolled back and the call returns the error,
// wrapped. Other transactions may wait for it, so it must wait for nothing but the disk.
func (db *DB) Guard(permit func() error) { db.eng.commitGuard().permit.Store(&permit) }

// LostCommits returns a database.ErrSetBack if the engine lacks commits that were acknowledged to
// this process, until ForgetCommits is called.
func (db *DB) LostCommits() error { return db.eng.lostCommits() }

// ForgetCommits makes LostCommits return nil for commits that were acknowledged until now.
func (db *DB) ForgetCommits() { db.eng.forgetCommits() }

// Close waits for the running transaction, fails the waiting calls with ErrClosed and
// releases all resources. Calls after Close return ErrClosed.
func (db *DB) Close() error { return db.eng.close() }

// Err returns the reason why the store refuses writes, or nil if it accepts them. The
// reason is ErrStopped or ErrCorrupt with its cause, database.ErrUnavailable while
// PostgreSQL cannot be reached, COMMITs without a response hold all its connections for
// writes, or SQLite's log has not been emptied yet, or ErrClosed.
func (db *DB) Err() error { return db.eng.err() }

// Stopped returns a channel that is closed when Err has become ErrStopped: the process
// should then end its work and open the store again. It returns nil on PostgreSQL, where a
// failed connection is replaced.
func (db *DB) Stopped() <-chan struct{} { return db.eng.stopped() }

// QuickCheck reads all pages in an SQLite database, a table at a time, beside its other users.
// After each table it calls rest with the time that this took; the log is held only in between. If
// it finds damage, it makes the store refuse writes, and returns an ErrCorrupt. Any other error,
// such as ctx's soon after ctx has ended, means that the check is incomplete. On PostgreSQL it does
// nothing.
func (db *DB) QuickCheck(ctx context.Context, rest func(took time.Duration)) error {
	return db.eng.quickCheck(ctx, rest)
}

// CheckPages compares each table's pages and indexes, beside the database's other users; see
// sqlstore.Store.CheckPages.
func (db *DB) CheckPages(ctx context.Context, step func(done, total int) error) (found []string, unchecked string, err error) {
	return db.eng.checkPages(ctx, step)
}

// Stats returns the figures.
func (db *DB) Stats() Stats { return db.eng.stats() }

// Write runs fn in a write transaction that is isolated from all other transactions; see
// Engine.Write. In this and in all other transactions Tx.Now is the time.
func (db *DB) Write(ctx context.Context, fn func(*Tx) error) error {
	return db.eng.Write(ctx, db.withTime(fn))
}

// WriteLocked is Write for an fn that locks the rows on which its decisions depend. It is for
// operations that several clients are likely to run concurrently on the same upload, session,
// channel or name.
func (db *DB) WriteLocked(ctx context.Context, fn func(*Tx) error) error {
	return db.eng.WriteLocked(ctx, db.withTime(fn))
}

// StartLocked starts WriteLocked and does not wait for it; see Engine.
func (db *DB) StartLocked(until time.Time, fn func(*Tx) error, done func(panicked any, err error)) error {
	return db.eng.StartLocked(until, db.withTime(fn), done)
}

// Read runs fn, which makes one query.
func (db *DB) Read(ctx context.Context, fn func(*Tx) error) error {
	return db.eng.Read(ctx, db.withTime(fn))
}

// Snapshot runs fn; all its queries see one state.
func (db *DB) Snapshot(ctx context.Context, fn func(*Tx) error) error {
	return db.eng.Snapshot(ctx, db.withTime(fn))
}

// Survey runs fn like Snapshot, for statements that read whole tables; see Engine.Survey.
func (db *DB) Survey(ctx context.Context, fn func(*Tx) error) error {
	return db.eng.Survey(ctx, db.withTime(fn))
}

// listing runs a call that reads a list, when fewer than maxLists of them run. It waits as long as
// ctx is patient and then returns database.ErrBusy; a list that waits holds no connection.
func (db *DB) listing(ctx context.Context, read func() error) error {
	wait := database.Await(ctx, database.Patience)
	defer wait.End()
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case db.lists <- struct{}{}:
	default:
		if err := db.awaitLists(ctx, wait.Until); err != nil {
			return err
		}
	}
	defer func() { <-db.lists }()
	return read()
}

// ReadList is Read for a list; see listing.
func (db *DB) ReadList(ctx context.Context, fn func(*Tx) error) error {
	return db.listing(ctx, func() error { return db.Read(ctx, fn) })
}

// SnapshotList is Snapshot for a list; see listing.
func (db *DB) SnapshotList(ctx context.Context, fn func(*Tx) error) error {
	return db.listing(ctx, func() error { return db.Snapshot(ctx, fn) })
}

func (db *DB) awaitLists(ctx context.Context, until time.Time) error {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case db.lists <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return fmt.Errorf("sqlstore: %w: too many lists are being read", database.ErrBusy)
	}
}

// ResultOf runs fn in a transaction that transact begins, such as DB.Read, and returns fn's result,
// or the zero value if there is an error. X is the caller's type of transaction.
func ResultOf[X, T any](ctx context.Context, transact func(context.Context, func(X) error) error, fn func(X) (T, error)) (T, error) {
	var out T
	err := transact(ctx, func(t X) (err error) {
		out, err = fn(t)
		return err
	})
	if err != nil {
		return *new(T), err
	}
	return out, nil
}

// withTime returns an fn that reads the clock in the transaction each time it runs.
func (db *DB) withTime(fn func(*Tx) error) func(*Tx) error {
	return func(t *Tx) error {
		now, err := db.clock.at(t)
		if err != nil {
			return err
		}
		t.Now, t.inDoubt = Truncate(now), db.clock.inDoubt()
		t.lockLag = db.kept.Load().lag(t.Now, db.steady(), t.inDoubt)
		return fn(t)
	}
}

// WriteForDeletion is Write for an fn that deletes by age. It returns database.ErrClock while
// DeletionErr is not nil.
func (db *DB) WriteForDeletion(ctx context.Context, fn func(*Tx) error) error {
	return db.eng.Write(ctx, db.forDeletion(fn))
}

// WriteLockedForDeletion is WriteForDeletion with WriteLocked.
func (db *DB) WriteLockedForDeletion(ctx context.Context, fn func(*Tx) error) error {
	return db.eng.WriteLocked(ctx, db.forDeletion(fn))
}

// ReadForDeletion is Read for an fn that selects rows for deletion by age. It returns
// database.ErrClock while DeletionErr is not nil.
func (db *DB) ReadForDeletion(ctx context.Context, fn func(*Tx) error) error {
	return db.eng.Read(ctx, db.forDeletion(fn))
}

// SnapshotForDeletion is ReadForDeletion with Snapshot.
func (db *DB) SnapshotForDeletion(ctx context.Context, fn func(*Tx) error) error {
	return db.eng.Snapshot(ctx, db.forDeletion(fn))
}

// forDeletion is withTime for an fn that deletes by age or selects rows for it. It returns
// database.ErrClock while DeletionErr is not nil.
func (db *DB) forDeletion(fn func(*Tx) error) func(*Tx) error {
	return func(t *Tx) error {
		t.Now = time.Time{} // makes deletions read the engine's clock
		if err := db.clock.deletions(t); err != nil {
			return err
		}
		return db.withTime(fn)(t)
	}
}

// Now implements database.Clock.
func (db *DB) Now() time.Time { return Truncate(db.clock.now()) }

// ClockErr implements database.Clock.
func (db *DB) ClockErr() error { return db.clock.err() }

// DeletionErr implements database.Clock.
func (db *DB) DeletionErr() error { return db.clock.deletions(nil) }
