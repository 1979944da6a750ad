package metastore

import (
	"context"
	"sync"
	"time"
)

// Patience is for how long the calls of one request may wait for the engine in
// all: in its queues, for connections and locks, and for its answers.
const Patience = 30 * time.Second

// patience is what is left of the time that the calls under a context may wait.
// Calls that wait at the same time use it up once.
type patience struct {
	mu struct {
		sync.Mutex
		left    time.Duration // without the time since began
		waiting int           // calls at work
		began   time.Time     // when the first of them began
	}
}

type patienceKey struct{}

// patient is a context with a patience, in one piece of memory.
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

// WithPatience returns a context under which the calls of a Store wait for d in
// all. Only the time counts that passes within calls.
func WithPatience(ctx context.Context, d time.Duration) context.Context {
	p := &patient{Context: ctx}
	p.mu.left = d
	return p
}

// Awaited is a call that waits, see Await.
type Awaited struct {
	// Until is the time at which the patience ends if the call lasts as long.
	Until time.Time
	of    *patience // nil: the call has its own
}

// Await is for implementations of Store. A call begins with it, and calls End when
// it ends. Where ctx has no patience of its own, the call has d.
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
