// Package boottime is a clock that nobody sets: it counts the time since some
// moment in the past, the time that the machine slept included where the
// operating system counts it (Linux). Two readings of one process can be compared.
package boottime

import "time"

// start is what awake counts from.
var start = time.Now()

// Now returns the time since that moment. It never goes backwards. A sleep of the
// machine is counted at most a millisecond (resolution) after its end: a reading
// before that is one that could have been made just before the sleep. Now may be
// called from many goroutines.
func Now() time.Duration { return now() }

// awake is the time by the runtime's own clock, which may stop while the machine
// sleeps.
func awake() time.Duration { return time.Since(start) }
