//go:build linux || darwin

package boottime

import (
	"time"

	"golang.org/x/sys/unix"
)

// supported is false if the kernel, or a sandbox, does not offer the clock. It is decided once
// because readings of two clocks cannot be compared.
var supported = func() bool {
	var ts unix.Timespec
	return unix.ClockGettime(clockID, &ts) == nil
}()

var system = clock{boot: bootTime, awake: awake}

func now() time.Duration {
	if !supported {
		return awake()
	}
	return system.now()
}

func bootTime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(clockID, &ts); err != nil {
		panic("boottime: the system's clock failed, which worked at the start: " + err.Error())
	}
	return time.Duration(ts.Nano())
}
