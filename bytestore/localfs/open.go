package localfs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"sluice/bytestore"
	"sluice/internal/vfs"
)

// Open implements bytestore.Store. The reader remains readable after Delete and does not end after
// n bytes. With Options.OpenFiles, an object with at most 1 MiB has a bytestore.Positioned. Any
// other reader is a file, on vfs.OS() an *os.File, which package net sends without copying.
func (s *Store) Open(ctx context.Context, name bytestore.Name, off, n int64) (io.ReadCloser, error) {
	return s.openRange(ctx, name, off, n, s.files.limit > 0)
}

// openRange is Open. The file is shared with other readers if that is allowed.
func (s *Store) openRange(ctx context.Context, name bytestore.Name, off, n int64, share bool) (io.ReadCloser, error) {
	if !name.Valid() {
		return nil, fmt.Errorf("localfs: open %q: %w", name, bytestore.ErrInvalidName)
	}
	r, err := s.openAt(ctx, name, off, n, share)
	if err != nil {
		return nil, fmt.Errorf("localfs: open %s: %w", name, err)
	}
	return r, nil
}

func (s *Store) openAt(ctx context.Context, name bytestore.Name, off, n int64, share bool) (io.ReadCloser, error) {
	if s.closed.Load() {
		return nil, fs.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if off < 0 || n < 0 {
		return nil, errors.New("negative range")
	}
	var deletions uint64
	if share {
		var f *openFile
		// One that is too short may have been replaced by hand.
		if f, deletions = s.files.find(name, off, n); f != nil {
			return &section{files: s.files, file: f, off: off}, nil
		}
	}
	f, size, err := s.openFile(name)
	if err != nil {
		return nil, err
	}
	switch {
	case off > size || n > size-off:
		err = fmt.Errorf("%w: %d bytes at %d of %d", bytestore.ErrTruncated, n, off, size)
	case share && size <= maxKeptSize:
		return &section{files: s.files, file: s.files.add(f, name, size, deletions), off: off}, nil
	case off > 0:
		_, err = f.Seek(off, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (s *Store) openFile(name bytestore.Name) (f vfs.File, size int64, err error) {
	f, err = s.fs.Open(s.path(name))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, vfs.ErrIrregular) {
		return nil, 0, fmt.Errorf("%w: %w", bytestore.ErrNotFound, err)
	}
	if err != nil {
		return nil, 0, contractError(err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%w: not a regular file", bytestore.ErrNotFound)
	}
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, info.Size(), nil
}

// Invalidate implements bytestore.Invalidator: the next Open opens the object's file anew.
func (s *Store) Invalidate(name bytestore.Name) { s.files.drop(name) }
