package database

import "time"

// Clock is the engine's clock, by which all expiry, retention and leases are judged. All nodes
// of one database agree on it, whatever their own clocks are.
//
// If the engine has its own clock, as a database server does, a write transaction reads it;
// everything else uses Now. An embedded engine uses its machine's clock.
type Clock interface {
	// Now returns the engine's time without a query: the last measurement, advanced by a monotonic
	// clock, which also counts while the machine is suspended. A jump in the machine's wall clock
	// does not change Now.
	Now() time.Time

	// ClockErr returns a non-nil error while Now may be wrong, because the last measurement is too
	// old. It is always nil for an embedded engine. A read that needs the time then measures it by
	// itself.
	ClockErr() error

	// DeletionErr returns an ErrClock while nothing may be deleted because of its age: while
	// ClockErr is not nil, and for an hour after the time was seen to jump. The error says what an
	// operator can do. Otherwise DeletionErr returns nil. All other operations continue. On an
	// embedded engine they use the time from before the jump until the hour is over.
	DeletionErr() error
}
