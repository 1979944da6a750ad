package s3

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/minio/minio-go/v7"

	"sluice/bytestore"
)

// putMetadata is the metadata that identifies the Put that stored an object. With it a Put finds
// out that it succeeded if the response was lost.
const putMetadata = "Sluice-Put"

// Put implements bytestore.Store. It reads and stages all of src before it sends anything. If too
// much is staged already, it waits before it reads on, and returns ErrOverloaded after
// Options.StagingWait. A Put is evicted if other Puts need the space while its source stalls or its
// caller uses more than its share. It then returns ErrOverloaded when its source continues. Put
// checks the context between reads of src and does not interrupt a Read that blocks.
//
// If a Put fails and the server cannot be queried for whether it stored the object, or stores it
// later, the object may become visible. It is then complete. A caller that uses fresh names never
// refers to it.
func (s *Store) Put(ctx context.Context, name bytestore.Name, src io.Reader, size int64) error {
	if !name.Valid() {
		return fmt.Errorf("s3: put %q: %w", name, bytestore.ErrInvalidName)
	}
	s.puts.RLock()
	defer s.puts.RUnlock()
	if err := s.put(ctx, name, src, size); err != nil {
		return fmt.Errorf("s3: put %s: %w", name, err)
	}
	return nil
}

func (s *Store) put(ctx context.Context, name bytestore.Name, src io.Reader, size int64) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	source, err := bytestore.NewSource(ctx, src, size)
	if err != nil {
		return err
	}
	body, err := s.staging.stage(ctx, &source, size)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return errors.Join(err, body.release())
	}
	p := pendingPut{s: s, key: s.key(name), body: body, id: rand.Text()}
	// The server has received everything when it has responded, so an error of closing the staged
	// file is reported but the object is stored.
	return errors.Join(p.send(ctx), body.release())
}

// pendingPut is a Put with a staged body.
type pendingPut struct {
	s    *Store
	key  string
	body *staged
	id   string
}

// send makes the object visible. If it fails, it leaves nothing stored.
func (p *pendingPut) send(ctx context.Context) error {
	var err error
	for range maxAttempts {
		var again bool
		if again, err = p.attempt(ctx); !again {
			break
		}
	}
	if !errors.Is(err, bytestore.ErrExists) {
		p.s.health.note(err)
	}
	return err
}

// attempt sends the object. again reports that the request should be repeated.
func (p *pendingPut) attempt(ctx context.Context) (again bool, err error) {
	// With its SHA-256 the body is signed as a whole, and the server verifies it.
	opt := minio.PutObjectOptions{UserMetadata: map[string]string{putMetadata: p.id}, DisableContentSha256: true}
	opt.SetMatchETagExcept("*")
	_, err = p.s.core.PutObject(ctx, p.s.bucket, p.key, p.body.reader(), p.body.size, "", p.body.sha256Hex(), opt)
	response := minio.ToErrorResponse(err)
	switch {
	case err == nil:
		return false, nil
	case response.StatusCode == http.StatusPreconditionFailed:
		// An earlier request of this Put may have stored the object, and its response was lost.
		return false, p.confirm(ctx, unknownOutcome(err))
	case response.StatusCode == http.StatusConflict:
		// Another request for this key was in progress. It may have been an earlier one of this
		// Put, or may have failed.
		err = p.confirm(ctx, unknownOutcome(err))
		return err != nil && !errors.Is(err, bytestore.ErrExists) && ctx.Err() == nil, err
	case response.Code == minio.XAmzContentSHA256Mismatch, response.Code == minio.BadDigest:
		return true, contractError(err) // the body was damaged in transit
	case response.StatusCode >= 400 && response.StatusCode < 500 && !retryable(response):
		return false, contractError(err)
	}
	return false, p.confirm(ctx, contractError(err))
}

// unknownOutcome returns a Put's error if the response does not show whether this Put stored the
// object. It does not mean that the name is in use.
func unknownOutcome(err error) error {
	return fmt.Errorf("%w: %s", bytestore.ErrOverloaded, contractError(err).Error())
}

// confirmTimeout limits the requests of confirm.
const confirmTimeout = 10 * time.Second

// confirm finds out whether the object was stored in spite of cause. It returns nil if this Put
// stored it. If the Put's context has ended, the Put fails nevertheless and its object is deleted.
func (p *pendingPut) confirm(ctx context.Context, cause error) error {
	detached, cancel := context.WithTimeout(context.WithoutCancel(ctx), confirmTimeout)
	defer cancel()
	found, err := p.s.core.StatObject(detached, p.s.bucket, p.key, minio.StatObjectOptions{})
	switch {
	case minio.ToErrorResponse(err).StatusCode == http.StatusNotFound:
		return cause
	case err != nil:
		return fmt.Errorf("%w; it is unknown whether the object was stored: %w", cause, err)
	case found.UserMetadata[putMetadata] != p.id:
		return fmt.Errorf("%w: %s", bytestore.ErrExists, cause.Error())
	case ctx.Err() == nil:
		return nil
	}
	err = p.s.core.RemoveObject(detached, p.s.bucket, p.key, minio.RemoveObjectOptions{})
	if err != nil {
		return fmt.Errorf("%w; the object could not be removed: %w", cause, err)
	}
	return cause
}
