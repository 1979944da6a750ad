package s3

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/minio/minio-go/v7"
)

// errUnconditional is returned by Open if the server does not support conditional writes.
var errUnconditional = errors.New("the object store ignores If-None-Match and could replace objects: use one that supports conditional writes")

// probeName is not a valid name, so it is never taken for an object.
const probeName = ".sluice-probe"

// probe checks that the server accepts objects, rejects a second one with the same name, and
// deletes them. Another node may probe at the same time and delete the object between two writes.
// Only if several consecutive pairs of writes succeed does the server ignore the condition.
func (s *Store) probe(ctx context.Context) error {
	const pairs = 4
	written := 0
	for ; written < 2*pairs; written++ {
		opt := minio.PutObjectOptions{DisableContentSha256: true}
		opt.SetMatchETagExcept("*")
		_, err := s.core.PutObject(ctx, s.bucket, s.prefix+probeName, strings.NewReader(""), 0, "", emptySHA256, opt)
		response := minio.ToErrorResponse(err)
		if response.StatusCode == http.StatusPreconditionFailed || response.StatusCode == http.StatusConflict {
			break
		}
		if response.StatusCode == http.StatusNotImplemented {
			return fmt.Errorf("%w: %w", errUnconditional, contractError(err))
		}
		if err != nil {
			return fmt.Errorf("test write: %w", contractError(err))
		}
	}
	err := s.core.RemoveObject(ctx, s.bucket, s.prefix+probeName, minio.RemoveObjectOptions{})
	if written == 2*pairs {
		return errUnconditional
	}
	if err != nil && minio.ToErrorResponse(err).StatusCode != http.StatusNotFound {
		return fmt.Errorf("test delete, which needs the permission s3:DeleteObject: %w", contractError(err))
	}
	return nil
}

// emptySHA256 is the SHA-256 of no bytes.
const emptySHA256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
