package sqlstore

import (
	"context"
	"time"
)

// engine is an SQL database under a Store. There are two: sqliteEngine and
// postgresEngine. Its methods may be called concurrently.
type engine interface {
	// write runs fn in a write transaction that is isolated from all others, and returns
	// nil once the transaction is durable. fn may run several times, each time in
	// another transaction. An error of fn is returned unchanged and rolls the transaction
	// back. ctx has an effect only before fn starts, and before it is retried.
	write(ctx context.Context, fn func(*tx) error) error

	// writeLocked is write for an fn that isolates itself: it locks what its decisions
	// depend on, by tx.lock or by a query with tx.forUpdate. Concurrent calls for the same
	// row then wait for each other instead of conflicting.
	writeLocked(ctx context.Context, fn func(*tx) error) error

	// startLocked starts writeLocked and does not wait for it. done is called once with its result, or
	// with the value with which fn panicked and an error; it must not block. until is the time until
	// when the caller waits. With an error fn and done are not called.
	startLocked(until time.Time, fn func(*tx) error, done func(panicked any, err error)) error

	// oneWriter reports whether the write transactions run one after another, with those of other
	// stores too.
	oneWriter() bool

	// read runs fn, which makes one query. It may run fn several times.
	read(ctx context.Context, fn func(*tx) error) error

	// snapshot runs fn, all of whose queries see one state of the database. It may run fn
	// several times.
	snapshot(ctx context.Context, fn func(*tx) error) error

	// err returns the reason why the engine refuses writes, or nil if it accepts them.
	err() error

	// stopped returns a channel that is closed when the engine refuses writes until it is
	// opened again. It returns nil if that never happens.
	stopped() <-chan struct{}

	// clock returns the clock of everything but leases.
	clock() engineClock

	// leaseTime returns the time by which leases are judged, to the microsecond.
	leaseTime(t *tx) (time.Time, error)

	// migrated returns the versions of the schema before and after opening.
	migrated() (from, to int64)

	// stats returns the figures of the engine.
	stats() EngineStats

	// listsInside reports whether the database has the function list_blobs, because each
	// statement costs a round trip.
	listsInside() bool

	// maxLists returns how many lists may be read at a time, at least 1. They take longer than
	// other reads, which must find a free connection meanwhile.
	maxLists() int

	// commitGuard returns what every commit of the engine asks for permission.
	commitGuard() *commitGuard

	// close waits for the transactions that run, for a limited time, and releases the
	// resources of the engine. Further calls return the result of the first.
	close() error
}
