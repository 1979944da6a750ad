package main

import (
	"context"
	"crypto/rand"
	"sync"
	"time"

	"sluice/metastore"
)

// leaseTime is for how long a node that dies keeps the others from its work.
const leaseTime = 15 * time.Second

// lead does work that is for one node at a time: it runs work while this node
// has the lease of that name, until ctx ends. When the lease cannot be renewed
// in time, or when fit gives a reason why this node should not work now, work's
// context ends before another node can have the lease. Failures go to report.
func lead(ctx context.Context, leases metastore.Leases, name string, fit func() error, report func(task string, err error), work func(context.Context)) {
	l := leader{leases: leases, name: name, holder: rand.Text(), fit: fit, report: report}
	tick := time.NewTicker(leaseTime / 3)
	defer tick.Stop()
	for ctx.Err() == nil {
		if until, held := l.take(ctx); held {
			l.work(ctx, until, tick.C, work)
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

type leader struct {
	leases metastore.Leases
	name   string
	holder string
	fit    func() error
	report func(task string, err error)
}

// take takes or renews the lease, and tells until when it is held for sure.
func (l leader) take(ctx context.Context) (until time.Time, held bool) {
	if l.fit() != nil { // which /readyz tells
		return time.Time{}, false
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, leaseTime/3)
	defer cancel()
	held, err := l.leases.Lease(ctx, l.name, l.holder, leaseTime)
	if err != nil && ctx.Err() == nil {
		l.report("lease "+l.name, err)
	}
	return began.Add(leaseTime), held && err == nil
}

// work runs work until the lease is lost or ctx ends, and gives the lease back.
func (l leader) work(ctx context.Context, until time.Time, tick <-chan time.Time, work func(context.Context)) {
	working, stop := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() { work(working) })
	// What still runs when the context ends has the rest of the time to notice.
	const margin = leaseTime / 5
	timer := time.NewTimer(time.Until(until) - margin)
	defer timer.Stop()
	// A call to a database that stalls must not keep the timer waiting.
	renewals, renewing := make(chan time.Time, 1), false
	for held := true; held; {
		select {
		case <-ctx.Done():
			held = false
		case <-timer.C:
			held = false
		case <-tick:
			if held = l.fit() == nil; held && !renewing {
				renewing = true
				go func() {
					next, ok := l.take(ctx)
					if !ok {
						next = time.Time{}
					}
					renewals <- next
				}()
			}
		case next := <-renewals:
			renewing = false
			if !next.IsZero() {
				timer.Reset(time.Until(next) - margin)
			}
		}
	}
	stop()
	done.Wait()
	back, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaseTime/3)
	defer cancel()
	if _, err := l.leases.Lease(back, l.name, l.holder, 0); err != nil {
		l.report("lease "+l.name, err)
	}
}
