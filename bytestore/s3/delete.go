package s3

import (
	"context"
	"fmt"
	"net/http"

	"github.com/minio/minio-go/v7"

	"sluice/bytestore"
)

// Delete implements bytestore.Store.
func (s *Store) Delete(ctx context.Context, key bytestore.Key) error {
	if !key.Valid() {
		return fmt.Errorf("s3: delete %q: %w", key, bytestore.ErrInvalidKey)
	}
	err := s.usable(ctx)
	if err == nil {
		err = s.core.RemoveObject(ctx, s.bucket, s.name(key), minio.RemoveObjectOptions{})
	}
	reply := minio.ToErrorResponse(err)
	if reply.StatusCode == http.StatusNotFound && reply.Code != minio.NoSuchBucket {
		return nil // some servers say so; most answer 204
	}
	if err != nil {
		return fmt.Errorf("s3: delete %s: %w", key, native(err))
	}
	return nil
}
