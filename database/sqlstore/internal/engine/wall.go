//go:build !tuned

package engine

import "time"

// wallTime returns the time by the machine's wall clock.
func wallTime() time.Time { return time.Now() }
