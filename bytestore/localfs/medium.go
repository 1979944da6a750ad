package localfs

import (
	"context"
	"io"

	"sluice/bytestore"
	"sluice/internal/vfs"
)

// OpenMedium is Open, but its reader reads from the disk even if the page cache has the bytes,
// where the system can drop them from it, and leaves nothing in the page cache when it is closed.
// So a check of all objects finds damage on the disk, and objects that it has read do not displace
// frequently read ones. Cached objects are evicted, and read from the disk again after each check.
func (s *Store) OpenMedium(ctx context.Context, name bytestore.Name, off, n int64) (io.ReadCloser, error) {
	r, err := s.openRange(ctx, name, off, n, false)
	if err != nil {
		return nil, err
	}
	f, ok := r.(vfs.File)
	if !ok {
		return r, nil
	}
	vfs.DropCached(f, off, n)
	return &mediumReader{f, off, n}, nil
}

type mediumReader struct {
	vfs.File
	off, n int64
}

// Close implements io.Closer.
func (r *mediumReader) Close() error {
	vfs.DropCached(r.File, r.off, r.n)
	return r.File.Close()
}
