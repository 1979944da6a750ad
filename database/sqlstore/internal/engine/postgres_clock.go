package engine

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"sluice/database"
)

const (
	// measureEvery is how often this process measures a server's clock.
	measureEvery = 10 * time.Second
	// measurementMaxAge is how long a measurement is valid.
	measurementMaxAge = time.Minute
)

// serverClock is a server's time, as measured by this process.
type serverClock struct {
	passed  func() time.Duration
	reading atomic.Pointer[clockReading] // the most accurate one
	seen    atomic.Int64                 // elapsed time at the last measurement

	mu    sync.Mutex
	doubt clockDoubt // its methods that write require mu
}

func (c *serverClock) now() time.Time { return c.reading.Load().carriedTo(c.passed()) }

// at returns the server's time at the beginning of a write transaction. In other transactions it
// returns now, or queries the server if the measurement is too old.
func (c *serverClock) at(t *Tx) (time.Time, error) {
	switch {
	case !t.Now.IsZero():
		return t.Now, nil
	case c.err() == nil:
		return c.now(), nil
	default:
		return c.query(t)
	}
}

// query measures the server's clock in a transaction.
func (c *serverClock) query(t *Tx) (time.Time, error) {
	sent := c.passed()
	shown, err := postgresTime(t)
	if err != nil {
		return time.Time{}, err
	}
	c.record(shown, sent)
	return shown, nil
}

// record stores a time that the server showed between sent and now. It keeps the most accurate
// reading and detects that the server's clock was set. This machine's clock may be the cause too: a
// virtual machine that was paused does not notice it.
func (c *serverClock) record(shown time.Time, sent time.Duration) {
	got := c.passed()
	next := &clockReading{shown: shown, at: sent + (got-sent)/2, within: (got - sent) / 2}
	c.mu.Lock()
	defer c.mu.Unlock()
	last := c.reading.Load()
	if last == nil {
		c.reading.Store(next)
		c.seen.Store(int64(got))
		c.doubt.begin(keptTime{}, *next)
		return
	}
	within := last.within + (next.at-last.at)/clockDrift
	jump := shown.Sub(last.carriedTo(next.at))
	if jump.Abs() <= within+next.within+clockStep && next.within > within {
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
	c.doubt.judge(*next, got)
}

func (c *serverClock) begin(k keptTime) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.doubt.begin(k, *c.reading.Load())
}

func (c *serverClock) inDoubt() bool { return c.doubt.inDoubt() }

func (c *serverClock) keep() keptTime {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.doubt.keep(c.passed())
}

func (c *serverClock) err() error {
	if age := c.passed() - time.Duration(c.seen.Load()); age > measurementMaxAge {
		return fmt.Errorf("%w: the clock of the database was last read %s ago, which must not exceed %s: check that this node can reach the database",
			database.ErrClock, age.Round(time.Second), measurementMaxAge)
	}
	return nil
}

func (c *serverClock) deletions(t *Tx) error {
	if t != nil && t.Now.IsZero() {
		if _, err := c.query(t); err != nil {
			return err
		}
	}
	if err := c.err(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.doubt.err("the clock of the database server, or of this node,", "", c.passed())
}

// postgresMicros is the server's time, not the transaction's, in microseconds since 1970.
const postgresMicros = `CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)`

// postgresTime returns the server's time, not the transaction's.
func postgresTime(t *Tx) (time.Time, error) {
	var micros int64
	_, err := t.Row(`SELECT `+postgresMicros, nil, (*Integer)(&micros))
	return time.UnixMicro(micros).UTC(), err
}
