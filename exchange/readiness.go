package exchange

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"
)

// readyAge is how long a result is reused, so that the stores are checked at most once in that
// time.
const readyAge = time.Second

// readyTimeout bounds how long a check may take.
const readyTimeout = 5 * time.Second

// readiness checks whether the stores can serve requests, on behalf of all concurrent callers,
// and logs when the result changes. It is safe for concurrent use.
type readiness struct {
	check func(context.Context) error
	log   *slog.Logger
	// stopped reports whether the service shuts down; then a failure is not logged.
	stopped func() bool

	mu     sync.Mutex
	last   *readyCheck // nil before the first check
	failed bool        // the last result, which was logged
}

// readyCheck is one check on the stores. The fields after done may be read when it is closed.
type readyCheck struct {
	started time.Time
	done    chan struct{}
	err     error
	panic   error // the check panicked
}

// get returns why the stores cannot serve requests, or nil. The result is at most readyAge old. It
// waits for readyTimeout at most. If the check panics, get panics.
func (r *readiness) get(ctx context.Context) error {
	check := r.join()
	timeout := time.NewTimer(readyTimeout)
	defer timeout.Stop()
	select {
	case <-check.done:
	case <-ctx.Done():
		return ctx.Err()
	case <-timeout.C:
		return fmt.Errorf("the stores have not responded within %v", readyTimeout)
	}
	if check.panic != nil {
		panic(check.panic)
	}
	return check.err
}

// join returns the current check if it is running or recent, or starts a new one.
func (r *readiness) join() *readyCheck {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last != nil && (time.Since(r.last.started) < readyAge || !r.last.ended()) {
		return r.last
	}
	r.last = &readyCheck{started: time.Now(), done: make(chan struct{})}
	go r.run(r.last)
	return r.last
}

func (c *readyCheck) ended() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// run runs a check. It does not use a request's context, because several requests may wait for the
// result.
func (r *readiness) run(c *readyCheck) {
	defer close(c.done)
	defer func() {
		if p := recover(); p != nil {
			c.panic = fmt.Errorf("%v\n%s", p, debug.Stack())
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), readyTimeout)
	defer cancel()
	c.err = r.check(ctx)
	r.logChange(c.err)
}

// logChange logs a result that differs from the previous one.
func (r *readiness) logChange(err error) {
	r.mu.Lock()
	changed := r.failed != (err != nil)
	r.failed = err != nil
	r.mu.Unlock()
	switch {
	case !changed, r.stopped():
	case err != nil:
		r.log.Error("not ready: the service cannot serve requests", "error", err)
	default:
		r.log.Info("ready again")
	}
}
