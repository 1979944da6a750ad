package s3

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/minio/minio-go/v7"
)

// errUnconditional is why Open refuses a server.
var errUnconditional = errors.New("the object store does not keep to If-None-Match: it could replace objects; use one that knows conditional writes")

// probeName is under the prefix and not a key, so nobody takes it for an object.
const probeName = ".sluice-probe"

// probe makes sure that the server takes objects, never a second one of a name,
// and deletes them. Another node may probe at the same time and delete the object
// between two writes, so that only several pairs of writes that both succeed show
// that the server ignores the condition.
func (s *Store) probe(ctx context.Context) error {
	const pairs = 4
	written := 0
	for ; written < 2*pairs; written++ {
		opt := minio.PutObjectOptions{DisableContentSha256: true}
		opt.SetMatchETagExcept("*")
		_, err := s.core.PutObject(ctx, s.bucket, s.prefix+probeName, strings.NewReader(""), 0, "", emptySHA256, opt)
		reply := minio.ToErrorResponse(err)
		if reply.StatusCode == http.StatusPreconditionFailed || reply.StatusCode == http.StatusConflict {
			break
		}
		if reply.StatusCode == http.StatusNotImplemented {
			return fmt.Errorf("%w: %w", errUnconditional, native(err))
		}
		if err != nil {
			return fmt.Errorf("trying to write: %w", native(err))
		}
	}
	err := s.core.RemoveObject(ctx, s.bucket, s.prefix+probeName, minio.RemoveObjectOptions{})
	if written == 2*pairs {
		return errUnconditional
	}
	if err != nil && minio.ToErrorResponse(err).StatusCode != http.StatusNotFound {
		return fmt.Errorf("trying to delete, for which the right s3:DeleteObject is needed: %w", native(err))
	}
	return nil
}

// emptySHA256 is the sum of nothing.
const emptySHA256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
