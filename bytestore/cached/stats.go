package cached

// Stats are a Store's counters since it was opened, and its size.
type Stats struct {
	Hits      int64 // blocks that were cached when a reader needed them
	Misses    int64 // blocks that a reader waited for or that were prefetched for it
	Fetches   int64 // requests for a block to the underlying store
	Bypasses  int64 // reads that continued in the underlying store
	Evictions int64 // blocks that were evicted
	Damaged   int64 // blocks with damaged or missing files
	Errors    int64 // operations on the folder that failed; see Store.Err
	Bytes     int64 // the files' current disk space, each rounded up to 4 KiB
	Blocks    int64 // current number of cached blocks
}

// Stats returns the counters. Each is exact, but together they are not a snapshot.
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

// Err returns the folder's latest failure. It returns nil if there was none or if a block was
// written since.
func (s *Store) Err() error {
	if last := s.counts.last.Load(); last != nil {
		return *last
	}
	return nil
}
