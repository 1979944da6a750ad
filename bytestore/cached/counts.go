package cached

import "sync/atomic"

// counts holds the counters of Stats.
type counts struct {
	hits, misses, fetches, bypasses, evictions, damaged, errors atomic.Int64

	last atomic.Pointer[error]
}

// noteError records the folder's error, which does not fail a read, and reports whether there was
// one.
func (c *counts) noteError(err error) bool {
	if err == nil {
		return false
	}
	c.errors.Add(1)
	c.last.Store(&err)
	return true
}
