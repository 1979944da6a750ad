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

// putMetadata names the Put that made an object: a Put whose reply was lost
// finds out by it that it succeeded.
const putMetadata = "Sluice-Put"

// Put implements bytestore.Store. It reads all of src before it sends anything,
// and stages it meanwhile: where too much is staged already it waits, before it
// reads on in src, and fails with ErrOverloaded when that takes too long
// (Options.StagingWait). A Put of which nothing comes for a while, or of a caller
// whose Puts take more than their share, gives way to others that need the room,
// with ErrOverloaded when its source goes on. The context is looked at between
// reads of src: a Read that blocks is not interrupted.
//
// When a Put fails and the server cannot be asked whether it stored the object
// all the same, or stores it later, the object may become visible. It is then
// whole. Whoever uses fresh keys never refers to it.
func (s *Store) Put(ctx context.Context, key bytestore.Key, src io.Reader, size int64) error {
	if !key.Valid() {
		return fmt.Errorf("s3: put %q: %w", key, bytestore.ErrInvalidKey)
	}
	s.puts.RLock()
	defer s.puts.RUnlock()
	if err := s.put(ctx, key, src, size); err != nil {
		return fmt.Errorf("s3: put %s: %w", key, err)
	}
	return nil
}

func (s *Store) put(ctx context.Context, key bytestore.Key, src io.Reader, size int64) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	if size < 0 && size != bytestore.UnknownSize {
		return fmt.Errorf("%w: %d bytes", bytestore.ErrSize, size)
	}
	body, err := s.staging.stage(ctx, src, size)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return errors.Join(err, body.release())
	}
	p := putting{s: s, name: s.name(key), body: body, id: rand.Text()}
	// All was sent when the server has answered; a file that cannot be closed
	// changes nothing.
	return errors.Join(p.send(ctx), body.release())
}

// putting is a staged Put.
type putting struct {
	s    *Store
	name string
	body *staged
	id   string
}

// send makes the object visible, or leaves nothing of it.
func (p *putting) send(ctx context.Context) error {
	var err error
	for range attempts {
		var again bool
		if again, err = p.try(ctx); !again {
			break
		}
	}
	if !errors.Is(err, bytestore.ErrExists) {
		p.s.health.note(err)
	}
	return err
}

// try sends the object. again says that the server asks for the same once more.
func (p *putting) try(ctx context.Context) (again bool, err error) {
	// With its sum the body is signed as one, and the server compares.
	opt := minio.PutObjectOptions{UserMetadata: map[string]string{putMetadata: p.id}, DisableContentSha256: true}
	opt.SetMatchETagExcept("*")
	_, err = p.s.core.PutObject(ctx, p.s.bucket, p.name, p.body.reader(), p.body.size, "", p.body.sha256Hex(), opt)
	reply := minio.ToErrorResponse(err)
	switch {
	case err == nil:
		return false, nil
	case reply.StatusCode == http.StatusPreconditionFailed:
		// The object may be our own, of a request whose reply was lost.
		return false, p.settle(ctx, inDoubt(err))
	case reply.StatusCode == http.StatusConflict:
		// Another request for this name was under way. It may have been an
		// earlier one of ours, or may have failed.
		err = p.settle(ctx, inDoubt(err))
		return err != nil && !errors.Is(err, bytestore.ErrExists) && ctx.Err() == nil, err
	case reply.Code == minio.XAmzContentSHA256Mismatch, reply.Code == minio.BadDigest:
		return true, native(err) // damaged on the way
	case reply.StatusCode >= 400 && reply.StatusCode < 500 && !passes(reply):
		return false, native(err)
	}
	return false, p.settle(ctx, native(err))
}

// inDoubt is the error of a Put when the server's reply does not say whether it
// was this Put that stored the object. It says nothing of the key being taken.
func inDoubt(err error) error {
	return fmt.Errorf("%w: %s", bytestore.ErrOverloaded, native(err).Error())
}

// settleTime bounds the questions after a Put whose outcome is not known.
const settleTime = 10 * time.Second

// settle finds out whether the object was stored in spite of cause. It returns
// nil when it was, by this Put. A Put whose context has ended fails all the
// same, and its object is deleted.
func (p *putting) settle(ctx context.Context, cause error) error {
	detached, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	found, err := p.s.core.StatObject(detached, p.s.bucket, p.name, minio.StatObjectOptions{})
	switch {
	case minio.ToErrorResponse(err).StatusCode == http.StatusNotFound:
		return cause
	case err != nil:
		return fmt.Errorf("%w; whether the object is there is not known: %w", cause, err)
	case found.UserMetadata[putMetadata] != p.id:
		return fmt.Errorf("%w: %s", bytestore.ErrExists, cause.Error())
	case ctx.Err() == nil:
		return nil
	}
	err = p.s.core.RemoveObject(detached, p.s.bucket, p.name, minio.RemoveObjectOptions{})
	if err != nil {
		return fmt.Errorf("%w; the object is left behind: %w", cause, err)
	}
	return cause
}
