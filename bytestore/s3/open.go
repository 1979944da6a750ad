package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/minio/minio-go/v7"

	"sluice/bytestore"
)

// Open implements bytestore.Store. The reader ends after n bytes, and fails once ctx has ended. It
// sends one request for a range of at most 4 MiB; for a longer range it requests the next parts in
// parallel while there is memory for them. A response that breaks off is resumed.
func (s *Store) Open(ctx context.Context, name bytestore.Name, off, n int64) (io.ReadCloser, error) {
	if !name.Valid() {
		return nil, fmt.Errorf("s3: open %q: %w", name, bytestore.ErrInvalidName)
	}
	r, err := s.openAt(ctx, s.key(name), off, n)
	if err != nil {
		return nil, fmt.Errorf("s3: open %s: %w", name, err)
	}
	return r, nil
}

func (s *Store) openAt(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	if off < 0 || n < 0 {
		return nil, errors.New("negative range")
	}
	if n == 0 || n > math.MaxInt64-off {
		return s.openNothing(ctx, key, off, n)
	}
	ctx, cancel := context.WithCancel(ctx)
	r := &reader{s: s, ctx: ctx, cancel: cancel, pos: off, next: min(off+n, off+requestSize), end: off + n}
	r.live = &stream{s: s, ctx: ctx, key: key, pos: off, end: r.next}
	size, err := r.live.start()
	if err == nil && r.end > size {
		err = truncated(off, n, size)
	}
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	r.fetchAhead()
	return r, nil
}

// openNothing opens a range that cannot be requested: one of no bytes, or one that ends beyond the
// largest object.
func (s *Store) openNothing(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	found, err := s.core.StatObject(ctx, s.bucket, key, minio.StatObjectOptions{})
	if err != nil {
		return nil, contractError(err)
	}
	if off > found.Size || n > found.Size-off {
		return nil, truncated(off, n, found.Size)
	}
	return io.NopCloser(eof{}), nil
}

type eof struct{}

func (eof) Read([]byte) (int, error) { return 0, io.EOF }
