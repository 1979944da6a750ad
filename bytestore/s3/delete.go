package s3

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/minio/minio-go/v7"

	"sluice/bytestore"
)

// batchSize is the number of objects that one request can delete, a limit in the S3 API.
const batchSize = 1_000

// Delete implements bytestore.Store. It deletes several objects by consecutive requests for up to
// 1,000 objects each (DeleteObjects) or, if the server does not support those, one by one.
func (s *Store) Delete(ctx context.Context, names ...bytestore.Name) error {
	left := bytestore.Undeleted{}
	if err := s.usable(ctx); err != nil {
		return bytestore.UndeletedOf(names, fmt.Errorf("s3: delete: %w", err)).OrNil()
	}
	var batch []bytestore.Name
	for i, name := range names {
		if !name.Valid() {
			left[name] = fmt.Errorf("s3: delete %q: %w", name, bytestore.ErrInvalidName)
		} else {
			batch = append(batch, name)
		}
		if len(batch) == batchSize || i == len(names)-1 {
			s.deleteBatch(ctx, batch, left)
			batch = batch[:0]
		}
	}
	return left.OrNil()
}

// deleteBatch deletes up to batchSize objects, and adds those that it could not delete to left.
func (s *Store) deleteBatch(ctx context.Context, names []bytestore.Name, left bytestore.Undeleted) {
	failed := map[bytestore.Name]error{}
	if len(names) > 1 && !s.noBatches.Load() {
		failed = s.deleteMany(ctx, names)
		if unknownRequest(failed[names[0]]) {
			s.noBatches.Store(true)
		}
	}
	if len(names) == 1 || s.noBatches.Load() {
		for _, name := range names {
			failed[name] = s.deleteObject(ctx, name)
		}
	}
	for name, err := range failed {
		if err != nil {
			left[name] = fmt.Errorf("s3: delete %s: %w", name, contractError(err))
		}
	}
}

func (s *Store) deleteObject(ctx context.Context, name bytestore.Name) error {
	err := s.core.RemoveObject(ctx, s.bucket, s.key(name), minio.RemoveObjectOptions{})
	response := minio.ToErrorResponse(err)
	if response.StatusCode == http.StatusNotFound && response.Code != minio.NoSuchBucket {
		return nil // returned by some servers; most return 204
	}
	return err
}

// errNoResult is the error for an object that the response to DeleteObjects omits.
var errNoResult = errors.New("the response of the server does not mention the object")

// deleteMany deletes objects by one request and returns those that may still exist, with the
// reasons. Only objects that the response reports as deleted count as deleted.
func (s *Store) deleteMany(ctx context.Context, names []bytestore.Name) map[bytestore.Name]error {
	failed := make(map[bytestore.Name]error, len(names))
	nameOf := make(map[string]bytestore.Name, len(names))
	objects := make(chan minio.ObjectInfo, len(names))
	for _, name := range names {
		key := s.key(name)
		failed[name], nameOf[key] = errNoResult, name
		objects <- minio.ObjectInfo{Key: key}
	}
	close(objects)
	for result := range s.core.RemoveObjectsWithResult(ctx, s.bucket, objects, minio.RemoveObjectsOptions{}) {
		name, known := nameOf[result.ObjectName]
		switch {
		case known && (result.Err == nil || minio.ToErrorResponse(result.Err).Code == minio.NoSuchKey):
			delete(failed, name)
		case known:
			failed[name] = withStatus(result.Err)
		case result.Err != nil: // the whole request's error
			for name, err := range failed {
				if errors.Is(err, errNoResult) {
					failed[name] = result.Err
				}
			}
		}
	}
	return failed
}

// withStatus adds to an object's error within a response to DeleteObjects the status that belongs
// to its code. Such an error has no status, which would otherwise mean that there was no response.
func withStatus(err error) error {
	response, ok := errors.AsType[minio.ErrorResponse](err)
	if !ok || response.StatusCode != 0 {
		return err
	}
	switch response.Code {
	case "InternalError":
		response.StatusCode = http.StatusInternalServerError
	case "SlowDown", "ServiceUnavailable", "RequestTimeout":
		response.StatusCode = http.StatusServiceUnavailable
	default:
		response.StatusCode = http.StatusForbidden
	}
	return response
}

// unknownRequest reports whether the server does not support DeleteObjects.
func unknownRequest(err error) bool {
	if err == nil {
		return false
	}
	response := minio.ToErrorResponse(err)
	return response.StatusCode == http.StatusNotImplemented || response.StatusCode == http.StatusMethodNotAllowed || response.Code == minio.NotImplemented
}
