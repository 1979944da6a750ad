package paychan

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

const (
	chainTimeout  = 10 * time.Second // for a call to the chain
	chainPatience = 2 * time.Second  // for which a payment waits for the chain
	chainRetry    = 10 * time.Second // after a call that has failed
	chainSlots    = 64               // concurrent calls of one kind
	callsRetained = 4096             // ended calls of one kind that are retained
)

// ErrChain means that the chain could not be read.
var ErrChain = errors.New("the chain cannot be read now")

// calls makes calls of one kind to the chain. Calls with the same K are made one at a time, and
// again only after a pause; until then the last result counts.
type calls[K comparable, V any] struct {
	pause  time.Duration // after a call that has succeeded
	slots  chan struct{}
	failed atomic.Int64

	mu   sync.Mutex
	last map[K]*call[V]
}

// call is a call that runs, or the last one.
type call[V any] struct {
	began time.Time
	done  chan struct{}
	value V         // valid once done is closed, as are err and next
	err   error     // if it has failed
	next  time.Time // when the call may be made again
}

func newCalls[K comparable, V any](pause time.Duration) *calls[K, V] {
	return &calls[K, V]{pause: pause, slots: make(chan struct{}, chainSlots), last: map[K]*call[V]{}}
}

// get returns the result of the last call, or of ask, which it calls unless it is too early for
// that. It returns ErrChain if the call has not ended by the time until, or has lasted for
// chainPatience. own reports whether ask was called.
func (c *calls[K, V]) get(ctx context.Context, name K, until time.Time, ask func(context.Context) (V, error)) (value V, own bool, err error) {
	one, own := c.start(ctx, name, ask)
	patience := time.NewTimer(min(time.Until(until), chainPatience-time.Since(one.began)))
	defer patience.Stop()
	select {
	case <-one.done:
		return one.value, own, one.err
	case <-patience.C:
		return value, own, ErrChain
	case <-ctx.Done():
		return value, own, ctx.Err()
	}
}

func (c *calls[K, V]) start(ctx context.Context, name K, ask func(context.Context) (V, error)) (one *call[V], own bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if last := c.last[name]; last != nil && !last.over() {
		return last, false
	}
	if len(c.last) > callsRetained {
		for n, one := range c.last {
			if one.over() {
				delete(c.last, n)
			}
		}
	}
	one = &call[V]{began: time.Now(), done: make(chan struct{})}
	c.last[name] = one
	go func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), chainTimeout)
		defer cancel()
		one.value, one.err = c.run(ctx, ask)
		one.next = time.Now().Add(c.pause)
		if one.err != nil {
			one.next = time.Now().Add(chainRetry)
			c.failed.Add(1)
		}
		close(one.done)
	}()
	return one, true
}

// run makes a call when there is a slot.
func (c *calls[K, V]) run(ctx context.Context, ask func(context.Context) (V, error)) (value V, err error) {
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
		return ask(ctx)
	case <-ctx.Done():
		return value, ErrChain
	}
}

// over reports whether the call is done and may be made again.
func (one *call[V]) over() bool {
	select {
	case <-one.done:
		return !time.Now().Before(one.next)
	default:
		return false
	}
}
