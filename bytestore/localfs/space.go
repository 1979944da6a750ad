package localfs

import (
	"errors"
	"fmt"
	"sync"

	"sluice/bytestore"
	"sluice/internal/vfs"
)

const (
	// maxInodeReserve inodes are kept free, or 1/inodeReserveShare if that is less. The metadata
	// engine needs a few files for its log.
	maxInodeReserve   = 64
	inodeReserveShare = 20
	// reserveAhead is how many bytes a Put reserves at a time: few enough that hundreds of stalled
	// Puts leave space for more.
	reserveAhead = 4 << 20
)

// space tracks the available space: free space, minus the reserve, minus bytes that Puts in
// progress have reserved and not yet written. It queries the file system each time, because other
// processes write to it, too (statfs takes about a microsecond).
type space struct {
	fs          vfs.FS
	dir         string
	keptBytes   int64 // the reserve
	keptInodes  int64
	mu          sync.Mutex
	outstanding int64 // bytes of all reservations
}

// newSpace determines the reserves; see Options.Reserve.
func newSpace(fsys vfs.FS, dir string, reserve int64) (*space, error) {
	now, err := fsys.Space(dir)
	if err != nil {
		return nil, err
	}
	if reserve == 0 {
		reserve = now.Reserve()
	}
	return &space{fs: fsys, dir: dir, keptBytes: max(reserve, 0), keptInodes: min(maxInodeReserve, now.Inodes/inodeReserveShare)}, nil
}

// check returns nil if n bytes fit above the reserves and, unless n is 0, the reservations.
func (s *space) check(n int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n == 0 {
		return s.fits(0, 0)
	}
	return s.fits(n, s.outstanding)
}

// fits returns nil if n more bytes and one more file fit above the reserves and the given
// reservations. The caller must hold the lock, so that reservations are exact.
func (s *space) fits(n, outstanding int64) error {
	now, err := s.fs.Space(s.dir)
	if err != nil {
		return contractError(err)
	}
	if left := now.Free - s.keptBytes - outstanding; left < n || left <= 0 {
		return fmt.Errorf("%w: %d bytes needed, %d free, of which %d are kept in reserve and %d reserved by other writes",
			bytestore.ErrNoSpace, n, now.Free, s.keptBytes, outstanding)
	}
	if now.Inodes > 0 && now.FreeInodes <= s.keptInodes {
		return fmt.Errorf("%w: 1 inode needed, %d free, of which %d are kept in reserve",
			bytestore.ErrNoSpace, now.FreeInodes, s.keptInodes)
	}
	return nil
}

// explain adds to a full file system's error how much a Put of size bytes needed and, now that it
// was undone, how much is free.
func (s *space) explain(err error, size int64) error {
	now, spaceErr := s.fs.Space(s.dir)
	if spaceErr != nil {
		return errors.Join(err, spaceErr)
	}
	needed := "unknown"
	if size != bytestore.UnknownSize {
		needed = fmt.Sprint(size)
	}
	return fmt.Errorf("%w (bytes needed: %s; without this object %d bytes and %d of %d inodes are free)",
		err, needed, now.Free, now.FreeInodes, now.Inodes)
}

// reservation is space that one Put has reserved and not yet written. It must be used by one
// goroutine.
type reservation struct {
	space *space
	held  int64 // bytes
}

// reserve begins the reservation for a Put of n bytes. It returns bytestore.ErrNoSpace if they do
// not all fit.
func (s *space) reserve(n int64) (*reservation, error) {
	r := &reservation{space: s}
	return r, r.grow(n)
}

// cover ensures that the reservation covers a Put's next write if it has n bytes left to write. It
// returns bytestore.ErrNoSpace if it does not and the n bytes no longer fit.
func (r *reservation) cover(n int64) error {
	if r.held >= min(n, bufferSize) {
		return nil
	}
	return r.grow(n - r.held)
}

// grow reserves n more bytes, but at most reserveAhead. All n must fit.
func (r *reservation) grow(n int64) error {
	r.space.mu.Lock()
	defer r.space.mu.Unlock()
	if err := r.space.fits(n, r.space.outstanding); err != nil {
		return err
	}
	n = min(n, reserveAhead)
	r.space.outstanding += n
	r.held += n
	return nil
}

// spend releases n bytes, or all if there are fewer: they were written, so the file system accounts
// for them.
func (r *reservation) spend(n int64) {
	n = min(n, r.held)
	r.held -= n
	r.space.mu.Lock()
	defer r.space.mu.Unlock()
	r.space.outstanding -= n
}

func (r *reservation) release() { r.spend(r.held) }
