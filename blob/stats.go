package blob

import "sluice/integrity"

// Stats are a Service's counters since it was created.
type Stats struct {
	FreedContents int64 // contents that were freed
	FreedObjects  int64 // objects that were deleted, orphans included
	Damaged       int64 // reads that found a block or an object damaged, or known to be

	integrity.Stats
}

// Stats returns the counters. Each is exact, but together they are not a snapshot.
func (s *Service) Stats() Stats {
	return Stats{
		FreedContents: s.counts.freedContents.Load(),
		FreedObjects:  s.counts.freedObjects.Load(),
		Damaged:       s.counts.damaged.Load(),
		Stats:         s.Checker.Stats(),
	}
}
