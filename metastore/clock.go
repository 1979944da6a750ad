package metastore

import "time"

// Clock is the one time by which everything is judged: the engine's. Whatever the
// wall clock of a node says, all nodes of one database agree on it.
//
// A write transaction of an engine that has a clock of its own (a server) reads
// that clock; everything else uses Now. An embedded engine has the clock of its
// machine.
type Clock interface {
	// Now returns the engine's time, as this process knows it without asking: what
	// was measured last, carried on by a clock that counts the time that the machine
	// slept and that nobody sets. A jump of the machine's wall clock does not move it.
	Now() time.Time

	// ClockErr returns why Now may be wrong: the engine's clock was not measured for
	// too long. It is nil while Now is good, and always for an embedded engine. A read
	// that needs the time measures it then by itself.
	ClockErr() error

	// DeletionErr returns an error that is ErrClock, and says what an operator can do,
	// while nothing may be deleted for its age: ClockErr is not nil, or the time was
	// seen to jump less than an hour ago. Everything else goes on meanwhile: on an
	// embedded engine by the time as it was before the jump, which is then given up.
	DeletionErr() error
}
