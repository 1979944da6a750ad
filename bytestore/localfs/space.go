package localfs

import (
	"fmt"
	"sync"

	"sluice/bytestore"
	"sluice/internal/vfs"
)

const (
	// The default reserve is maxReserve, or 1/smallShare of a small file system.
	maxReserve = 64 << 20
	smallShare = 20
	// maxInodeReserve is how many inodes are kept free, at most; the metadata
	// engine needs a few files for its log.
	maxInodeReserve = 64
)

// space keeps the books on the room left: what is free, less the reserve, less
// what the Puts under way have claimed and not yet written. The file system is
// asked each time (statfs costs about a microsecond): others write to it too.
type space struct {
	fs      vfs.FS
	dir     string
	reserve int64 // bytes
	inodes  int64 // inodes kept free

	mu      sync.Mutex
	claimed int64 // bytes that Puts under way will still write
}

// newSpace works out the reserves; see Options.Reserve.
func newSpace(fsys vfs.FS, dir string, reserve int64) (*space, error) {
	now, err := fsys.Space(dir)
	if err != nil {
		return nil, err
	}
	switch {
	case reserve == 0:
		reserve = min(maxReserve, now.Size/smallShare)
	case reserve < 0:
		reserve = 0
	}
	return &space{fs: fsys, dir: dir, reserve: reserve, inodes: min(maxInodeReserve, now.Inodes/smallShare)}, nil
}

// check is nil while there is room for n bytes above the reserves.
func (s *space) check(n int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.room(n)
}

// room is nil when n more bytes and one more file fit above the reserves. The
// caller holds the lock, so that claims are exact.
func (s *space) room(n int64) error {
	now, err := s.fs.Space(s.dir)
	if err != nil {
		return native(err)
	}
	if left := now.Free - s.reserve - s.claimed; left < n || left <= 0 {
		return fmt.Errorf("%w: %d bytes wanted, %d free, %d of them reserved, %d claimed",
			bytestore.ErrNoSpace, n, now.Free, s.reserve, s.claimed)
	}
	if now.Inodes > 0 && now.FreeInodes <= s.inodes {
		return fmt.Errorf("%w: %d inodes free, all reserved", bytestore.ErrNoSpace, now.FreeInodes)
	}
	return nil
}

// claim is one Put's share of the claimed bytes. It is used by one goroutine.
type claim struct {
	space *space
	held  int64
}

// claim sets n bytes aside, or fails with bytestore.ErrNoSpace.
func (s *space) claim(n int64) (*claim, error) {
	c := &claim{space: s}
	return c, c.grow(n)
}

// cover makes the claim at least n bytes, or fails with bytestore.ErrNoSpace.
func (c *claim) cover(n int64) error {
	if c.held >= n {
		return nil
	}
	return c.grow(n - c.held)
}

func (c *claim) grow(n int64) error {
	c.space.mu.Lock()
	defer c.space.mu.Unlock()
	if err := c.space.room(n); err != nil {
		return err
	}
	c.space.claimed += n
	c.held += n
	return nil
}

// spend gives back what was written, at most all: the file system counts it now.
func (c *claim) spend(n int64) {
	n = min(n, c.held)
	c.held -= n
	c.space.mu.Lock()
	defer c.space.mu.Unlock()
	c.space.claimed -= n
}

// release gives back the rest.
func (c *claim) release() { c.spend(c.held) }
