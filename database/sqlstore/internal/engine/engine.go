package engine

import (
	"context"
	"time"
)

// Engine is an SQL database under a DB. There are two: sqliteEngine and postgresEngine. Its methods
// may be called concurrently.
type Engine interface {
	Transactions
	traits
	state
}

// Transactions run functions in transactions. Tests wrap them.
type Transactions interface {
	// Write runs fn in a write transaction that is isolated from all other transactions, and
	// returns nil once the transaction is durable. fn may run several times, each time in another
	// transaction. An error of fn is returned unchanged and rolls the transaction back. ctx has an
	// effect only before fn starts, and before it is retried.
	Write(ctx context.Context, fn func(*Tx) error) error

	// WriteLocked is Write for an fn that isolates itself: it locks the rows on which its decisions
	// depend, by Tx.Lock or by a query with Tx.ForUpdate. Concurrent calls for the same row then
	// wait for each other instead of conflicting.
	WriteLocked(ctx context.Context, fn func(*Tx) error) error

	// StartLocked starts WriteLocked and does not wait for it. done is called once with its result,
	// or with the value with which fn panicked and an error; it must not block. until is the
	// caller's deadline. If StartLocked returns an error, it calls neither fn nor done.
	StartLocked(until time.Time, fn func(*Tx) error, done func(panicked any, err error)) error

	// Read runs fn, which makes one query. It may run fn several times.
	Read(ctx context.Context, fn func(*Tx) error) error

	// Snapshot runs fn, and all queries of fn see one state. It may run fn several
	// times.
	Snapshot(ctx context.Context, fn func(*Tx) error) error

	// Survey is Snapshot for statements that read whole tables: it has no time limit once fn has
	// begun. On PostgreSQL it ends soon after ctx, with its error, and costs a connection then.
	Survey(ctx context.Context, fn func(*Tx) error) error
}

// traits are the differences between engines.
type traits interface {
	// oneWriter reports whether write transactions run one after another, also with other stores.
	oneWriter() bool

	// clock returns the clock of everything but leases.
	clock() engineClock

	// leaseTime returns the time by which leases are judged, to the microsecond.
	leaseTime(t *Tx) (time.Time, error)

	// listsInside reports whether the database has the function list_blobs, because each
	// statement costs a round trip.
	listsInside() bool

	// maxLists returns how many lists may be read at a time, at least 1. They take longer than
	// other reads, which must find a free connection meanwhile.
	maxLists() int
}

// state is the life of an engine, from its opening to its end.
type state interface {
	// err returns the reason why the engine refuses writes, or nil if it accepts them.
	err() error

	// stopped returns a channel that is closed when the engine refuses writes until it is
	// opened again. It returns nil if that never happens.
	stopped() <-chan struct{}

	// migrated returns the schema's version before and after opening.
	migrated() (from, to int64)

	// stats returns the engine's figures.
	stats() Stats

	// quickCheck checks the database's pages; see DB.QuickCheck.
	quickCheck(ctx context.Context, rest func(took time.Duration)) error

	// checkPages checks all tables with their indexes; see DB.CheckPages.
	checkPages(ctx context.Context, step func(done, total int) error) (found []string, unchecked string, err error)

	// commitGuard returns the guard that the engine asks for permission before every commit.
	commitGuard() *commitGuard

	// lostCommits returns a database.ErrSetBack if a server lacks commits that were acknowledged to
	// this process, until forgetCommits is called.
	lostCommits() error
	forgetCommits()

	// close waits for the transactions that run, for a limited time, and releases the engine's
	// resources. Further calls return the result of the first.
	close() error
}
