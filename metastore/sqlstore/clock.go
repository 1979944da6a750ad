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
	// measuredFor is how long a measurement counts.
	measurementMaxAge = time.Minute
	// clockStep is the difference that only a clock which was set explains: between
	// two measurements of a server, or between the wall clock and the time that passed.
	clockStep = 5 * time.Second
	// clockDrift is what two clocks may drift apart, as a part of the time that
	// passes: 1 in 1,000, which is twice what NTP slews by.
	clockDrift = 1_000
	// jumpPause is how long nothing is deleted for its age after a clock was set. It
	// is the time in which an operator, or NTP, can take a wrong time back.
	jumpPause = time.Hour
)

// timekeeper tells the time by which a store judges.
type engineClock interface {
	// now returns the time as it is known without asking.
	now() time.Time
	// at returns the time for a transaction.
	at(t *tx) (time.Time, error)
	// err is metastore.Clock's ClockErr.
	err() error
	// deletions is DeletionErr. With a transaction, which may be nil, a clock of
	// the engine's own is asked first.
	deletions(t *tx) error
}

// Now implements metastore.Clock.
func (s *Store) Now() time.Time { return truncate(s.clock.now()) }

// ClockErr implements metastore.Clock.
func (s *Store) ClockErr() error { return s.clock.err() }

// DeletionErr implements metastore.Clock.
func (s *Store) DeletionErr() error { return s.clock.deletions(nil) }

// injectedClock is a clock that is right by definition.
type injectedClock func() time.Time

func (c injectedClock) now() time.Time            { return c() }
func (c injectedClock) at(*tx) (time.Time, error) { return c(), nil }
func (c injectedClock) err() error                { return nil }
func (c injectedClock) deletions(*tx) error       { return nil }

// wallClock is the time of a machine: its wall clock as it was read once, carried
// on by the time that passed. A wall clock that was set is noticed by comparing the
// two. While it differs nothing is deleted for its age; when it has differed for
// jumpPause it is taken over.
type wallClock struct {
	wall    func() time.Time
	passed  func() time.Duration
	reading atomic.Pointer[clockReading]

	mu struct {
		sync.Mutex
		jump  time.Duration // by which the wall clock differs; 0: it does not
		since time.Duration // when that was noticed
	}
}

// clockReading is what a clock showed at a moment.
type clockReading struct {
	shown  time.Time
	at     time.Duration // by the time that passes
	within time.Duration // by how much it may be wrong
}

func (r *clockReading) carriedTo(at time.Duration) time.Time { return r.shown.Add(at - r.at) }

func newWallClock(wall func() time.Time, passed func() time.Duration) *wallClock {
	if wall == nil {
		wall = time.Now
	}
	c := &wallClock{wall: wall, passed: passedOr(passed)}
	c.takeOver()
	return c
}

// passedOr returns what counts the time that passes.
func passedOr(injected func() time.Duration) func() time.Duration {
	if injected != nil {
		return injected
	}
	return boottime.Now
}

// takeOver believes the wall clock.
func (c *wallClock) takeOver() {
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
		c.takeOver()
		return nil
	case c.mu.jump == 0 || (jump-c.mu.jump).Abs() >= clockStep:
		c.mu.jump, c.mu.since = jump, passed
	}
	return fmt.Errorf("%w: the clock of this machine was set by %s: nothing that is old is deleted, and the time before that counts, for another %s; set the clock right within that time if it is wrong now",
		metastore.ErrClock, c.mu.jump.Round(time.Second), (jumpPause - (passed - c.mu.since)).Round(time.Second))
}

// serverClock is the time of a server, as far as this process knows it.
type serverClock struct {
	passed  func() time.Duration
	reading atomic.Pointer[clockReading] // the best that there is
	seen    atomic.Int64                 // when the server last showed a time, by the time that passes

	mu struct {
		sync.Mutex
		jump  time.Duration // by which the server's clock, or ours, was set last; 0: never
		since time.Duration
	}
}

func (c *serverClock) now() time.Time { return c.reading.Load().carriedTo(c.passed()) }

// at returns what the server said at the beginning of a write, else what is known
// of it, else what it says when it is asked.
func (c *serverClock) at(t *tx) (time.Time, error) {
	switch {
	case !t.now.IsZero():
		return t.now, nil
	case c.err() == nil:
		return c.now(), nil
	default:
		return c.ask(t)
	}
}

// ask measures the server's clock in a transaction.
func (c *serverClock) ask(t *tx) (time.Time, error) {
	sent := c.passed()
	shown, err := postgresTime(t)
	if err != nil {
		return time.Time{}, err
	}
	c.learn(shown, sent)
	return shown, nil
}

// toldBy learns from the results of a message that began a write, and returns the
// time that the server said in it.
func (c *serverClock) learnFrom(results []*pgconn.Result, sent time.Duration) (time.Time, error) {
	row := results[len(results)-1].Rows[0]
	micros, err := strconv.ParseInt(string(row[0]), 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("sqlstore: the server's time: %w", err)
	}
	shown := time.UnixMicro(micros).UTC()
	c.learn(shown, sent)
	return shown, nil
}

// learn takes in a time that the server showed at some moment between sent and
// now. It keeps the reading that is known best, and notices when the server's clock
// was set; ours may have been as well, which a virtual machine does not notice that
// stood still.
func (c *serverClock) learn(shown time.Time, sent time.Duration) {
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
	// The server showed the time not before it was asked, nor after it answered: so
	// now is never before what it said.
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
		return fmt.Errorf("%w: the clock of the database was last read %s ago, at most %s is good: see that this node reaches the database",
			metastore.ErrClock, age.Round(time.Second), measurementMaxAge)
	}
	return nil
}

func (c *serverClock) deletions(t *tx) error {
	if t != nil && t.now.IsZero() {
		if _, err := c.ask(t); err != nil {
			return err
		}
	}
	if err := c.err(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if left := jumpPause - (c.passed() - c.mu.since); c.mu.jump != 0 && left > 0 {
		return fmt.Errorf("%w: the clock of the database's server, or of this node, was set by %s: nothing that is old is deleted for another %s; set the clock of the server right within that time if it is wrong now",
			metastore.ErrClock, c.mu.jump.Round(time.Second), left.Round(time.Second))
	}
	return nil
}
