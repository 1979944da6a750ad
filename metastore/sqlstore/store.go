// Package sqlstore keeps the metadata of sluice in an SQL database: it is the
// one implementation of metastore.Store for every SQL engine.
//
// All SQL text is portable ($n parameters, INSERT ... ON CONFLICT, UPDATE ...
// WHERE). What differs between engines (opening, how a write transaction is
// run, where reads go, the meaning of an engine's errors, the lock around the
// migrations) stands behind the small struct engine; sqlite.go fills it for
// the embedded engine and postgres.go for PostgreSQL. The verbs are files by
// aggregate.
//
// Where many write at once, isolation is one of two things. Verbs in write are
// isolated by the engine. Verbs in writeLocked lock what they decide on first:
// the row of the upload, session, channel or blob (tx.locking is part of every
// query that finds one, in both kinds of transaction), and the name of what may
// not be there yet (tx.lock). The two kinds meet in rows: whoever writes a row
// that changed since his transaction began waits, and looks at it anew or is
// run again.
//
// Invariants of the tables:
//   - an object key stands in at most one extent (a unique index);
//   - a content is referenced by one blob or one open upload, or it is in
//     garbage, never both: the transaction that takes the reference away adds
//     it to garbage; what is written ahead of a commit with many extents stands
//     in the table garbage as staged (stagedFrom), which is due at no time, and
//     the commit takes it out of there, or Purge makes it garbage long after the
//     commit would be refused;
//   - an upload's content becomes the blob's at its completion, so completing
//     moves no rows; the old extents of a part that is sent again move to a
//     fresh content that is garbage from the start;
//   - an accepted payment has one sale (a unique index), written with it, until it
//     is folded, and what it does not sell is the channel's credit;
//   - what is accepted and not settled stands in the channel's one settlement,
//     be it expired or not, until it is collected or a newer one replaces it;
//   - the rows of usage of an owner and his row of usage_sums add up to the sizes of his blobs and of the
//     parts of his open uploads, to their numbers, to the bytes of the names, and to
//     the number of his channels: who changes one adds a row in the same transaction.
package sqlstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"sluice/metastore"
)

// Errors of this package beside those of the contract.
var (
	// ErrClosed: the store was closed. The call had no effect.
	ErrClosed = errors.New("sqlstore: closed")
	// ErrStopped: SQLite met an I/O error, or a COMMIT of which the outcome is
	// unknown, and the store takes no writes until it is opened anew. The call
	// had no effect. Reads go on. It is a metastore.ErrUnavailable.
	ErrStopped = fmt.Errorf("sqlstore: stopped after an I/O error, open the store anew: %w", metastore.ErrUnavailable)
	// ErrCorrupt: SQLite found the database damaged, in whatever statement, and
	// the store takes no more writes: they could spread the damage. The call had
	// no effect. Reads go on, and opening the store anew does not help. It is a
	// metastore.ErrUnavailable.
	ErrCorrupt = fmt.Errorf("sqlstore: the database is damaged; stop the server and restore a backup, "+
		"or keep a copy of the file and try what sqlite3 .recover saves of it: %w", metastore.ErrUnavailable)
)

// Options of a store. The zero value is good for production.
type Options struct {
	// Now, when it is set, is the time by which everything but leases is judged,
	// whatever the engine and the machine say: it is for tests. DeletionErr and
	// ClockErr are nil then.
	Now func() time.Time
	// wall and passed are the wall clock of the machine and the time that it ran,
	// asleep or not; nil: time.Now and boottime.Now. Tests set them.
	wall   func() time.Time
	passed func() time.Duration
	// Readers is the number of connections to SQLite for reads; 0 means 4 to
	// 8, by the number of processors.
	Readers int
	// Existing opens a database without making one or changing its schema: it
	// may belong to a program that runs.
	Existing bool
}

// Store is a metastore.Store over an SQL engine. Its methods may be called at
// once from many goroutines, and many stores, in one process or in several,
// may be open on the same database.
type Store struct {
	eng  engine
	uses useBatcher
}

