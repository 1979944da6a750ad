// Package transfer moves the bodies of requests and responses at a minimum rate that clients must
// keep and at a maximum rate that a caller may have.
package transfer

import (
	"math"
	"time"
)

// MinRate is a transfer's minimum rate: this many bytes in any window of time. Only the time that
// is spent waiting for the client counts.
type MinRate struct {
	Bytes  int64
	Window time.Duration
}

// DefaultMinRate is 1 KiB/s over any 30 s.
var DefaultMinRate = MinRate{Bytes: 30 << 10, Window: 30 * time.Second}

// BytesPerSecond returns the average rate.
func (r MinRate) BytesPerSecond() int64 {
	return int64(float64(r.Bytes) / r.Window.Seconds())
}

// timeFor returns how long n bytes may take, at least one window.
func (r MinRate) timeFor(n int64) time.Duration {
	t := float64(r.Window) * float64(n) / float64(r.Bytes)
	return max(r.Window, time.Duration(min(t, math.MaxInt64/2)))
}
