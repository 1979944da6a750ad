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
	late    atomic.Int64 // how long its answer takes
}

func (l *clockLeases) Lease(_ context.Context, _, holder string, ttl time.Duration) (bool, error) {
	if l.away.Load() {
		return false, errors.New("the engine is away")
	}
	time.Sleep(time.Duration(l.slow.Load()))
	defer func() { time.Sleep(time.Duration(l.late.Load())) }()
	l.mu <- struct{}{}
	defer func() { <-l.mu }()
	if l.holder != holder && time.Now().Before(l.expires) {
		return false, nil
	}
	l.holder, l.expires = holder, time.Now().Add(ttl)
	return ttl > 0, nil
}

// sinceNow counts the time of the bubble.
func sinceNow() func() time.Duration {
	start := time.Now()
	return func() time.Duration { return time.Since(start) }
}

// Of many nodes one works at a time, also when its engine goes away and when it
// ends; then another one takes over.
func TestOneNodeLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases, passed := &clockLeases{mu: make(chan struct{}, 1)}, sinceNow()
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
		for node := range 3 {
			ctx, stop := context.WithCancel(t.Context())
			stops[node] = stop
			go lead(ctx, passed, leases, "background", func(string, error) {}, work)
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

// TestLeaderThatSlept: timers stop while a machine sleeps. A leader that slept for
// longer than its lease stops working before its timers would have said so.
func TestLeaderThatSlept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases, awake := &clockLeases{mu: make(chan struct{}, 1)}, sinceNow()
		var slept atomic.Int64
		passed := func() time.Duration { return awake() + time.Duration(slept.Load()) }
		var works atomic.Bool
		work := func(ctx context.Context) {
			works.Store(true)
			<-ctx.Done()
			works.Store(false)
		}
		go lead(t.Context(), passed, leases, "background", func(string, error) {}, work)
		time.Sleep(leaseTime)
		if !works.Load() {
			t.Fatal("the node does not lead")
		}
		slept.Store(int64(time.Hour))
		leases.mu <- struct{}{}
		leases.holder, leases.expires = "another", time.Now().Add(time.Hour)
		<-leases.mu
		time.Sleep(leadPoll)
		synctest.Wait()
		if works.Load() {
			t.Error("a node that slept believes that it leads")
		}
	})
}

// TestLeaseCountsFromTheQuestion: the engine may have granted a lease as soon as it
// was asked, however late the answer comes. Work ends before that lease does.
func TestLeaseCountsFromTheQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases := &clockLeases{mu: make(chan struct{}, 1)}
		leases.late.Store(int64(leaseTime/3 - time.Millisecond))
		var works atomic.Bool
		work := func(ctx context.Context) {
			works.Store(true)
			<-ctx.Done()
			works.Store(false)
		}
		go lead(t.Context(), sinceNow(), leases, "background", func(string, error) {}, work)
		time.Sleep(4 * leaseTime)
		if !works.Load() {
			t.Fatal("the node does not lead")
		}
		leases.away.Store(true)
		for range 2 * leaseTime / (100 * time.Millisecond) {
			time.Sleep(100 * time.Millisecond)
			leases.mu <- struct{}{}
			over := !time.Now().Before(leases.expires)
			<-leases.mu
			if over && works.Load() {
				t.Fatal("a node works whose lease another one can have")
			}
		}
		if works.Load() {
			t.Error("a node works without a lease")
		}
	})
}
