// Package histogram counts observations in buckets, for packages that do not know how their
// statistics are exported.
package histogram

import (
	"math"
	"sort"
	"sync/atomic"
	"time"
)

// Histogram counts observations in buckets. Its methods may be called concurrently.
type Histogram struct {
	bounds []float64
	counts []atomic.Uint64 // one more than bounds
	sum    atomic.Uint64   // float64 as bits
}

// New returns a Histogram of n buckets with the upper bounds first, first*factor,
// first*factor*factor and so on, and one more for everything above. first must be positive, and
// factor above 1.
func New(first, factor float64, n int) *Histogram {
	h := &Histogram{bounds: make([]float64, n), counts: make([]atomic.Uint64, n+1)}
	for i := range h.bounds {
		h.bounds[i] = first
		first *= factor
	}
	return h
}

// Seconds returns a Histogram for durations in seconds: 100 µs to 26 s in ten buckets.
func Seconds() *Histogram { return New(0.0001, 4, 10) }

// Observe counts v in the first bucket with a bound of at least v.
func (h *Histogram) Observe(v float64) {
	h.counts[sort.SearchFloat64s(h.bounds, v)].Add(1)
	for {
		old := h.sum.Load()
		if h.sum.CompareAndSwap(old, math.Float64bits(math.Float64frombits(old)+v)) {
			return
		}
	}
}

// Since counts the seconds since began.
func (h *Histogram) Since(began time.Time) { h.Observe(time.Since(began).Seconds()) }

// Counts are a Histogram's observations.
type Counts struct {
	Bounds []float64 // the buckets' upper bounds, ascending
	Within []uint64  // number of observations up to each bound
	Count  uint64    // of all observations
	Sum    float64
}

// Counts returns the observations. Those that are made concurrently may be in Sum but not in the
// buckets.
func (h *Histogram) Counts() Counts {
	c := Counts{Bounds: h.bounds, Within: make([]uint64, len(h.bounds)), Sum: math.Float64frombits(h.sum.Load())}
	for i := range h.counts {
		c.Count += h.counts[i].Load()
		if i < len(c.Within) {
			c.Within[i] = c.Count
		}
	}
	return c
}
