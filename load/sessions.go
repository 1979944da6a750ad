package load

import (
	"context"
	"math"
	"net/url"
	"sync"
	"sync/atomic"

	"sluice/client"
)

// pool has the sessions for operations that use them.
type pool struct {
	create func(context.Context) (client.Session, error) // nil if used sessions are not replaced
	slots  []slot
	spares chan *counted
	failed chan error // has the error if a session could not be created
	stop   context.CancelFunc
	ended  sync.WaitGroup

	created atomic.Int64
}

// slot has the session that its operations use.
type slot struct {
	mu      sync.Mutex // is held while the session is replaced
	current atomic.Pointer[counted]
}

// counted is a session with its chunksets left.
type counted struct {
	path string // for the request that uses it
	left atomic.Int64
}

// spareSessions is the number of sessions that are created before they are needed.
const spareSessions = 16

// newPool returns a pool with the sessions that have these ids or, if there are none, with n new
// ones.
func newPool(ctx context.Context, c *client.Client, ids []string, n int) *pool {
	p := &pool{spares: make(chan *counted, spareSessions), failed: make(chan error, 1)}
	if len(ids) > 0 {
		p.slots, p.stop = make([]slot, len(ids)), func() {}
		for i, id := range ids {
			p.slots[i].current.Store(newCounted(id, math.MaxInt64)) // the service counts
		}
		return p
	}
	p.slots = make([]slot, n)
	p.create = func(ctx context.Context) (client.Session, error) {
		return c.CreateSession(ctx, client.CreateSessionOptions{})
	}
	ctx, p.stop = context.WithCancel(ctx)
	p.ended.Go(func() { p.supply(ctx) })
	return p
}

func newCounted(id string, left int64) *counted {
	c := &counted{path: "/v1/sessions/" + url.PathEscape(id) + "/use"}
	c.left.Store(left)
	return c
}

// supply creates spare sessions until the context is cancelled or it fails.
func (p *pool) supply(ctx context.Context) {
	for {
		s, err := p.create(ctx)
		if err != nil {
			p.failed <- err
			return
		}
		p.created.Add(1)
		select {
		case p.spares <- newCounted(s.ID, s.ChunksetsLeft):
		case <-ctx.Done():
			return
		}
	}
}

// fill creates a session for every slot.
func (p *pool) fill(ctx context.Context) (err error) {
	for i := range p.slots {
		if p.slots[i].current.Load() == nil && err == nil {
			err = p.replace(ctx, &p.slots[i], nil)
		}
	}
	return err
}

// take takes a chunkset from a session, and returns the path for the request that uses it.
func (p *pool) take(ctx context.Context, random uint64) (path string, err error) {
	s := &p.slots[random%uint64(len(p.slots))]
	for {
		c := s.current.Load()
		if c.left.Add(-1) >= 0 {
			return c.path, nil
		}
		if err := p.replace(ctx, s, c); err != nil {
			return "", err
		}
	}
}

// replace replaces a slot's session by a spare one, unless that was done since.
func (p *pool) replace(ctx context.Context, s *slot, old *counted) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current.Load() != old {
		return nil
	}
	select {
	case spare := <-p.spares:
		s.current.Store(spare)
		return nil
	case err := <-p.failed:
		p.failed <- err // for the next one
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// close ends the creation of sessions, and returns how many were created.
func (p *pool) close() int {
	p.stop()
	p.ended.Wait()
	return int(p.created.Load())
}
