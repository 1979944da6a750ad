package cached

import (
	"context"
	"errors"
)

// errNotCached means that a block could not be cached. The reader bypasses the cache.
var errNotCached = errors.New("cached: the block is not kept")

// flight is a fetch of one block up to some length, shared by all readers that need it. It ends
// when the block is cached or cannot be cached, or when no reader waits for it.
type flight struct {
	span
	ahead  bool // begun as a prefetch
	cancel context.CancelFunc
	done   chan struct{} // closed once err is set
	err    error         // errNotCached or the underlying store's error

	// The Store's lock guards the following fields.
	waiting     int
	invalidated bool // the object was deleted or found damaged during the fetch
}

// wait waits until the flight or ctx ends, and returns its error.
func (f *flight) wait(ctx context.Context) error {
	select {
	case <-f.done:
		return f.err
	case <-ctx.Done():
		return ctx.Err()
	}
}
