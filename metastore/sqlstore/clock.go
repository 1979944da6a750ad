package sqlstore

import (
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"sluice/internal/boottime"
	"sluice/metastore"
)

const (
	// measureEvery is how often the clock of a server is measured.
	measureEvery = 10 * time.Second
	// measurementMaxAge is how long a measurement is valid.
	measurementMaxAge = time.Minute
	// clockStep is the least difference that counts as a clock that was set: between two
	// measurements of a server, or between the wall clock and the elapsed time.
	clockStep = 5 * time.Second
	// clockDrift bounds the drift between two clocks: one part in 1,000 of the elapsed
	// time, twice the rate by which NTP slews.
	clockDrift = 1_000
	// jumpPause is how long nothing is deleted by age after a clock was set, so that an
	// operator or NTP can correct a wrong time.
	jumpPause = time.Hour
)

// engineClock is the clock of a store.
type engineClock interface {
	// now returns the time without a query.
	now() time.Time
	// at returns the time for a transaction.
	at(t *tx) (time.Time, error)
	// err returns the result of ClockErr of metastore.Clock.
	err() error
	// deletions returns the result of DeletionErr of metastore.Clock. If t is not nil, a
	// clock of the server is read first.
	deletions(t *tx) error
}

// Now implements metastore.Clock.
func (s *Store) Now() time.Time { return truncate(s.clock.now()) }

// ClockErr implements metastore.Clock.
func (s *Store) ClockErr() error { return s.clock.err() }

// DeletionErr implements metastore.Clock.
func (s *Store) DeletionErr() error { return s.clock.deletions(nil) }

// injectedClock is a clock that is correct by definition.
type injectedClock func() time.Time

func (c injectedClock) now() time.Time            { return c() }
func (c injectedClock) at(*tx) (time.Time, error) { return c(), nil }
func (c injectedClock) err() error                { return nil }
func (c injectedClock) deletions(*tx) error       { return nil }

// wallClock is the time of the machine: one reading of the wall clock plus the time
// elapsed since. A difference between this and the wall clock shows that the wall clock
// was set. While they differ, nothing is deleted by age; once they have differed for
// jumpPause, the wall clock is adopted.
type wallClock struct {
	wall    func() time.Time
	passed  func() time.Duration
	reading atomic.Pointer[clockReading]

	mu struct {
		sync.Mutex
		jump  time.Duration // difference of the wall clock; 0: none
		since time.Duration // elapsed time when jump was detected
	}
}

// clockReading is the time that a clock showed at a moment of elapsed time.
type clockReading struct {
	shown  time.Time
	at     time.Duration // elapsed time
	within time.Duration // greatest error
}

func (r *clockReading) carriedTo(at time.Duration) time.Time { return r.shown.Add(at - r.at) }

func newWallClock(wall func() time.Time, passed func() time.Duration) *wallClock {
	if wall == nil {
		wall = time.Now
	}
	c := &wallClock{wall: wall, passed: passedOr(passed)}
	c.adopt()
	return c
}

// passedOr returns injected, or boottime.Now if that is nil.
func passedOr(injected func() time.Duration) func() time.Duration {
	if injected != nil {
		return injected
	}
	return boottime.Now
}

// adopt takes a new reading of the wall clock.
func (c *wallClock) adopt() {
	c.reading.Store(&clockReading{shown: c.wall().Round(0), at: c.passed()})
	c.mu.jump = 0
}

func (c *wallClock) now() time.Time            { return c.reading.Load().carriedTo(c.passed()) }
func (c *wallClock) at(*tx) (time.Time, error) { return c.now(), nil }
func (c *wallClock) err() error                { return nil }

func (c *wallClock) deletions(*tx) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	jump, passed := c.wall().Sub(c.now()), c.passed()
	switch {
	case jump.Abs() < clockStep, c.mu.jump != 0 && (jump-c.mu.jump).Abs() < clockStep && passed-c.mu.since >= jumpPause:
		c.adopt()
		return nil
	case c.mu.jump == 0 || (jump-c.mu.jump).Abs() >= clockStep:
		c.mu.jump, c.mu.since = jump, passed
	}
	return fmt.Errorf("%w: the clock of this machine was set by %s: nothing is deleted by age, and the time from before is used, for another %s; if the clock is wrong now, correct it within that time",
		metastore.ErrClock, c.mu.jump.Round(time.Second), (jumpPause - (passed - c.mu.since)).Round(time.Second))
}

