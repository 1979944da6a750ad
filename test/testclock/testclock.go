// Package testclock provides a clock for tests.
package testclock

import (
	"sync/atomic"
	"time"
)

// Clock is a clock that only a test moves. Its methods may be called concurrently.
type Clock struct{ nanos atomic.Int64 }

// New returns a clock that shows an arbitrary time with microseconds.
func New() *Clock { return At(time.Date(2030, 1, 2, 3, 4, 5, 123456000, time.UTC)) }

// At returns a clock that shows t.
func At(t time.Time) *Clock {
	c := &Clock{}
	c.Set(t)
	return c
}

// Now returns the time, in UTC.
func (c *Clock) Now() time.Time { return time.Unix(0, c.nanos.Load()).UTC() }

// Advance moves the clock by d, which may be negative.
func (c *Clock) Advance(d time.Duration) { c.nanos.Add(int64(d)) }

// Set makes the clock show t.
func (c *Clock) Set(t time.Time) { c.nanos.Store(t.UnixNano()) }
