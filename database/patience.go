package database

import (
	"context"
	"sync"
	"time"
)

// Patience is the total time for which the calls of one request may wait for the engine: in
// queues, for connections and locks, and for responses.
const Patience = 30 * time.Second

// patience is the remaining time for which the calls under a context may wait. Time during which
// several calls wait counts once.
type patience struct {
	mu struct {
		sync.Mutex
		left    time.Duration // without the time since began
		waiting int           // calls in progress
		began   time.Time     // when the first of them began
	}
}

type patienceKey struct{}

// patient is a context with a patience, in one allocation.
type patient struct {
	context.Context
	patience
}

// Value implements context.Context.
func (p *patient) Value(key any) any {
	if key == (patienceKey{}) {
		return &p.patience
	}
	return p.Context.Value(key)
}

// WithPatience returns a context under which calls to the database wait for d in total. Only the
// time inside calls counts.
func WithPatience(ctx context.Context, d time.Duration) context.Context {
	p := &patient{Context: ctx}
	p.mu.left = d
	return p
}

// Waited returns for how long calls under a context of WithPatience(ctx, d) have waited or run.
func Waited(ctx context.Context, d time.Duration) time.Duration {
	p, ok := ctx.Value(patienceKey{}).(*patience)
	if !ok {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	waited := d - p.mu.left
	if p.mu.waiting > 0 {
		waited += time.Since(p.mu.began)
	}
	return waited
}

// Awaited is a call that may wait; see Await.
type Awaited struct {
	// Until is when the call must stop waiting.
	Until time.Time
	of    *patience // nil: ctx has none
}

// Await is for implementations of the contracts. They must call it at the beginning of each method,
// and End at its end. If ctx has no patience, the method may wait for d.
func Await(ctx context.Context, d time.Duration) Awaited {
	p, ok := ctx.Value(patienceKey{}).(*patience)
	if !ok {
		return Awaited{Until: time.Now().Add(d)}
	}
	return Awaited{Until: p.begin(time.Now()), of: p}
}

// End ends the call. It must be called once.
func (a Awaited) End() {
	if a.of != nil {
		a.of.end()
	}
}

func (p *patience) begin(now time.Time) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.waiting == 0 {
		p.mu.began = now
	}
	p.mu.waiting++
	return p.mu.began.Add(p.mu.left)
}

func (p *patience) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.waiting--; p.mu.waiting == 0 {
		p.mu.left -= time.Since(p.mu.began)
	}
}
