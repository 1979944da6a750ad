package lease

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestOneNodeLeads checks that one of many nodes works at a time, also when the database becomes
// unavailable or the leader ends; then another node leads.
// Invariant 83.
func TestOneNodeLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases, elapsed := &clockLeases{mu: make(chan struct{}, 1)}, sinceNow()
		var working, terms atomic.Int64
		work := func(ctx context.Context) {
			if working.Add(1) > 1 {
				t.Error("two nodes work concurrently")
			}
			terms.Add(1)
			<-ctx.Done()
			working.Add(-1)
		}
		stops := map[int]context.CancelFunc{}
		for node := range 3 {
			ctx, stop := context.WithCancel(t.Context())
			stops[node] = stop
			go lead(ctx, elapsed, leases, "background", func(string, error) {}, work)
		}
		time.Sleep(time.Minute)
		if working.Load() != 1 || terms.Load() != 1 {
			t.Fatalf("%d nodes work, after %d terms; want one node in its first term", working.Load(), terms.Load())
		}
		leases.unavailable.Store(true)
		leases.mu <- struct{}{}
		left := time.Until(leases.expires)
		<-leases.mu
		time.Sleep(left - margin + poll + poll/2)
		if working.Load() != 0 {
			t.Fatal("a node works until the end of its lease")
		}
		time.Sleep(ttl)
		if working.Load() != 0 {
			t.Fatal("a node works without a lease")
		}
		leases.unavailable.Store(false)
		time.Sleep(2 * ttl)
		if working.Load() != 1 {
			t.Fatal("no node works when the database is available again")
		}
		leases.slow.Store(int64(2 * ttl))
		time.Sleep(10 * ttl) // a database that hangs
		leases.slow.Store(0)
		time.Sleep(4 * ttl)
		for _, stop := range stops {
			before := terms.Load()
			stop()
			time.Sleep(2 * ttl)
			if working.Load() > 1 || terms.Load() > before+1 {
				t.Fatalf("%d nodes work, after %d terms, before %d", working.Load(), terms.Load(), before)
			}
		}
		if working.Load() != 0 {
			t.Error("a node that has ended works")
		}
	})
}

// TestLeaderThatSlept checks that a leader stops working when its machine has slept for longer than
// the lease, although timers stop while a machine sleeps.
// Invariant 83.
func TestLeaderThatSlept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases, awake := &clockLeases{mu: make(chan struct{}, 1)}, sinceNow()
		var slept atomic.Int64
		elapsed := func() time.Duration { return awake() + time.Duration(slept.Load()) }
		var works worker
		go lead(t.Context(), elapsed, leases, "background", func(string, error) {}, works.work)
		time.Sleep(ttl)
		if !works.Load() {
			t.Fatal("the node does not lead")
		}
		slept.Store(int64(time.Hour))
		leases.mu <- struct{}{}
		leases.holder, leases.expires = "another", time.Now().Add(time.Hour)
		<-leases.mu
		time.Sleep(poll)
		synctest.Wait()
		if works.Load() {
			t.Error("a node that slept still works")
		}
	})
}

// TestLeaseCountsFromTheRequest checks that work ends before the lease does when responses are
// late: a lease may begin as soon as the request was sent.
// Invariant 83.
func TestLeaseCountsFromTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases := &clockLeases{mu: make(chan struct{}, 1)}
		leases.late.Store(int64(ttl/3 - time.Millisecond))
		var works worker
		go lead(t.Context(), sinceNow(), leases, "background", func(string, error) {}, works.work)
		time.Sleep(4 * ttl)
		if !works.Load() {
			t.Fatal("the node does not lead")
		}
		leases.unavailable.Store(true)
		for range 2 * ttl / (100 * time.Millisecond) {
			time.Sleep(100 * time.Millisecond)
			leases.mu <- struct{}{}
			over := !time.Now().Before(leases.expires)
			<-leases.mu
			if over && works.Load() {
				t.Fatal("a node works after the expiry of its lease")
			}
		}
		if works.Load() {
			t.Error("a node works without a lease")
		}
	})
}
