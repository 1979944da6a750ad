package lease

import (
	"context"
	"errors"
	"sync"
	"time"

	"sluice/internal/boottime"
	"sluice/internal/task"
)

var (
	// ErrInUse is returned by Hold when another process holds the lease.
	ErrInUse = errors.New("a node, or another sluice restore, is running on it: stop all of them first")
	// ErrLost is the cause with which Hold's context ends when the lease was lost.
	ErrLost = errors.New("a node was started on it, or its database did not respond for too long: stop all nodes, and run the same command again")
)

const (
	// patience is how long Hold waits for a killed node's lease: the lease has to expire, and the
	// database may judge that a little later.
	patience = ttl + ttl/3
	// standbyTime is how long Hold leaves the lease free for a node that does not lead: such a node
	// requests it every ttl/3.
	standbyTime = ttl/3 + 2*time.Second
)

// Hold acquires the lease called name and keeps it, so that no running node does background work
// and none can start to. It waits up to 20 seconds for a killed node's lease. It returns ErrInUse
// if a node, or another caller of Hold, is running: having acquired the lease, Hold releases it for
// a few seconds, in which any running node would acquire it.
//
// The context that it returns ends when ctx ends, or with the cause ErrLost when the lease may have
// been lost, also while the machine slept. The caller must call release when its work is done.
func Hold(ctx context.Context, leases Leases, name string) (held context.Context, release func() error, err error) {
	return hold(ctx, boottime.Now, leases, name, patience)
}

func hold(ctx context.Context, elapsed func() time.Duration, leases Leases, name string, patience time.Duration) (held context.Context, release func() error, err error) {
	h := newHolder(leases, name, elapsed, func(error) {})
	if _, err := h.acquire(ctx, patience); err != nil {
		return nil, nil, err
	}
	if err := h.release(ctx); err != nil {
		return nil, nil, err
	}
	select {
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	case <-time.After(standbyTime):
	}
	expiry, err := h.acquire(ctx, 0)
	if err != nil {
		return nil, nil, err
	}
	held, cancel := context.WithCancelCause(ctx)
	var keeping sync.WaitGroup
	keeping.Go(func() {
		h.keep(held, expiry)
		cancel(ErrLost) // no effect if held has ended
	})
	return held, func() error {
		cancel(nil)
		keeping.Wait()
		return h.release(ctx)
	}, nil
}

// acquire requests the lease, again and again if another process holds it, and returns ErrInUse if
// that process still does after patience.
func (h *holder) acquire(ctx context.Context, patience time.Duration) (expiry time.Duration, err error) {
	for end := time.Now().Add(patience); ; {
		expiry, err := h.request(ctx, h.elapsed())
		if err == nil || !errors.Is(err, errHeld) {
			return expiry, err
		}
		if !time.Now().Before(end) {
			return 0, ErrInUse
		}
		if err := task.Wait(ctx, time.Second); err != nil {
			return 0, err
		}
	}
}
