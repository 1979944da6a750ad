package httpapi

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"
)

// readyAge is how long an answer of the stores counts: however many ask whether
// the service is ready, the stores are asked once in that time.
const readyAge = time.Second

// readyPatience is how long the stores may take to answer.
const readyPatience = 5 * time.Second

// readiness asks the stores whether they can serve, for all who want to know. It
// logs when that changes. Its methods may be called from many goroutines.
type readiness struct {
	ask func(context.Context) error
	log *slog.Logger

	mu     sync.Mutex
	last   *readyAnswer // nil before the first
	failed bool         // what the log says
}

// readyAnswer is one question to the stores. What follows given may be read when
// it is closed.
type readyAnswer struct {
	asked time.Time
	given chan struct{}
	err   error
	panic error // the question panicked
}

// check returns why the stores cannot serve. The answer is at most readyAge old,
// and may have been asked for by another caller. It waits no longer than
// readyPatience.
func (r *readiness) check(ctx context.Context) error {
	answer := r.join()
	patience := time.NewTimer(readyPatience)
	defer patience.Stop()
	select {
	case <-answer.given:
	case <-ctx.Done():
		return ctx.Err()
	case <-patience.C:
		return fmt.Errorf("the stores have not answered within %v", readyPatience)
	}
	if answer.panic != nil {
		panic(answer.panic)
	}
	return answer.err
}

// join returns the answer that is awaited or young enough, or asks for another.
func (r *readiness) join() *readyAnswer {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last != nil && (time.Since(r.last.asked) < readyAge || !r.last.ended()) {
		return r.last
	}
	r.last = &readyAnswer{asked: time.Now(), given: make(chan struct{})}
	go r.await(r.last)
	return r.last
}

func (a *readyAnswer) ended() bool {
	select {
	case <-a.given:
		return true
	default:
		return false
	}
}

// await asks the stores. Nobody's leaving ends the question for the others.
func (r *readiness) await(a *readyAnswer) {
	defer close(a.given)
	defer func() {
		if p := recover(); p != nil {
			a.panic = fmt.Errorf("%v\n%s", p, debug.Stack())
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), readyPatience)
	defer cancel()
	a.err = r.ask(ctx)
	r.note(a.err)
}

// note logs a change.
func (r *readiness) note(err error) {
	r.mu.Lock()
	changed := r.failed != (err != nil)
	r.failed = err != nil
	r.mu.Unlock()
	switch {
	case !changed:
	case err != nil:
		r.log.Error("not ready: the service cannot serve", "error", err)
	default:
		r.log.Info("ready again")
	}
}
