package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/minio/minio-go/v7"

	"sluice/bytestore"
)

// maxResumes is how often a broken response is resumed. The requests to resume it are themselves
// retried if there is no response.
const maxResumes = 5

// pause returns the backoff before a resume, counted from 1. The client waits as long before it
// repeats a request. Half of it is random, so that readers do not resume together if their
// responses broke off together.
func pause(resume int) time.Duration {
	half := min(minio.DefaultRetryUnit<<(resume-1), minio.DefaultRetryCap) / 2
	return half + rand.N(half+1)
}

// stream reads an object's bytes [pos, end) from one response, and from further responses if that
// breaks off.
type stream struct {
	s        *Store
	ctx      context.Context
	key      string
	etag     string // identifies the version in the first response
	pos, end int64
	body     io.ReadCloser // nil before the request
	broken   int           // responses that broke off
}

// Read reads until the range ends.
func (r *stream) Read(p []byte) (int, error) {
	if r.pos == r.end {
		return 0, io.EOF
	}
	for {
		if r.body == nil {
			if _, err := r.start(); err != nil {
				return 0, err
			}
		}
		n, err := r.body.Read(p[:min(int64(len(p)), r.end-r.pos)])
		r.pos += int64(n)
		if r.pos == r.end {
			return n, r.Close()
		}
		if n > 0 || err == nil {
			return n, nil // the next Read returns the error
		}
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err := r.breakOff(err); err != nil {
			return 0, err
		}
	}
}

// breakOff closes a response that failed with cause before its end, and waits until it is time to
// resume. It returns an error if it must not be resumed.
func (r *stream) breakOff(cause error) error {
	err := r.Close()
	if ctxErr := r.ctx.Err(); ctxErr != nil {
		return ctxErr
	}
	if r.broken++; r.broken > maxResumes {
		return errors.Join(fmt.Errorf("%w: the responses of the object store break off: %w", bytestore.ErrOverloaded, cause), err)
	}
	wait := time.NewTimer(pause(r.broken))
	defer wait.Stop()
	select {
	case <-wait.C:
		return nil
	case <-r.ctx.Done():
		return r.ctx.Err()
	}
}

// start requests the remaining range and returns the object's size.
func (r *stream) start() (size int64, err error) {
	opt := minio.GetObjectOptions{}
	if err := opt.SetRange(r.pos, r.end-1); err != nil {
		return 0, err
	}
	if r.etag != "" {
		if err := opt.SetMatchETag(r.etag); err != nil {
			return 0, err
		}
	}
	body, info, header, err := r.s.core.GetObject(r.ctx, r.s.bucket, r.key, opt)
	if minio.ToErrorResponse(err).StatusCode == http.StatusPreconditionFailed {
		return 0, fmt.Errorf("%w: the object was replaced", bytestore.ErrNotFound)
	}
	if err != nil {
		return 0, contractError(err)
	}
	size, err = sizeOf(header, r.pos, info.Size)
	if err == nil && r.pos >= size {
		err = truncated(r.pos, r.end-r.pos, size)
	}
	if err != nil {
		return 0, errors.Join(err, body.Close())
	}
	r.body, r.etag = body, info.ETag
	return size, nil
}

// sizeOf returns the object's size from a response that contains the bytes from pos.
func sizeOf(header http.Header, pos, length int64) (int64, error) {
	contentRange := header.Get("Content-Range")
	if contentRange == "" && pos == 0 {
		return length, nil // the whole object, which a server may return for a range
	}
	var first, last, size int64
	if _, err := fmt.Sscanf(contentRange, "bytes %d-%d/%d", &first, &last, &size); err != nil || first != pos {
		return 0, fmt.Errorf("the object store returned the range %q for a request of the bytes from %d", contentRange, pos)
	}
	return size, nil
}

// Close closes the response.
func (r *stream) Close() error {
	if r.body == nil {
		return nil
	}
	err := r.body.Close()
	r.body = nil
	return err
}
