package s3

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/minio/minio-go/v7"

	"sluice/bytestore"
)

// batchSize is how many objects one request deletes, by the S3 API's limit.
const batchSize = 1_000

// Delete implements bytestore.Store. Several objects are deleted by requests
// for up to 1,000 of them each (DeleteObjects), one after the other; where the
// server does not know these, one by one.
func (s *Store) Delete(ctx context.Context, keys ...bytestore.Key) error {
	left := bytestore.Undeleted{}
	if err := s.usable(ctx); err != nil {
		return bytestore.UndeletedOf(keys, fmt.Errorf("s3: delete: %w", err)).OrNil()
	}
	var batch []bytestore.Key
	for i, key := range keys {
		if !key.Valid() {
			left[key] = fmt.Errorf("s3: delete %q: %w", key, bytestore.ErrInvalidKey)
		} else {
			batch = append(batch, key)
		}
		if len(batch) == batchSize || i == len(keys)-1 {
			s.deleteBatch(ctx, batch, left)
			batch = batch[:0]
		}
	}
	return left.OrNil()
}

// deleteBatch deletes up to batchSize objects, and adds those that it could not
// delete to left.
func (s *Store) deleteBatch(ctx context.Context, keys []bytestore.Key, left bytestore.Undeleted) {
	failed := map[bytestore.Key]error{}
	if len(keys) > 1 && !s.oneByOne.Load() {
		failed = s.deleteMany(ctx, keys)
		if unknownRequest(failed[keys[0]]) {
			s.oneByOne.Store(true)
		}
	}
	if len(keys) == 1 || s.oneByOne.Load() {
		for _, key := range keys {
			failed[key] = s.deleteOne(ctx, key)
		}
	}
	for key, err := range failed {
		if err != nil {
			left[key] = fmt.Errorf("s3: delete %s: %w", key, native(err))
		}
	}
}

func (s *Store) deleteOne(ctx context.Context, key bytestore.Key) error {
	err := s.core.RemoveObject(ctx, s.bucket, s.name(key), minio.RemoveObjectOptions{})
	reply := minio.ToErrorResponse(err)
	if reply.StatusCode == http.StatusNotFound && reply.Code != minio.NoSuchBucket {
		return nil // some servers say so; most answer 204
	}
	return err
}

// errNoResult: the reply to a request for many objects does not mention one.
var errNoResult = errors.New("the server's reply does not say what became of it")

// deleteMany deletes objects by one request, and returns why those are left
// that are. An object counts as deleted only where the reply says so.
func (s *Store) deleteMany(ctx context.Context, keys []bytestore.Key) map[bytestore.Key]error {
	failed := make(map[bytestore.Key]error, len(keys))
	keyOf := make(map[string]bytestore.Key, len(keys))
	objects := make(chan minio.ObjectInfo, len(keys))
	for _, key := range keys {
		name := s.name(key)
		failed[key], keyOf[name] = errNoResult, key
		objects <- minio.ObjectInfo{Key: name}
	}
	close(objects)
	for result := range s.core.RemoveObjectsWithResult(ctx, s.bucket, objects, minio.RemoveObjectsOptions{}) {
		key, known := keyOf[result.ObjectName]
		switch {
		case known && (result.Err == nil || minio.ToErrorResponse(result.Err).Code == minio.NoSuchKey):
			delete(failed, key)
		case known:
			failed[key] = ofOneObject(result.Err)
		case result.Err != nil: // of the request
			for key, err := range failed {
				if errors.Is(err, errNoResult) {
					failed[key] = result.Err
				}
			}
		}
	}
	return failed
}

// ofOneObject adds the status that belongs to the code of an object's error
// within a reply for many, where it is one of those that may pass: such an error
// has no status, as if there had been no reply.
func ofOneObject(err error) error {
	reply, ok := errors.AsType[minio.ErrorResponse](err)
	if !ok || reply.StatusCode != 0 {
		return err
	}
	switch reply.Code {
	case "InternalError":
		reply.StatusCode = http.StatusInternalServerError
	case "SlowDown", "ServiceUnavailable", "RequestTimeout":
		reply.StatusCode = http.StatusServiceUnavailable
	default:
		reply.StatusCode = http.StatusForbidden
	}
	return reply
}

// unknownRequest reports whether the server does not know DeleteObjects.
func unknownRequest(err error) bool {
	if err == nil {
		return false
	}
	reply := minio.ToErrorResponse(err)
	return reply.StatusCode == http.StatusNotImplemented || reply.StatusCode == http.StatusMethodNotAllowed || reply.Code == minio.NotImplemented
}
