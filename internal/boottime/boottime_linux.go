package boottime

import (
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// resolution is how long a measurement of asleep counts. To read CLOCK_BOOTTIME is a
// system call, which costs several times what awake does.
const resolution = time.Millisecond

// supported is false on a kernel, or under a sandbox, without CLOCK_BOOTTIME. It is
// decided once: the readings of two clocks cannot be compared.
var supported = func() bool {
	var ts unix.Timespec
	return unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) == nil
}()

// clock is CLOCK_BOOTTIME, carried on by awake for as long as resolution.
type clock struct {
	boot     func() time.Duration // CLOCK_BOOTTIME
	awake    func() time.Duration
	ahead    atomic.Int64 // by which boot is ahead of awake, at least
	measured atomic.Int64 // when that was measured, by awake; 0: never
}

var system = clock{boot: bootTime, awake: awake}

func now() time.Duration {
	if !supported {
		return awake()
	}
	return system.now()
}

// now never goes backwards: ahead only grows, as the difference of the two clocks
// does.
func (c *clock) now() time.Duration {
	at := c.awake()
	measured := c.measured.Load()
	if age := at - time.Duration(measured); measured == 0 || age < 0 || age >= resolution {
		c.measure()
		at = c.awake()
	}
	return at + time.Duration(c.ahead.Load())
}

// measure reads awake last: a goroutine that is kept waiting between the two finds
// a difference that is too small, never one that is too great.
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

func bootTime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic("boottime: CLOCK_BOOTTIME is gone: " + err.Error()) // it worked before, and has no state to lose
	}
	return time.Duration(ts.Nano())
}
