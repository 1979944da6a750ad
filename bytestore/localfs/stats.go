package localfs

// Stats are a Store's counters since it was opened, of the files that stay open for later readers;
// see Options.OpenFiles.
type Stats struct {
	Hits   int64 // Opens that found the object's file open
	Misses int64 // Opens that opened it
	Open   int64 // open files, including those that only their readers keep open
}

// Stats returns the counters. Each is exact, but together they are not a snapshot.
func (s *Store) Stats() Stats {
	return Stats{Hits: s.files.hits.Load(), Misses: s.files.misses.Load(), Open: s.files.open.Load()}
}
