package s3

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// failureTime is how long a failed Put counts when no other Put follows: a
// server that is never asked again would stay failed for ever.
const failureTime = 30 * time.Second

// health remembers how the last Put went.
type health struct {
	now  func() time.Time
	last atomic.Pointer[failure] // nil after a success
}

type failure struct {
	at  time.Time
	err error
}

// note takes the outcome of a Put, as far as it was the server's doing.
func (h *health) note(err error) {
	switch {
	case err == nil:
		h.last.Store(nil)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
	default:
		h.last.Store(&failure{h.now(), err})
	}
}

// Err tells why objects may not be taken now: the failure of a Put less than
// 30 s ago, by the server's doing, after which no other succeeded. It asks
// nobody.
func (s *Store) Err() error {
	f := s.health.last.Load()
	if f == nil || s.health.now().Sub(f.at) >= failureTime {
		return nil
	}
	return fmt.Errorf("s3: objects cannot be stored: %w", f.err)
}

// Ready tells why the store does not work now: Err, or that the bucket does not
// answer, which it asks with one small request, repeated a few times. ctx bounds
// the time.
func (s *Store) Ready(ctx context.Context) error {
	if err := s.Err(); err != nil {
		return err
	}
	if err := s.reach(ctx); err != nil {
		return fmt.Errorf("s3: %w", err)
	}
	return nil
}

// reach is nil when the bucket is there and may be listed.
func (s *Store) reach(ctx context.Context) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	there, err := s.core.BucketExists(ctx, s.bucket)
	if err != nil {
		return fmt.Errorf("the bucket %s: %w", s.bucket, native(err))
	}
	if !there {
		return fmt.Errorf("there is no bucket %s", s.bucket)
	}
	return nil
}
