// Package boottime is a clock that nobody sets: it counts the time since some
// moment in the past, the time that the machine slept included where the
// operating system counts it (Linux). Two readings of one process can be compared.
package boottime

import "time"

// start is what the fallback counts from.
var start = time.Now()

// Now returns the time since that moment. It never goes backwards.
func Now() time.Duration { return now() }

// awake is now by the runtime's own clock, which may stop while the machine sleeps.
func awake() time.Duration { return time.Since(start) }
