package cached

import (
	"fmt"

	"sluice/bytestore"
)

// makeSpace evicts blocks until n more bytes fit within Size, and counts them as used. It returns
// false if there is nothing left to evict, because the space is taken by files that are about to be
// written or could not be removed.
func (s *Store) makeSpace(n int64) bool {
	for !s.acquireSpace(n) {
		if !s.evict() {
			return false
		}
	}
	return true
}

func (s *Store) acquireSpace(n int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used+n > s.size {
		return false
	}
	s.used += n
	return true
}

func (s *Store) releaseSpace(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used -= n
}

// evict removes the least recently used block. It returns false if there is none.
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

// discard removes the files of entries that were removed from the index. A file counts as used
// space until it is removed, so that the files together never exceed Size.
func (s *Store) discard(entries ...*entry) {
	for _, e := range entries {
		if !s.counts.noteError(ignoreNotExist(s.fs.Remove(s.path(e)))) {
			s.releaseSpace(e.size())
		}
	}
}

// maxEvictionsForDisk is the number of blocks that are evicted for one block on a full disk. The
// space of files that are being read is not freed immediately, so there must be a limit.
const maxEvictionsForDisk = 4

// diskHasSpace reports whether the blocks being fetched fit on the disk above the reserve. The
// cache yields space to other users of its disk.
func (s *Store) diskHasSpace() bool {
	for range maxEvictionsForDisk {
		space, err := s.fs.Space(s.dir)
		if s.counts.noteError(err) {
			return false
		}
		if space.Free-int64(len(s.slots))*MinSize >= s.reserve {
			return true
		}
		if !s.evict() {
			break
		}
	}
	s.counts.noteError(fmt.Errorf("%w on the disk of the cache, of which %d bytes are kept free", bytestore.ErrNoSpace, s.reserve))
	return false
}
