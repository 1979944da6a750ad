package sqlstore

import (
	"context"
	"sync"
	"time"
)

// beat is how often a pulse wakes those who wait.
const timerTick = 100 * time.Millisecond

// pulse lets many callers wait for different times with one timer, which runs only
// while somebody waits: nearly all of them are answered long before their time, and
// a timer for each would cost more than the rest of the wait. Its zero value is
// ready. Its methods may be called from many goroutines.
type sharedTimer struct {
	mu   sync.Mutex
	next chan struct{} // closed at the next beat; nil: nobody waited since the last one
}

// wait waits for done, and returns nil then. Otherwise it returns the error of ctx,
// or errQueued when it is until, or at most a beat later.
func (p *sharedTimer) wait(ctx context.Context, done <-chan struct{}, until time.Time) error {
	for {
		select {
		case <-done:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-p.beat():
			if !time.Now().Before(until) {
				return errQueued
			}
		}
	}
}

// beat returns a channel that is closed within a beat.
func (p *sharedTimer) beat() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.next == nil {
		p.next = make(chan struct{})
		time.AfterFunc(timerTick, p.strike)
	}
	return p.next
}

func (p *sharedTimer) strike() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.next)
	p.next = nil
}
