package localfs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"sluice/bytestore"
)

// Open implements bytestore.Store. On vfs.OS() the reader is an *os.File, which package net sends
// without copying. It remains readable after Delete and does not end after n bytes.
func (s *Store) Open(ctx context.Context, name bytestore.Name, off, n int64) (io.ReadCloser, error) {
	if !name.Valid() {
		return nil, fmt.Errorf("localfs: open %q: %w", name, bytestore.ErrInvalidName)
	}
	f, err := s.openAt(ctx, name, off, n)
	if err != nil {
		return nil, fmt.Errorf("localfs: open %s: %w", name, err)
	}
	return f, nil
}

func (s *Store) openAt(ctx context.Context, name bytestore.Name, off, n int64) (_ io.ReadCloser, err error) {
	if s.closed.Load() {
		return nil, fs.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if r, err := s.log.open(name, off, n); r != nil || err != nil {
		return r, err
	}
	f, err := s.fs.Open(s.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %w", bytestore.ErrNotFound, err)
	}
	if err != nil {
		return nil, contractError(err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	size := info.Size()
	switch {
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%w: not a regular file", bytestore.ErrNotFound)
	case off < 0 || n < 0:
		return nil, errors.New("negative range")
	case off > size || n > size-off:
		return nil, fmt.Errorf("%w: %d bytes at %d of %d", bytestore.ErrTruncated, n, off, size)
	}
	if _, err := f.Seek(off, io.SeekStart); err != nil {
		return nil, err
	}
	return f, nil
}
