package boottime

import (
	"time"

	"golang.org/x/sys/unix"
)

// supported is false on a kernel, or under a sandbox, without CLOCK_BOOTTIME. It is
// decided once: the readings of two clocks cannot be compared.
var supported = func() bool {
	var ts unix.Timespec
	return unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) == nil
}()

func now() time.Duration {
	if !supported {
		return awake()
	}
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic("boottime: CLOCK_BOOTTIME is gone: " + err.Error()) // it worked before, and has no state to lose
	}
	return time.Duration(ts.Nano())
}
