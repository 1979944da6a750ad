package database

import "time"

// Clock is the engine's clock, by which all expiry, retention and leases are judged. All nodes
// of one database agree on it, whatever their own clocks are.
//
// A write transaction of an engine with a clock of its own, a database server, reads that
// clock; everything else uses Now. An embedded engine uses the clock of its machine.
type Clock interface {
	// Now returns the engine's time without a query: the last measurement, advanced by a
	// monotonic clock that includes the time during which the machine was suspended. A jump
	// of the machine's wall clock does not change it.
	Now() time.Time

	// ClockErr returns a non-nil error while Now may be wrong, because the engine's clock
	// was not measured for too long. It is always nil for an embedded engine. A read that
	// needs the time then measures it by itself.
	ClockErr() error

	// DeletionErr returns an ErrClock that says what an operator can do, while nothing may
	// be deleted because of its age: while ClockErr is not nil, or if the time was seen to
	// jump less than an hour ago. It is nil otherwise. All other operations continue; on an
	// embedded engine they use the time as it was before the jump until the hour is over.
	DeletionErr() error
}
