package blob

// Stats are a Service's counters since it was created.
type Stats struct {
	FreedContents int64 // contents that were freed
	FreedObjects  int64 // objects that were deleted, orphans included
	Damaged       int64 // reads that found a block or an object damaged, or known to be
	Found         int64 // contents for which this process was the first to record damage
	Healed        int64 // extents that were healed
	Scrubbed      int64 // bytes that the scrub has read
	StoredExtents int64 // as the scrub has counted them last; 0: not yet

	Small SmallStats
}

// Stats returns the counters. Each is exact, but together they are not a snapshot.
func (s *Service) Stats() Stats {
	return Stats{
		FreedContents: s.counts.freedContents.Load(),
		FreedObjects:  s.counts.freedObjects.Load(),
		Damaged:       s.counts.damaged.Load(),
		Found:         s.counts.found.Load(),
		Healed:        s.counts.healed.Load(),
		Scrubbed:      s.counts.scrubbed.Load(),
		StoredExtents: s.counts.storedExtents.Load(),
		Small:         s.small.stats(),
	}
}
