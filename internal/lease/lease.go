// Package lease holds the lease of the node that does a database's background work: Lead is for
// nodes: one works at a time. Hold is for a command that requires that no node runs.
//
// A lease is judged by the database's clock. Its holder counts the time since before its last
// request for it, so it never believes to hold a lease that another process may have.
package lease

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"time"

	"sluice/internal/boottime"
)

var errHeld = errors.New("the lease is held by another process")

// Background names the lease for background work. Every running node requests it, whatever state
// the node is in: Hold relies on that.
const Background = "background"

const (
	// ttl is a lease's duration, and so the longest time for which a killed node blocks the others.
	ttl = 15 * time.Second
	// poll is the interval at which a holder checks that the lease is still held.
	poll = time.Second
	// margin is how long before its expiry a lease counts as lost, so that the holder's work ends
	// before another process can have the lease.
	margin = ttl / 5
	// callTimeout bounds a call to the database.
	callTimeout = ttl / 3
)

// Lead runs work while this process holds the lease called name. It requests the lease until ctx
// ends, and runs work again each time that it is granted.
//
// When the lease is lost, the context of work ends before another process can hold the lease, or
// within a second after the machine slept. Lead releases the lease when work has returned. The
// database's errors are passed to report, which must be safe for concurrent use.
func Lead(ctx context.Context, leases Leases, name string, report func(task string, err error), work func(context.Context)) {
	lead(ctx, boottime.Now, leases, name, report, work)
}

func lead(ctx context.Context, elapsed func() time.Duration, leases Leases, name string, report func(task string, err error), work func(context.Context)) {
	h := newHolder(leases, name, elapsed, func(err error) { report("lease "+name, err) })
	tick := time.NewTicker(ttl / 3)
	defer tick.Stop()
	for ctx.Err() == nil {
		if expiry, err := h.request(ctx, elapsed()); err == nil {
			h.run(ctx, expiry, work)
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// holder requests a lease under an identity of its own.
type holder struct {
	leases  Leases
	name    string
	id      string
	elapsed func() time.Duration // monotonic, the machine's sleep included
	report  func(error)
	renewal sync.WaitGroup // a concurrent call of request
}

func newHolder(leases Leases, name string, elapsed func() time.Duration, report func(error)) *holder {
	return &holder{leases: leases, name: name, id: rand.Text(), elapsed: elapsed, report: report}
}

// request acquires or renews the lease, and returns the elapsed time until which it is certainly
// held: ttl after began, a moment before the call. It returns errHeld if another process holds the
// lease.
func (h *holder) request(ctx context.Context, began time.Duration) (expiry time.Duration, err error) {
	attempt, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	held, err := h.leases.Lease(attempt, h.name, h.id, ttl)
	switch {
	case err != nil && ctx.Err() == nil:
		h.report(err)
		return 0, err
	case err != nil:
		return 0, err
	case !held:
		return 0, errHeld
	}
	return began + ttl, nil
}

// release returns the lease to the database, also when ctx has ended. It waits for a renewal that
// keep did not wait for, which would acquire the lease again.
func (h *holder) release(ctx context.Context) error {
	h.renewal.Wait()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	_, err := h.leases.Lease(ctx, h.name, h.id, 0)
	return err
}

// run runs work until the lease is lost or ctx ends, and releases the lease.
func (h *holder) run(ctx context.Context, expiry time.Duration, work func(context.Context)) {
	working, stop := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() { work(working) })
	h.keep(ctx, expiry)
	stop()
	done.Wait()
	if err := h.release(ctx); err != nil {
		h.report(err)
	}
}

// keep renews the lease. It returns when ctx ends, when another process holds the lease, or when
// less than margin is left until its expiry.
func (h *holder) keep(ctx context.Context, expiry time.Duration) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	tick := time.NewTicker(poll)
	defer tick.Stop()
	type renewal struct {
		expiry time.Duration
		err    error
	}
	// Renewals run concurrently: a call to a database that hangs must not delay the check for the
	// expiry.
	renewals, renewing := make(chan renewal, 1), false
	for {
		select {
		case <-ctx.Done():
			return
		case r := <-renewals:
			renewing = false
			if errors.Is(r.err, errHeld) {
				return
			}
			expiry = max(expiry, r.expiry)
		case <-tick.C:
			began := h.elapsed()
			left := expiry - began
			if left <= margin {
				return
			}
			if left > ttl*2/3 || renewing {
				continue
			}
			renewing = true
			h.renewal.Go(func() {
				next, err := h.request(ctx, began)
				renewals <- renewal{next, err}
			})
		}
	}
}
