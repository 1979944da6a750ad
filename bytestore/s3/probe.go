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

// probe makes sure that the server takes objects, and never a second one of a
// name. The object that it leaves serves the next probe.
func (s *Store) probe(ctx context.Context) error {
	for range 2 {
		opt := minio.PutObjectOptions{DisableContentSha256: true}
		opt.SetMatchETagExcept("*")
		_, err := s.core.PutObject(ctx, s.bucket, s.prefix+probeName, strings.NewReader(""), 0, "", emptySHA256, opt)
		switch minio.ToErrorResponse(err).StatusCode {
		case http.StatusPreconditionFailed, http.StatusConflict:
			return nil
		case http.StatusNotImplemented:
			return fmt.Errorf("%w: %w", errUnconditional, native(err))
		}
		if err != nil {
			return fmt.Errorf("trying to write: %w", native(err))
		}
	}
	return errUnconditional
}

// emptySHA256 is the sum of nothing.
const emptySHA256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
