package boottime

import "golang.org/x/sys/unix"

// clockID includes sleep on macOS, as it is mach_continuous_time.
const clockID = unix.CLOCK_MONOTONIC_RAW
