package s3

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// failureTime is how long a failed Put is reported if no other Put follows. Otherwise a server that
// is no longer used would be reported as failed forever.
const failureTime = 30 * time.Second

// health records the last Put's result.
type health struct {
	now  func() time.Time
	last atomic.Pointer[failure] // nil after a success
}

type failure struct {
	at  time.Time
	err error
}

// note records a Put's result, unless it was interrupted by its context.
func (h *health) note(err error) {
	switch {
	case err == nil:
		h.last.Store(nil)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
	default:
		h.last.Store(&failure{h.now(), err})
	}
}

// err returns the last Put's error, unless it succeeded or is older than failureTime.
func (h *health) err() error {
	f := h.last.Load()
	if f == nil || h.now().Sub(f.at) >= failureTime {
		return nil
	}
	return f.err
}
