package access

import (
	"context"
	"sync"
)

// lookups are the keys that are being looked up, so that one query serves all who wait for it.
type lookups struct {
	mu      sync.Mutex
	running map[lookupKey]*lookup
}

// lookupKey is a key in one generation: nobody gets the result of a query that began before the
// change that they have seen.
type lookupKey struct {
	id         string
	generation int64
}

type lookup struct {
	ended  chan struct{}
	caller *Caller // nil: there is no such key
	err    error
}

// do returns the result of query, or that of a call for the same key that runs. It returns the error
// of ctx if that ends first.
func (l *lookups) do(ctx context.Context, key lookupKey, query func(context.Context) (*Caller, error)) (*Caller, error) {
	l.mu.Lock()
	one, running := l.running[key]
	if !running {
		one = &lookup{ended: make(chan struct{})}
		l.running[key] = one
	}
	l.mu.Unlock()
	if !running {
		// Others wait for the result too, so it must not depend on the client of this request.
		one.caller, one.err = query(context.WithoutCancel(ctx))
		l.mu.Lock()
		delete(l.running, key)
		l.mu.Unlock()
		close(one.ended)
	}
	select {
	case <-one.ended:
		return one.caller, one.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
