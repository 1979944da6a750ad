package s3

import (
	"context"
	"errors"
	"fmt"
	"io"

	"sluice/bytestore"
)

// Reader reads a bucket's objects. It implements bytestore.Reader.
type Reader struct{ store *Store }

var _ bytestore.Reader = (*Reader)(nil)

// OpenReader connects to the bucket, which must exist, for reading. It needs no permission to write
// or to delete, and creates nothing, in the bucket or elsewhere. The options of staging have no
// effect. The caller must Close the Reader.
func OpenReader(ctx context.Context, c Config, opt Options) (*Reader, error) {
	opt.setDefaults()
	s := newStore(c, opt)
	if err := s.connect(ctx, c, opt); err != nil {
		return nil, fmt.Errorf("s3: open %s for reading: %w", c, errors.Join(err, s.Close()))
	}
	return &Reader{s}, nil
}

// Open implements bytestore.Reader, like Store.Open.
func (r *Reader) Open(ctx context.Context, name bytestore.Name, off, n int64) (io.ReadCloser, error) {
	return r.store.Open(ctx, name, off, n)
}

// List implements bytestore.Reader, like Store.List.
func (r *Reader) List(ctx context.Context, after bytestore.Name, fn func(bytestore.Object) error) error {
	return r.store.List(ctx, after, fn)
}

// Close makes all later calls fail with fs.ErrClosed. Readers from Open remain readable. Close is
// idempotent.
func (r *Reader) Close() error { return r.store.Close() }
