package s3

import (
	"context"
	"fmt"

	"github.com/minio/minio-go/v7"

	"sluice/bytestore"
)

// List implements bytestore.Store. It holds one page of at most 1,000 names at
// a time, and costs one request for each.
func (s *Store) List(ctx context.Context, after bytestore.Key, fn func(bytestore.Object) error) error {
	if err := s.usable(ctx); err != nil {
		return fmt.Errorf("s3: list: %w", err)
	}
	opt := s.listing(0)
	if after != "" {
		opt.StartAfter = s.name(after)
	}
	for o := range s.core.ListObjectsIter(ctx, s.bucket, opt) {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("s3: list: %w", err)
		}
		if o.Err != nil {
			return fmt.Errorf("s3: list: %w", native(o.Err))
		}
		key := bytestore.Key(o.Key[min(len(s.prefix), len(o.Key)):])
		if !key.Valid() || key <= after {
			continue // not ours, or a server that does not know where to start
		}
		if err := fn(bytestore.Object{Key: key, Size: o.Size}); err != nil {
			return err
		}
	}
	// The listing ends without a word when the context does.
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("s3: list: %w", err)
	}
	return nil
}

// listing asks for all names under the prefix, in pages of so many at most; 0
// leaves it to the server.
func (s *Store) listing(page int) minio.ListObjectsOptions {
	withOwner := false // which some servers have to look up
	return minio.ListObjectsOptions{Prefix: s.prefix, Recursive: true, FetchOwner: &withOwner, MaxKeys: page}
}
