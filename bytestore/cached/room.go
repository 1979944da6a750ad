package cached

import (
	"fmt"

	"sluice/bytestore"
)

// makeRoom evicts until n more bytes are within Size, and counts them as used.
// False when there is nothing to evict, as all room is that of files about to
// be written, or of files that could not be removed.
func (s *Store) makeRoom(n int64) bool {
	for !s.take(n) {
		if !s.evict() {
			return false
		}
	}
	return true
}

func (s *Store) take(n int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used+n > s.size {
		return false
	}
	s.used += n
	return true
}

func (s *Store) release(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used -= n
}

// evict removes the block that was not used for the longest time; false when
// there is none.
func (s *Store) evict() bool {
	s.mu.Lock()
	e := s.blocks.removeOldest()
	s.mu.Unlock()
	if e == nil {
		return false
	}
	s.counts.evictions.Add(1)
	s.discard(e)
	return true
}

// discard removes the files of entries that the index does not hold. A file is
// counted until it is gone, so that all files together stay within Size.
func (s *Store) discard(entries ...*entry) {
	for _, e := range entries {
		if !s.counts.trouble(removed(s.fs.Remove(s.path(e)))) {
			s.release(e.size())
		}
	}
}

// evictionsForDisk is how many blocks one block may cost on a full disk. Files
// that are being read give nothing back at once, so there has to be an end.
const evictionsForDisk = 4

// diskHasRoom reports whether the blocks that are being fetched fit on the disk
// above the reserve. A cache gives way to what else is on its disk.
func (s *Store) diskHasRoom() bool {
	for range evictionsForDisk {
		space, err := s.fs.Space(s.dir)
		if s.counts.trouble(err) {
			return false
		}
		if space.Free-int64(len(s.slots))*MinSize >= s.reserve {
			return true
		}
		if !s.evict() {
			break
		}
	}
	s.counts.trouble(fmt.Errorf("%w on the disk of the cache, which keeps %d bytes free", bytestore.ErrNoSpace, s.reserve))
	return false
}
