package main

import (
	"context"
	"crypto/rand"
	"sync"
	"time"

	"sluice/metastore"
)

const (
	// leaseTime is for how long a node that dies keeps the others from its work.
	leaseTime = 15 * time.Second
	// leadPoll is how often a node that leads looks whether it still does.
	leadPoll = time.Second
)

// lead does work that is for one node at a time: it runs work while this node
// has the lease of that name, until ctx ends. When the lease cannot be renewed
// in time, work's context ends before another node can have the lease, or
// within leadPoll after the machine slept. passed counts the time, sleep
// included (boottime.Now): timers do not. Failures go to report.
//
// Every node asks for the lease, whatever state it is in: a migration knows by it
// that a node runs.
func lead(ctx context.Context, passed func() time.Duration, leases metastore.Leases, name string, report func(task string, err error), work func(context.Context)) {
	l := leader{leases: leases, name: name, holder: rand.Text(), passed: passed, report: report}
	tick := time.NewTicker(leaseTime / 3)
	defer tick.Stop()
	for ctx.Err() == nil {
		if until, held := l.take(ctx); held {
			l.work(ctx, until, work)
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
	passed func() time.Duration
	report func(task string, err error)
}

// take takes or renews the lease, and returns until when, by passed, it is held
// for sure.
func (l leader) take(ctx context.Context) (until time.Duration, held bool) {
	began := l.passed()
	ctx, cancel := context.WithTimeout(ctx, leaseTime/3)
	defer cancel()
	held, err := l.leases.Lease(ctx, l.name, l.holder, leaseTime)
	if err != nil && ctx.Err() == nil {
		l.report("lease "+l.name, err)
	}
	return began + leaseTime, held && err == nil
}

// work runs work until the lease is lost or ctx ends, and gives the lease back.
func (l leader) work(ctx context.Context, until time.Duration, work func(context.Context)) {
	working, stop := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() { work(working) })
	l.hold(ctx, until)
	stop()
	done.Wait()
	back, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaseTime/3)
	defer cancel()
	if _, err := l.leases.Lease(back, l.name, l.holder, 0); err != nil {
		l.report("lease "+l.name, err)
	}
}

// hold renews the lease until it is about to be lost or ctx ends.
func (l leader) hold(ctx context.Context, until time.Duration) {
	// What still runs when hold returns has the rest of the time to notice.
	const margin = leaseTime / 5
	tick := time.NewTicker(leadPoll)
	defer tick.Stop()
	// A call to a database that stalls must not keep the look at the time waiting.
	renewals, renewing := make(chan time.Duration, 1), false
	for {
		select {
		case <-ctx.Done():
			return
		case next := <-renewals:
			renewing = false
			until = max(until, next)
		case <-tick.C:
			left := until - l.passed()
			if left <= margin {
				return
			}
			if left > leaseTime*2/3 || renewing {
				continue
			}
			renewing = true
			go func() {
				next, held := l.take(ctx)
				if !held {
					next = 0
				}
				renewals <- next
			}()
		}
	}
}
