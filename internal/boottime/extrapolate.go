package boottime

import (
	"sync/atomic"
	"time"
)

var start = time.Now()

// awake returns the time by the runtime's monotonic clock, which may stop while the machine is
// asleep.
func awake() time.Duration { return time.Since(start) }

// resolution is for how long the system clock, once read, is extrapolated. On Linux such a reading
// is a system call, which costs several times as much as awake.
const resolution = time.Millisecond

// clock is a system clock that includes sleep, extrapolated by awake for as long as resolution.
type clock struct {
	boot     func() time.Duration // the system's clock
	awake    func() time.Duration
	ahead    atomic.Int64 // lower bound of boot-awake
	measured atomic.Int64 // reading of awake when ahead was measured; 0 if never
}

// now never goes backwards because ahead only grows, as does the difference between the two clocks.
func (c *clock) now() time.Duration {
	at := c.awake()
	measured := c.measured.Load()
	if age := at - time.Duration(measured); measured == 0 || age < 0 || age >= resolution {
		c.measure()
		at = c.awake()
	}
	return at + time.Duration(c.ahead.Load())
}

// measure reads awake last: a goroutine that is descheduled between the two readings measures a
// difference that is too small, never one that is too large.
func (c *clock) measure() {
	boot := c.boot()
	at := c.awake()
	for {
		known := c.ahead.Load()
		if int64(boot-at) <= known || c.ahead.CompareAndSwap(known, int64(boot-at)) {
			break
		}
	}
	c.measured.Store(int64(at))
}
