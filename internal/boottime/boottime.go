// Package boottime is a monotonic clock that cannot be set. Unlike the monotonic readings of
// package time it includes the time that the machine was asleep, on Linux (CLOCK_BOOTTIME), macOS
// (CLOCK_MONOTONIC_RAW) and Windows (GetTickCount64). Only readings of one process can be compared.
package boottime

import "time"

// Now returns the time since an arbitrary moment in the past. It never goes backwards. Time that
// the machine was asleep is included at most a millisecond (resolution) after the machine has woken
// up: an earlier reading is one that could have been made just before the sleep. Now may be called
// concurrently.
func Now() time.Duration { return now() }
