package s3

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// failureTime is how long a failed Put is reported if no other Put follows. Otherwise a
// server that is no longer used would be reported as failed forever.
const failureTime = 30 * time.Second

// health records the result of the last Put.
type health struct {
	now  func() time.Time
	last atomic.Pointer[failure] // nil after a success
}

type failure struct {
	at  time.Time
	err error
}

// note records the result of a Put, unless it was interrupted by its context.
func (h *health) note(err error) {
	switch {
	case err == nil:
		h.last.Store(nil)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
	default:
		h.last.Store(&failure{h.now(), err})
	}
}

// Err returns the error of the last Put if it failed less than 30 seconds ago because of
// the server. It sends no request.
func (s *Store) Err() error {
	f := s.health.last.Load()
	if f == nil || s.health.now().Sub(f.at) >= failureTime {
		return nil
	}
	return fmt.Errorf("s3: objects cannot be stored: %w", f.err)
}

// Ready returns an error if the store does not work at the moment: Err, or the error of a
// small request to the bucket, which is retried a few times. ctx limits the time.
func (s *Store) Ready(ctx context.Context) error {
	if err := s.Err(); err != nil {
		return err
	}
	if err := s.reach(ctx); err != nil {
		return fmt.Errorf("s3: %w", err)
	}
	return nil
}

// reach returns nil if the bucket exists and can be listed.
func (s *Store) reach(ctx context.Context) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	there, err := s.core.BucketExists(ctx, s.bucket)
	if err != nil {
		return fmt.Errorf("the bucket %s: %w", s.bucket, contractError(err))
	}
	if !there {
		return fmt.Errorf("there is no bucket %s", s.bucket)
	}
	return nil
}