// serverClock is the time of a server, as measured by this process.
type serverClock struct {
	passed  func() time.Duration
	reading atomic.Pointer[clockReading] // the most accurate one
	seen    atomic.Int64                 // elapsed time of the last measurement

	mu struct {
		sync.Mutex
		jump  time.Duration // by which the clock of the server or of this machine was set last; 0: never
		since time.Duration
	}
}

func (c *serverClock) now() time.Time { return c.reading.Load().carriedTo(c.passed()) }

// at returns the time that the server returned at the beginning of a write transaction. In
// other transactions it returns now, or queries the server if the measurement is too old.
func (c *serverClock) at(t *tx) (time.Time, error) {
	switch {
	case !t.now.IsZero():
		return t.now, nil
	case c.err() == nil:
		return c.now(), nil
	default:
		return c.query(t)
	}
}

// query measures the clock of the server in a transaction.
func (c *serverClock) query(t *tx) (time.Time, error) {
	sent := c.passed()
	shown, err := postgresTime(t)
	if err != nil {
		return time.Time{}, err
	}
	c.record(shown, sent)
	return shown, nil
}

// learnFrom returns the time of the server in the results of the message that began a write
// transaction, and records it.
func (c *serverClock) learnFrom(results []*pgconn.Result, sent time.Duration) (time.Time, error) {
	row := results[len(results)-1].Rows[0]
	micros, err := strconv.ParseInt(string(row[0]), 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("sqlstore: time of the server: %w", err)
	}
	shown := time.UnixMicro(micros).UTC()
	c.record(shown, sent)
	return shown, nil
}

// record stores a time that the server showed between sent and now. It keeps the most
// accurate reading and detects that the clock of the server was set. The clock of this
// machine may be the cause too: a virtual machine that was paused does not notice it.
func (c *serverClock) record(shown time.Time, sent time.Duration) {
	got := c.passed()
	next := &clockReading{shown: shown, at: sent + (got-sent)/2, within: (got - sent) / 2}
	c.mu.Lock()
	defer c.mu.Unlock()
	last := c.reading.Load()
	if last == nil {
		c.reading.Store(next)
		c.seen.Store(int64(got))
		return
	}
	within := last.within + (next.at-last.at)/clockDrift
	jump := shown.Sub(last.carriedTo(next.at))
	if jump.Abs() > within+next.within+clockStep {
		c.mu.jump, c.mu.since = jump, got
	} else if next.within > within {
		next = last
	}
	// The server read its clock between the request and the response, so that now is never
	// before the time that it returned.
	if behind := shown.Sub(next.carriedTo(got)); behind > 0 {
		next = &clockReading{shown: shown, at: got, within: got - sent}
	} else if ahead := next.carriedTo(sent).Sub(shown); ahead > 0 {
		next = &clockReading{shown: shown, at: sent, within: got - sent}
	}
	c.reading.Store(next)
	c.seen.Store(int64(got))
}

func (c *serverClock) err() error {
	if age := c.passed() - time.Duration(c.seen.Load()); age > measurementMaxAge {
		return fmt.Errorf("%w: the clock of the database was last read %s ago, which must not exceed %s: check that this node can reach the database",
			metastore.ErrClock, age.Round(time.Second), measurementMaxAge)
	}
	return nil
}

func (c *serverClock) deletions(t *tx) error {
	if t != nil && t.now.IsZero() {
		if _, err := c.query(t); err != nil {
			return err
		}
	}
	if err := c.err(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if left := jumpPause - (c.passed() - c.mu.since); c.mu.jump != 0 && left > 0 {
		return fmt.Errorf("%w: the clock of the database server, or of this node, was set by %s: nothing is deleted by age for another %s; if the clock of the server is wrong now, correct it within that time",
			metastore.ErrClock, c.mu.jump.Round(time.Second), left.Round(time.Second))
	}
	return nil
}
