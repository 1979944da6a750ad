package s3

import (
	"context"
	"fmt"

	"github.com/minio/minio-go/v7"

	"sluice/bytestore"
)

// List implements bytestore.Store. It holds one page of at most 1,000 keys at a time, and sends one
// request for each page.
func (s *Store) List(ctx context.Context, after bytestore.Name, fn func(bytestore.Object) error) error {
	if err := s.usable(ctx); err != nil {
		return fmt.Errorf("s3: list: %w", err)
	}
	opt := s.listing(0)
	if after != "" {
		opt.StartAfter = s.key(after)
	}
	for o := range s.core.ListObjectsIter(ctx, s.bucket, opt) {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("s3: list: %w", err)
		}
		if o.Err != nil {
			return fmt.Errorf("s3: list: %w", contractError(o.Err))
		}
		name := bytestore.Name(o.Key[min(len(s.prefix), len(o.Key)):])
		if !name.Valid() || name <= after {
			continue // not an object of this Store, or a server that ignores StartAfter
		}
		if err := fn(bytestore.Object{Name: name, Size: o.Size}); err != nil {
			return err
		}
	}
	// The iterator ends without an error if the context ends.
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("s3: list: %w", err)
	}
	return nil
}

// listing returns the options to list all keys under the prefix, in pages of at most the given
// size; 0 means the server's default.
func (s *Store) listing(page int) minio.ListObjectsOptions {
	withOwner := false // which is expensive for some servers
	return minio.ListObjectsOptions{Prefix: s.prefix, Recursive: true, FetchOwner: &withOwner, MaxKeys: page}
}