var _ metastore.Store = (*Store)(nil)

// engine is what differs between SQL engines.
type engine struct {
	// write runs fn in a write transaction that is isolated from all others,
	// and returns nil once it is durable. fn may run more than once, in
	// another transaction each time. An error of fn is returned as it is and
	// undoes what fn did. ctx counts only until fn starts, and before it is
	// started again.
	write func(ctx context.Context, fn func(*tx) error) error
	// writeLocked is write for an fn that isolates itself: before it decides
	// on anything it locks it, by tx.lock or by finding its row.
	writeLocked func(ctx context.Context, fn func(*tx) error) error
	// read runs fn, which makes one query. It may run more than once.
	read func(ctx context.Context, fn func(*tx) error) error
	// snapshot runs fn with all its queries on one state of the database. It
	// may run more than once.
	snapshot func(ctx context.Context, fn func(*tx) error) error
	// err tells why no writes are taken, nil while they are.
	err func() error
	// stopped is closed when the store takes no writes until it is opened anew;
	// nil where that never happens.
	stopped <-chan struct{}
	// time is the time by which everything else is judged.
	time engineClock
	// clock tells the time by which leases are judged, to the microsecond.
	clock func(t *tx) (time.Time, error)
	// headIs is the condition, over $2, by which the names with that head are
	// found in the index of long names.
	headIs string
	// close ends everything that the engine runs and holds.
	close func() error
}

func newStore(eng engine, opt Options) *Store {
	if opt.Now != nil {
		eng.time = injectedClock(opt.Now)
	}
	s := &Store{eng: eng}
	s.uses.store = s
	rand.Read(s.uses.name[:])
	return s
}

// Close finishes the transaction in flight, fails the calls that wait, and
// gives everything back. Calls after it are ErrClosed.
func (s *Store) Close() error { return s.eng.close() }

// Err tells why the store takes no writes: ErrStopped or ErrCorrupt with its
// cause, metastore.ErrUnavailable while PostgreSQL cannot be reached or the log
// of SQLite was not emptied yet, or ErrClosed. It is nil while writes are taken.
func (s *Store) Err() error { return s.eng.err() }

// Stopped is closed when Err has become ErrStopped: the process should end what
// it does and open the store anew. On PostgreSQL, where a connection that failed
// is replaced, it is nil.
func (s *Store) Stopped() <-chan struct{} { return s.eng.stopped }

func (s *Store) write(ctx context.Context, fn func(*tx) error) error {
	return s.eng.write(ctx, s.withTime(fn))
}

// writeLocked is for the verbs that others are likely to run at the same time,
// on the same upload, session, channel or name: they queue up for its lock,
// where transactions that are isolated by the engine would fail each other.
func (s *Store) writeLocked(ctx context.Context, fn func(*tx) error) error {
	return s.eng.writeLocked(ctx, s.withTime(fn))
}

func (s *Store) read(ctx context.Context, fn func(*tx) error) error {
	return s.eng.read(ctx, s.withTime(fn))
}

func (s *Store) snapshot(ctx context.Context, fn func(*tx) error) error {
	return s.eng.snapshot(ctx, s.withTime(fn))
}

// atNow reads the clock inside the transaction, each time that fn runs.
func (s *Store) withTime(fn func(*tx) error) func(*tx) error {
	return func(t *tx) error {
		now, err := s.eng.time.at(t)
		if err != nil {
			return err
		}
		t.now = truncate(now)
		return fn(t)
	}
}

// toDelete is for what deletes by age, and for a read whose result is deleted for it. It is
// metastore.ErrClock while DeletionErr is not nil.
func (s *Store) forDeletion(fn func(*tx) error) func(*tx) error {
	return func(t *tx) error {
		t.now = time.Time{} // the engine's own clock is asked, and a new time may begin
		if err := s.eng.time.deletions(t); err != nil {
			return err
		}
		return s.withTime(fn)(t)
	}
}
