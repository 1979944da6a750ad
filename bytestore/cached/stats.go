package cached

import (
	"errors"
	"io/fs"
	"sync/atomic"
)

// Stats counts what a Store has done since it was opened, and tells its size.
type Stats struct {
	Hits      int64 // blocks that were there when a reader needed them
	Misses    int64 // blocks that a reader waited for, or had fetched ahead
	Fetches   int64 // requests for a block to the store beneath
	Bypasses  int64 // reads that went on in the store beneath
	Evictions int64 // blocks that made room for others
	Damaged   int64 // blocks whose files were found damaged, or gone
	Errors    int64 // operations on the folder that failed; see Store.Err
	Bytes     int64 // taken by files now, each rounded up to 4 KiB
	Blocks    int64 // cached now
}

// counts are the counters of Stats.
type counts struct {
	hits, misses, fetches, bypasses, evictions, damaged, errors atomic.Int64

	last atomic.Pointer[error]
}

// Stats returns the counters. Each is exact; together they need not be of one
// moment.
func (s *Store) Stats() Stats {
	s.mu.Lock()
	bytes, blocks := s.used, int64(s.blocks.recent.Len())
	s.mu.Unlock()
	return Stats{
		Hits:      s.counts.hits.Load(),
		Misses:    s.counts.misses.Load(),
		Fetches:   s.counts.fetches.Load(),
		Bypasses:  s.counts.bypasses.Load(),
		Evictions: s.counts.evictions.Load(),
		Damaged:   s.counts.damaged.Load(),
		Errors:    s.counts.errors.Load(),
		Bytes:     bytes,
		Blocks:    blocks,
	}
}

// Err is the latest failure of the folder, nil when there was none or a block
// was written since.
func (s *Store) Err() error {
	if last := s.counts.last.Load(); last != nil {
		return *last
	}
	return nil
}

// trouble notes an error of the folder; a read does not fail because of it.
// It reports whether there was one.
func (c *counts) trouble(err error) bool {
	if err == nil {
		return false
	}
	c.errors.Add(1)
	c.last.Store(&err)
	return true
}

// removed is nil when a file that was to be removed is not there.
func removed(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
