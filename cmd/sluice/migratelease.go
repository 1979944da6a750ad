package main

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"time"

	"sluice/metastore"
)

// backgroundLease is the lease of the node that does the background work.
const backgroundLease = "background"

// holdPatience is how long a migration waits for the lease of a node, which one
// that was killed has until it runs out.
const holdPatience = leaseTime + leaseTime/3

var (
	errServed = errors.New("a node, or another migration, is at work on it: stop all of them first")
	errTaken  = errors.New("a node was started on it meanwhile, or its database did not answer for too long: stop all nodes, and run the same command again")
)

// standbyTime is how long the lease lies there for a node that stands by: it asks
// once in a third of leaseTime.
const standbyTime = leaseTime/3 + 2*time.Second

// hold keeps the lease that one of the running nodes always has. When it can be
// had it is given back for a while: a node that stood by takes it then. That none
// does says that none runs, and nodes that are started later do nothing by
// themselves. held ends with errTaken when the lease is lost, judged by passed, which
// counts the time, sleep included. The caller calls release.
func hold(ctx context.Context, passed func() time.Duration, leases metastore.Leases, patience time.Duration) (held context.Context, release func() error, err error) {
	holder := rand.Text()
	if err := acquire(ctx, leases, holder, patience); err != nil {
		return nil, nil, err
	}
	if _, err := leases.Lease(ctx, backgroundLease, holder, 0); err != nil {
		return nil, nil, err
	}
	select {
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	case <-time.After(standbyTime):
	}
	if err := acquire(ctx, leases, holder, 0); err != nil {
		return nil, nil, err
	}
	held, cancel := context.WithCancelCause(ctx)
	var renewal sync.WaitGroup
	renewal.Go(func() { renew(held, passed, leases, holder, cancel) })
	return held, func() error {
		cancel(nil)
		renewal.Wait()
		ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), leaseTime/3)
		defer stop()
		_, err := leases.Lease(ctx, backgroundLease, holder, 0)
		return err
	}, nil
}

// acquire takes the lease within patience, or fails with errServed.
func acquire(ctx context.Context, leases metastore.Leases, holder string, patience time.Duration) error {
	for end := time.Now().Add(patience); ; {
		got, err := leases.Lease(ctx, backgroundLease, holder, leaseTime)
		if err != nil || got {
			return err
		}
		if !time.Now().Before(end) {
			return errServed
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

// renew renews a lease until ctx ends. It calls lost when somebody else may have
// it.
func renew(ctx context.Context, passed func() time.Duration, leases metastore.Leases, holder string, lost context.CancelCauseFunc) {
	tick := time.NewTicker(leaseTime / 3)
	defer tick.Stop()
	last := passed() // a little late; the ticks leave room for that
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		began := passed()
		attempt, cancel := context.WithTimeout(ctx, leaseTime/5)
		got, err := leases.Lease(attempt, backgroundLease, holder, leaseTime)
		cancel()
		switch {
		case err == nil && got && began-last < leaseTime:
			last = began
		case err == nil: // somebody has it, or had it while this machine slept
			lost(errTaken)
			return
		case passed()-last > leaseTime/2: // the next try could end too late
			lost(errTaken)
			return
		}
	}
}
