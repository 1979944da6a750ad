package engine

import (
	"sync"
	"sync/atomic"
	"time"
)

// wallClock is the machine's time: one reading of its wall clock plus the time elapsed since. A
// difference between this and the wall clock shows that the wall clock was set. While they differ,
// nothing is deleted by age; once they have differed for jumpPause, the wall clock is adopted.
type wallClock struct {
	wall    func() time.Time
	passed  func() time.Duration
	reading atomic.Pointer[clockReading]

	mu    sync.Mutex
	doubt clockDoubt // its methods that write require mu
}

func newWallClock(wall func() time.Time, passed func() time.Duration) *wallClock {
	if wall == nil {
		wall = wallTime
	}
	c := &wallClock{wall: wall, passed: passedOr(passed)}
	c.begin(keptTime{})
	return c
}

// begin reads the wall clock anew.
func (c *wallClock) begin(k keptTime) {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := c.read()
	c.doubt.begin(k, first)
	c.reading.Store(&first)
}

func (c *wallClock) read() clockReading {
	return clockReading{shown: c.wall().Round(0), at: c.passed()}
}

func (c *wallClock) now() time.Time { return c.reading.Load().carriedTo(c.passed()) }

func (c *wallClock) at(*Tx) (time.Time, error) { return c.now(), nil }

func (c *wallClock) err() error { return nil }

func (c *wallClock) inDoubt() bool { return c.doubt.inDoubt() }

func (c *wallClock) deletions(*Tx) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.judge()
	return c.doubt.err("the clock of this machine", ", and the time from before is used", r.at)
}

// judge reads the wall clock and adopts it unless it is in doubt.
func (c *wallClock) judge() clockReading {
	r := c.read()
	c.doubt.judge(r, r.at)
	if !c.doubt.inDoubt() {
		c.reading.Store(&r)
	}
	return r
}

func (c *wallClock) keep() keptTime {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.doubt.keep(c.judge().at)
}
