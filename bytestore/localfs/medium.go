package localfs

import (
	"context"
	"io"

	"sluice/bytestore"
	"sluice/internal/vfs"
)

// OpenMedium is Open, but its reader reads from the disk what the system has in memory, if the
// system can be told to forget that, and leaves nothing in memory when it is closed. So a check of
// all objects finds what is damaged on the disk, and does not displace what is read often; what is,
// is read from the disk once more for each check.
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
