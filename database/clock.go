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
	// ClockErr is not nil, and while the time is in doubt. It is in doubt for an hour after it was
	// seen to jump, or after the store was opened at a time that does not follow the one that
	// Maintenance.KeepTime has recorded last. The hour begins again if the time jumps again, goes
	// on if the store is opened again in it, and ends at once if the clock is set right. The error
	// advises the operator, and wraps ErrLongStop if nothing need be wrong. Otherwise DeletionErr
	// returns nil.
	//
	// While the time is in doubt nothing is forgotten: rows that are retained for a time, such as
	// the outcomes of requests with an idempotency key, are found whatever their age. All other
	// operations continue. On an embedded engine they use the time from before a jump until the
	// doubt ends, and the machine's if the store was opened in doubt.
	DeletionErr() error
}
