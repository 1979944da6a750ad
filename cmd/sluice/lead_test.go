package main

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// clockLeases are leases judged by the clock of the bubble, of an engine that
// can be away.
type clockLeases struct {
	mu      chan struct{}
	holder  string
	expires time.Time
	away    atomic.Bool
	slow    atomic.Int64 // how long a call takes, whatever its context says
}

func (l *clockLeases) Lease(_ context.Context, _, holder string, ttl time.Duration) (bool, error) {
	if l.away.Load() {
		return false, errors.New("the engine is away")
	}
	time.Sleep(time.Duration(l.slow.Load()))
	l.mu <- struct{}{}
	defer func() { <-l.mu }()
	if l.holder != holder && time.Now().Before(l.expires) {
		return false, nil
	}
	l.holder, l.expires = holder, time.Now().Add(ttl)
	return ttl > 0, nil
}

func (l *clockLeases) ClockOffset(context.Context) (time.Duration, error) { return 0, nil }

// Of many nodes one works at a time, also when its engine goes away and when it
// ends; then another one takes over.
func TestOneNodeLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases := &clockLeases{mu: make(chan struct{}, 1)}
		var working, turns atomic.Int64
		work := func(ctx context.Context) {
			if working.Add(1) > 1 {
				t.Error("two nodes work at once")
			}
			turns.Add(1)
			<-ctx.Done()
			working.Add(-1)
		}
		stops := map[int]context.CancelFunc{}
		var unfit atomic.Bool
		fit := func() error {
			if unfit.Load() {
				return errors.New("the clock is wrong")
			}
			return nil
		}
		for node := range 3 {
			ctx, stop := context.WithCancel(t.Context())
			stops[node] = stop
			go lead(ctx, leases, "background", fit, func(string, error) {}, work)
		}
		time.Sleep(time.Minute)
		if working.Load() != 1 || turns.Load() != 1 {
			t.Fatalf("%d nodes work, in turn %d; want one that stays at it", working.Load(), turns.Load())
		}
		leases.away.Store(true)
		time.Sleep(leaseTime)
		if working.Load() != 0 {
			t.Fatal("a node works without a lease")
		}
		leases.away.Store(false)
		time.Sleep(2 * leaseTime)
		if working.Load() != 1 {
			t.Fatal("no node works when the engine is back")
		}
		unfit.Store(true)
		time.Sleep(leaseTime)
		if working.Load() != 0 {
			t.Fatal("a node works by a wrong clock")
		}
		unfit.Store(false)
		leases.slow.Store(int64(2 * leaseTime))
		time.Sleep(10 * leaseTime) // a database that stalls: no two at once
		leases.slow.Store(0)
		time.Sleep(4 * leaseTime)
		for _, stop := range stops {
			before := turns.Load()
			stop()
			time.Sleep(2 * leaseTime)
			if working.Load() > 1 || turns.Load() > before+1 {
				t.Fatalf("%d nodes work, in turn %d after %d", working.Load(), turns.Load(), before)
			}
		}
		if working.Load() != 0 {
			t.Error("a node works that has ended")
		}
	})
}
