//go:build !movedclock

package engine

import "time"

// wallTime returns what the machine's wall clock shows.
func wallTime() time.Time { return time.Now() }
