package localfs

import (
	"errors"
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
	// ahead is how many bytes a Put of known size claims at a time: few enough
	// that hundreds of stalled ones leave room for others.
	ahead = 4 << 20
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
	claimed int64 // bytes that Puts under way may write before they ask again
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

// check is nil while there is room for n bytes above the reserves and, unless n
// is 0, the claims.
func (s *space) check(n int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n == 0 {
		return s.room(0, 0)
	}
	return s.room(n, s.claimed)
}

// room is nil when n more bytes and one more file fit above the reserves and
// what is claimed. The caller holds the lock, so that claims are exact.
func (s *space) room(n, claimed int64) error {
	now, err := s.fs.Space(s.dir)
	if err != nil {
		return native(err)
	}
	if left := now.Free - s.reserve - claimed; left < n || left <= 0 {
		return fmt.Errorf("%w: %d bytes wanted, %d free, %d of them reserved, %d claimed",
			bytestore.ErrNoSpace, n, now.Free, s.reserve, claimed)
	}
	if now.Inodes > 0 && now.FreeInodes <= s.inodes {
		return fmt.Errorf("%w: 1 inode wanted, %d free, %d of them reserved",
			bytestore.ErrNoSpace, now.FreeInodes, s.inodes)
	}
	return nil
}

// explain adds what a Put of size bytes wanted and what is left to the error of
// a file system that called itself full, once that Put is undone.
func (s *space) explain(err error, size int64) error {
	now, spaceErr := s.fs.Space(s.dir)
	if spaceErr != nil {
		return errors.Join(err, spaceErr)
	}
	wanted := "unknown"
	if size != bytestore.UnknownSize {
		wanted = fmt.Sprint(size)
	}
	return fmt.Errorf("%w (bytes wanted: %s; undone, %d bytes are free, %d of %d inodes)",
		err, wanted, now.Free, now.FreeInodes, now.Inodes)
}

// claim is one Put's share of the claimed bytes. It is used by one goroutine.
type claim struct {
	space *space
	held  int64
}

// claim begins the claim of a Put of n bytes, or fails with
// bytestore.ErrNoSpace when they do not all fit now.
func (s *space) claim(n int64) (*claim, error) {
	c := &claim{space: s}
	return c, c.grow(n)
}

// cover sees to it that the claim is enough for the next write, with n bytes
// still to come. It fails with bytestore.ErrNoSpace when it is not and the n
// bytes no longer fit.
func (c *claim) cover(n int64) error {
	if c.held >= min(n, bufferSize) {
		return nil
	}
	return c.grow(n - c.held)
}

// grow sets n bytes aside, or, of more than ahead, that many; all n have to fit.
func (c *claim) grow(n int64) error {
	c.space.mu.Lock()
	defer c.space.mu.Unlock()
	if err := c.space.room(n, c.space.claimed); err != nil {
		return err
	}
	n = min(n, ahead)
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
