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

// WithPatience returns a context under which the calls of a Store wait for d in
// all. Only the time counts that passes within calls.
func WithPatience(ctx context.Context, d time.Duration) context.Context {
	p := &patience{}
	p.mu.left = d
	return context.WithValue(ctx, patienceKey{}, p)
}

// Await is for implementations of Store. A call begins with it: it returns the
// time at which the patience of ctx ends if the call lasts as long, and a
// function to be called when the call ends. Where ctx has no patience of its
// own, the call has d.
func Await(ctx context.Context, d time.Duration) (until time.Time, end func()) {
	p, ok := ctx.Value(patienceKey{}).(*patience)
	if !ok {
		return time.Now().Add(d), func() {}
	}
	return p.begin(time.Now()), p.end
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
