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

// resumes is how often a broken reply is resumed. Each of these requests is
// itself repeated when it is not answered.
const resumes = 5

// pause is how long the resume of that number, from 1 on, waits: as long as the
// client waits before it repeats a request that was not answered. Half of it is
// random, so that readers whose replies broke off together do not come back
// together.
func pause(resume int) time.Duration {
	half := min(minio.DefaultRetryUnit<<(resume-1), minio.DefaultRetryCap) / 2
	return half + rand.N(half+1)
}

// stream reads the bytes [pos, end) of an object from one reply, and from
// others for the rest when that breaks off.
type stream struct {
	s        *Store
	ctx      context.Context
	name     string
	etag     string // of the object that the first reply was of
	pos, end int64
	body     io.ReadCloser // nil before the request
	broken   int
}

// Read reads up to the end of the range, which is io.EOF.
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
			return n, nil // the error comes again
		}
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err := r.breakOff(err); err != nil {
			return 0, err
		}
	}
}

// breakOff ends a reply that failed with cause before its end, and returns when
// it is time to ask again. It fails when there is no use in that.
func (r *stream) breakOff(cause error) error {
	err := r.Close()
	if ctxErr := r.ctx.Err(); ctxErr != nil {
		return ctxErr
	}
	if r.broken++; r.broken > resumes {
		return errors.Join(fmt.Errorf("%w: the object store's replies break off: %w", bytestore.ErrOverloaded, cause), err)
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

// start asks for the rest of the range and tells the size of the object.
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
	body, info, header, err := r.s.core.GetObject(r.ctx, r.s.bucket, r.name, opt)
	if minio.ToErrorResponse(err).StatusCode == http.StatusPreconditionFailed {
		return 0, fmt.Errorf("%w: another has taken its place", bytestore.ErrNotFound)
	}
	if err != nil {
		return 0, native(err)
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

// sizeOf is the size of the object of which a reply holds the bytes from pos.
func sizeOf(header http.Header, pos, length int64) (int64, error) {
	contentRange := header.Get("Content-Range")
	if contentRange == "" && pos == 0 {
		return length, nil // the whole, as a reply to a range may be
	}
	var first, last, size int64
	if _, err := fmt.Sscanf(contentRange, "bytes %d-%d/%d", &first, &last, &size); err != nil || first != pos {
		return 0, fmt.Errorf("the object store answered with the range %q to a request for the bytes from %d", contentRange, pos)
	}
	return size, nil
}

// Close ends the reply.
func (r *stream) Close() error {
	if r.body == nil {
		return nil
	}
	err := r.body.Close()
	r.body = nil
	return err
}
