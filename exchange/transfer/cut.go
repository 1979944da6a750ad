package transfer

import (
	"context"
	"sync/atomic"
)

// Cut ends the request bodies that are being received when the service shuts down. It is safe for
// concurrent use.
type Cut struct {
	err    error
	ctx    context.Context
	cancel context.CancelFunc
	bodies atomic.Int64
}

// NewCut returns a Cut that makes Readers return err.
func NewCut(err error) *Cut {
	ctx, cancel := context.WithCancel(context.Background())
	return &Cut{err: err, ctx: ctx, cancel: cancel}
}

// Context returns a context that ends with Now.
func (c *Cut) Context() context.Context { return c.ctx }

// Now ends all bodies, including those that are read later. It reports whether any was being
// received.
func (c *Cut) Now() bool {
	active := c.bodies.Load() > 0
	c.cancel()
	return active
}

// Ended reports whether Now was called.
func (c *Cut) Ended() bool { return c.ctx.Err() != nil }
