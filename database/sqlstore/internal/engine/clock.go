package engine

import (
	"time"

	"sluice/internal/boottime"
)

const (
	// clockStep is the least difference that counts as a clock that was set: between two
	// measurements of a server's clock, or between the wall clock and the elapsed time.
	clockStep = 5 * time.Second
	// clockDrift bounds the drift between two clocks: one part in 1,000 of elapsed time, twice the
	// rate by which NTP slews.
	clockDrift = 1_000
	// jumpPause is how long nothing is deleted by age while the time is in doubt, so that an
	// operator or NTP can correct a wrong time.
	jumpPause = time.Hour
)

// engineClock is an engine's clock.
type engineClock interface {
	// now returns the time without a query.
	now() time.Time
	// at returns the time for a transaction.
	at(t *Tx) (time.Time, error)
	// err returns the result of database.Clock's ClockErr.
	err() error
	// deletions returns the result of database.Clock's DeletionErr. If t is not nil, it first reads
	// the server's clock, if there is one.
	deletions(t *Tx) error
	// inDoubt reports whether now and at return a time that may be wrong. It reads no clock: it is
	// about the times that they have returned last.
	inDoubt() bool
	// begin compares the time with an earlier process's keptTime. It is called once, before
	// anything is decided by the time.
	begin(k keptTime)
	// keep returns the keptTime for a later process's begin.
	keep() keptTime
}

// injectedClock is a clock that is correct by definition.
type injectedClock func() time.Time

func (c injectedClock) now() time.Time            { return c() }
func (c injectedClock) at(*Tx) (time.Time, error) { return c(), nil }
func (c injectedClock) err() error                { return nil }
func (c injectedClock) deletions(*Tx) error       { return nil }
func (c injectedClock) inDoubt() bool             { return false }
func (c injectedClock) begin(keptTime)            {}
func (c injectedClock) keep() keptTime            { return keptTime{Known: c()} }

// clockReading is the time that a clock showed at a moment of elapsed time.
type clockReading struct {
	shown  time.Time
	at     time.Duration // elapsed time
	within time.Duration // greatest error
}

func (r *clockReading) carriedTo(at time.Duration) time.Time { return r.shown.Add(at - r.at) }

// keptTime is a process's knowledge about the time, for processes that start later.
type keptTime struct {
	Known  time.Time     `json:"known"`            // the last time that was known, plus the time elapsed since
	Shown  time.Time     `json:"shown,omitzero"`   // if the time is in doubt: the time that the clock shows
	Waited time.Duration `json:"waited,omitempty"` // and for how long, in nanoseconds
	Locks  time.Time     `json:"-"`                // the time by the clock of locks; zero: there is none
	Ran    bool          `json:"ran,omitempty"`    // and that a process ran when the clock was set
}

// passedOr returns injected, or boottime.Now if that is nil.
func passedOr(injected func() time.Duration) func() time.Duration {
	if injected != nil {
		return injected
	}
	return boottime.Now
}
