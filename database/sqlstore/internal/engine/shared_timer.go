package engine

import (
	"context"
	"fmt"
	"sync"
	"time"

	"sluice/database"
)

// timerTick is how often the callers that wait look at the time.
const timerTick = 100 * time.Millisecond

// SharedTimer is one timer for many callers; each waits until its own time. Nearly all of them get
// a result long before; a timer for each would cost more than everything else that a wait costs. It
// runs only while somebody waits. Its methods may be called concurrently.
type SharedTimer struct {
	mu   sync.Mutex
	next chan struct{} // closed at the next tick; nil: nobody has waited since the last one
}

// NewSharedTimer returns a timer without callers.
func NewSharedTimer() *SharedTimer { return &SharedTimer{} }

// tick returns a channel that is closed at the next tick, at most timerTick later.
func (p *SharedTimer) tick() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.next == nil {
		p.next = make(chan struct{})
		time.AfterFunc(timerTick, p.fire)
	}
	return p.next
}

func (p *SharedTimer) fire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.next)
	p.next = nil
}

// Wait waits for done and returns nil. It returns the error of ctx if that ends before, and
// ErrQueued at until or at most one tick later.
func (p *SharedTimer) Wait(ctx context.Context, done <-chan struct{}, until time.Time) error {
	for {
		select {
		case <-done:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-p.tick():
			if !time.Now().Before(until) {
				return ErrQueued
			}
		}
	}
}

// ErrQueued is the error for a call that waited too long for other calls or processes.
var ErrQueued = fmt.Errorf("sqlstore: %w: other transactions are running", database.ErrBusy)
