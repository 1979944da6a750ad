package localfs

import (
	"context"
	"fmt"
	"io"
	"path/filepath"

	"sluice/bytestore"
)

// Reader reads the objects in a folder that a Store may be using, in this process or in another. It
// implements bytestore.Reader.
type Reader struct{ store *Store }

var _ bytestore.Reader = (*Reader)(nil)

// OpenReader opens the folder dir for reading, which must exist. It creates, removes and locks
// nothing. A shard that does not exist has no objects. opt.Reserve and opt.OpenFiles have no
// effect. The caller must Close the Reader.
func OpenReader(dir string, opt Options) (*Reader, error) {
	r, err := openReader(dir, opt)
	if err != nil {
		return nil, fmt.Errorf("localfs: open %s for reading: %w", dir, err)
	}
	return r, nil
}

func openReader(dir string, opt Options) (*Reader, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	opt.OpenFiles = 0 // another process may delete files that are open here
	s := newStore(dir, opt)
	s.mayLackShards = true
	if err := s.checkJournal(); err != nil {
		return nil, err
	}
	return &Reader{s}, nil
}

// Open implements bytestore.Reader, like Store.Open.
func (r *Reader) Open(ctx context.Context, name bytestore.Name, off, n int64) (io.ReadCloser, error) {
	return r.store.Open(ctx, name, off, n)
}

// OpenMedium is like Store.OpenMedium.
func (r *Reader) OpenMedium(ctx context.Context, name bytestore.Name, off, n int64) (io.ReadCloser, error) {
	return r.store.OpenMedium(ctx, name, off, n)
}

// List implements bytestore.Reader, like Store.List.
func (r *Reader) List(ctx context.Context, after bytestore.Name, fn func(bytestore.Object) error) error {
	return r.store.List(ctx, after, fn)
}

// Close makes all later calls fail with fs.ErrClosed. Readers from Open remain readable. Close is
// idempotent.
func (r *Reader) Close() error { return r.store.Close() }
