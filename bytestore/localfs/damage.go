package localfs

import (
	"fmt"

	"sluice/bytestore/localfs/internal/journal"
)

// restoreWhatLacks is the advice to an operator about a damaged journal.
const restoreWhatLacks = "objects that were in it may be missing or damaged: restore or write again the blobs that sluice check --read-bytes names, then remove the file"

// Damage returns a sentence for each damage that Open has found in the journal. Open has replayed
// everything else, and kept the file.
func (s *Store) Damage() []string { return s.damage }

// Damage returns a sentence for each damage in a journal, and for each damaged journal that a Store
// has kept.
func (r *Reader) Damage() []string {
	log := r.store.log.Load().log
	found := describe(log)
	for _, file := range log.Kept() {
		found = append(found, fmt.Sprintf("%s is a damaged journal that a start has kept; %s", file, restoreWhatLacks))
	}
	return found
}

func describe(log *journal.Log) (found []string) {
	for _, d := range log.Damage() {
		found = append(found, fmt.Sprintf("the journal %s is damaged at byte %d; a start replays the %d whole records behind that, and keeps the file as %s; %s",
			d.File, d.Offset, d.Behind, d.Kept, restoreWhatLacks))
	}
	return found
}
