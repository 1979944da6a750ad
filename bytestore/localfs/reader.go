package localfs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"sluice/bytestore"
	"sluice/bytestore/localfs/internal/journal"
)

// Reader reads the objects in a folder that a Store may be using, in this process or in another. It
// implements bytestore.Reader.
type Reader struct{ store *Store }

var _ bytestore.Reader = (*Reader)(nil)

// OpenReader opens the folder dir for reading, which must exist. It creates, removes and locks
// nothing. Objects in a journal that a process left behind are read there. A shard that does not
// exist has no objects. opt.Reserve, opt.Journal and opt.OpenFiles have no effect. The caller must
// Close the Reader.
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
	log, err := journal.Read(s.fs, s.root.path)
	if err != nil {
		return nil, err
	}
	s.log.Store(newOverlay(log))
	return &Reader{s}, nil
}

// Open implements bytestore.Reader, like Store.Open.
func (r *Reader) Open(ctx context.Context, name bytestore.Name, off, n int64) (io.ReadCloser, error) {
	return r.lookTwice(ctx, r.store.Open, name, off, n)
}

// OpenMedium is like Store.OpenMedium.
func (r *Reader) OpenMedium(ctx context.Context, name bytestore.Name, off, n int64) (io.ReadCloser, error) {
	return r.lookTwice(ctx, r.store.OpenMedium, name, off, n)
}

// lookTwice opens an object. If it is missing or too short, it looks for new segments and opens the
// object again: a Store that was opened since may be writing its file from the journal.
func (r *Reader) lookTwice(ctx context.Context, open bytestore.OpenFunc, name bytestore.Name, off, n int64) (io.ReadCloser, error) {
	f, err := open(ctx, name, off, n)
	if !errors.Is(err, bytestore.ErrNotFound) && !errors.Is(err, bytestore.ErrTruncated) {
		return f, err
	}
	if err := r.refresh(); err != nil {
		return nil, err
	}
	return open(ctx, name, off, n)
}

// refresh reads the journal if it has other segments than it had.
func (r *Reader) refresh() error {
	newer, err := r.store.log.Load().log.Newer()
	if err != nil {
		return fmt.Errorf("localfs: reading the journal again: %w", err)
	}
	if newer != nil {
		r.store.log.Store(newOverlay(newer))
	}
	return nil
}

// List implements bytestore.Reader, like Store.List.
func (r *Reader) List(ctx context.Context, after bytestore.Name, fn func(bytestore.Object) error) error {
	if err := r.refresh(); err != nil {
		return err
	}
	return r.store.List(ctx, after, fn)
}

// Close makes all later calls fail with fs.ErrClosed. Readers from Open remain readable. Close is
// idempotent.
func (r *Reader) Close() error { return r.store.Close() }
