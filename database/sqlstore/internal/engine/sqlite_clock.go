package engine

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"sluice/database"
)

// wallClock is the machine's time: one reading of its wall clock plus the time elapsed since. A
// difference between this and the wall clock shows that the wall clock was set. While they differ,
// nothing is deleted by age; once they have differed for jumpPause, the wall clock is adopted.
type wallClock struct {
	wall    func() time.Time
	passed  func() time.Duration
	reading atomic.Pointer[clockReading]

	mu struct {
		sync.Mutex
		jump  time.Duration // the wall clock's difference; 0: none
		since time.Duration // elapsed time when jump was detected
	}
}

func newWallClock(wall func() time.Time, passed func() time.Duration) *wallClock {
	if wall == nil {
		wall = time.Now
	}
	c := &wallClock{wall: wall, passed: passedOr(passed)}
	c.adopt()
	return c
}

// adopt reads the wall clock anew.
func (c *wallClock) adopt() {
	c.reading.Store(&clockReading{shown: c.wall().Round(0), at: c.passed()})
	c.mu.jump = 0
}

func (c *wallClock) now() time.Time { return c.reading.Load().carriedTo(c.passed()) }

func (c *wallClock) at(*Tx) (time.Time, error) { return c.now(), nil }

func (c *wallClock) err() error { return nil }

func (c *wallClock) deletions(*Tx) error {
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
		database.ErrClock, c.mu.jump.Round(time.Second), (jumpPause - (passed - c.mu.since)).Round(time.Second))
}
