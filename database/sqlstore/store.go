package sqlstore

import (
	"context"
	"fmt"
	"time"

	"sluice/database"
)

// Options configures a store. The zero value is suitable for production.
type Options struct {
	// Now, if it is not nil, replaces the clock of everything but leases, on both
	// engines. DeletionErr and ClockErr then return nil. It is for tests.
	Now func() time.Time
	// wall and passed are the wall clock of the machine and the time since it booted,
	// including sleep. nil: time.Now and boottime.Now. Tests set them.
	wall   func() time.Time
	passed func() time.Duration
	// Readers is the number of SQLite connections for reads. 0: 4 to 8, depending on the
	// number of processors.
	Readers int
	// Schema is what opening may change.
	Schema SchemaChange
	// AwaitOlderNodes is called while nodes of a version are connected to a PostgreSQL database that
	// cannot work on the schema to which it must be migrated (database.OldestSchema), with an error
	// that names them, and again every second. The opening fails if it returns an error. If it is nil,
	// the opening fails with the error that it would get.
	AwaitOlderNodes func(reason error) error
	// BlobCache is the greatest size of a cache of blobs that are read often, in bytes, with
	// their inline bodies; 0: none. It is for SQLite only, and requires that no other Store,
	// in this process or another, changes blobs while this one is open.
	BlobCache int64
}

// Store is a metastore.Store on an SQL engine. Its methods may be called concurrently.
// Several stores, in one process or in several, may be open on the same database.
type Store struct {
	eng   engine
	clock engineClock
	rows  *blobCache // may be nil
	uses  *useBatcher
	lists chan struct{} // holds a token for each list that is being read
}

func newStore(eng engine, opt Options) *Store {
	s := &Store{eng: eng, clock: eng.clock(), rows: eng.blobCache(), lists: make(chan struct{}, eng.maxLists())}
	if opt.Now != nil {
		s.clock = injectedClock(opt.Now)
	}
	s.uses = newUseBatcher(s.startLocked, s.Now, eng.oneWriter())
	return s
}

// Migrated returns the version of the schema that opening has found and the one that it has made of it.
// They are equal unless the schema was created, when from is 0, or migrated.
func (s *Store) Migrated() (from, to int64) { return s.eng.migrated() }

// Guard sets a function that is called immediately before each commit of changes to the instance,
// and not before those of properties, leases and nodes, which belong to the database and its
// processes. If it returns an error, the transaction is rolled back and the call returns the error,
// wrapped. It must not wait, because other transactions may wait for it.
func (s *Store) Guard(permit func() error) { s.eng.commitGuard().permit.Store(&permit) }

// Close waits for the running transaction, fails the waiting calls with ErrClosed and
// releases all resources. Calls after Close return ErrClosed.
func (s *Store) Close() error { return s.eng.close() }

// Err returns the reason why the store refuses writes, or nil if it accepts them. The
// reason is ErrStopped or ErrCorrupt with its cause, database.ErrUnavailable while
// PostgreSQL cannot be reached or the log of SQLite has not been emptied yet, or
// ErrClosed.
func (s *Store) Err() error { return s.eng.err() }

// Stopped returns a channel that is closed when Err has become ErrStopped: the process
// should then end its work and open the store again. It returns nil on PostgreSQL, where a
// failed connection is replaced.
func (s *Store) Stopped() <-chan struct{} { return s.eng.stopped() }

// Stats returns the figures.
func (s *Store) Stats() Stats {
	stats := s.eng.stats()
	stats.BlobCache = s.rows.stats()
	return stats
}

func (s *Store) write(ctx context.Context, fn func(*tx) error) error {
	return s.eng.write(ctx, s.withTime(fn))
}

// writeLocked is for operations that several clients are likely to run concurrently on the
// same upload, session, channel or name.
func (s *Store) writeLocked(ctx context.Context, fn func(*tx) error) error {
	return s.eng.writeLocked(ctx, s.withTime(fn))
}

// startLocked is writeLocked that does not wait; see engine.
func (s *Store) startLocked(until time.Time, fn func(*tx) error, done func(panicked any, err error)) error {
	return s.eng.startLocked(until, s.withTime(fn), done)
}

func (s *Store) read(ctx context.Context, fn func(*tx) error) error {
	return s.eng.read(ctx, s.withTime(fn))
}

func (s *Store) snapshot(ctx context.Context, fn func(*tx) error) error {
	return s.eng.snapshot(ctx, s.withTime(fn))
}

// listing runs a call that reads a list, when fewer than engine.maxLists others run. It waits for the
// patience of ctx and then returns database.ErrBusy; a list that waits holds no connection.
func (s *Store) listing(ctx context.Context, read func() error) error {
	wait := database.Await(ctx, database.Patience)
	defer wait.End()
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case s.lists <- struct{}{}:
	default:
		if err := s.awaitLists(ctx, wait.Until); err != nil {
			return err
		}
	}
	defer func() { <-s.lists }()
	return read()
}

// readList is read for a list; see listing.
func (s *Store) readList(ctx context.Context, fn func(*tx) error) error {
	return s.listing(ctx, func() error { return s.read(ctx, fn) })
}

// snapshotList is snapshot for a list; see listing.
func (s *Store) snapshotList(ctx context.Context, fn func(*tx) error) error {
	return s.listing(ctx, func() error { return s.snapshot(ctx, fn) })
}

func (s *Store) awaitLists(ctx context.Context, until time.Time) error {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case s.lists <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return fmt.Errorf("sqlstore: %w: too many lists are being read", database.ErrBusy)
	}
}

// resultOf runs fn in a transaction, such as that of Store.read or Store.writeLocked, and returns its
// result, which is the zero value if there is an error.
func resultOf[T any](ctx context.Context, transact func(context.Context, func(*tx) error) error, fn func(*tx) (T, error)) (T, error) {
	var out T
	err := transact(ctx, func(t *tx) (err error) {
		out, err = fn(t)
		return err
	})
	if err != nil {
		return *new(T), err
	}
	return out, nil
}

// withTime returns an fn that reads the clock in the transaction each time it runs.
func (s *Store) withTime(fn func(*tx) error) func(*tx) error {
	return func(t *tx) error {
		now, err := s.clock.at(t)
		if err != nil {
			return err
		}
		t.now = truncate(now)
		return fn(t)
	}
}

// forDeletion is withTime for an fn that deletes by age, or whose result is used for that.
// It returns database.ErrClock while DeletionErr is not nil.
func (s *Store) forDeletion(fn func(*tx) error) func(*tx) error {
	return func(t *tx) error {
		t.now = time.Time{} // makes deletions read the clock of the engine
		if err := s.clock.deletions(t); err != nil {
			return err
		}
		return s.withTime(fn)(t)
	}
}

// Now implements database.Clock.
func (s *Store) Now() time.Time { return truncate(s.clock.now()) }

// ClockErr implements database.Clock.
func (s *Store) ClockErr() error { return s.clock.err() }

// DeletionErr implements database.Clock.
func (s *Store) DeletionErr() error { return s.clock.deletions(nil) }
