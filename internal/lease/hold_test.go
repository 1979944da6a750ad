package lease

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sluice/test/testenv"
)

// TestHold checks that Hold waits for a dead node's lease, is refused by a node that runs, and ends
// its context when another process has the lease.
func TestHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases, elapsed := &clockLeases{mu: make(chan struct{}, 1)}, sinceNow()
		node := func(ttl time.Duration) bool {
			got := testenv.Must(leases.Lease(t.Context(), Background, "node", ttl))(t)
			return got
		}
		node(ttl) // and then it died
		held, release, err := hold(t.Context(), elapsed, leases, Background, patience)
		testenv.OK(t, err)
		time.Sleep(10 * ttl)
		if node(ttl) || held.Err() != nil {
			t.Fatal("the lease was not kept")
		}
		_, _, err = hold(t.Context(), elapsed, leases, Background, patience)
		testenv.Is(t, err, ErrInUse, "a second caller")
		if err := release(); err != nil || !node(ttl) {
			t.Errorf("the lease was not released: %v", err)
		}
		node(0)

		held, release, err = hold(t.Context(), elapsed, leases, Background, 0)
		testenv.OK(t, err)
		leases.unavailable.Store(true)
		time.Sleep(ttl)
		testenv.Is(t, context.Cause(held), ErrLost, "with the database unavailable the context goes on")
		leases.unavailable.Store(false)
		testenv.Check(t, release())

		held, release, err = hold(t.Context(), elapsed, leases, Background, 0)
		testenv.OK(t, err)
		leases.mu <- struct{}{}
		leases.holder = "node"
		<-leases.mu
		time.Sleep(ttl)
		testenv.Is(t, context.Cause(held), ErrLost, "with the lease lost the context goes on")
		testenv.Check(t, release())
	})
}

// TestHoldAfterASleep checks the case that the machine slept for longer than the lease, and that
// another node worked and ended during that time. The lease can be acquired again, but the context
// must end nevertheless.
// Invariant 83.
func TestHoldAfterASleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases, awake := &clockLeases{mu: make(chan struct{}, 1)}, sinceNow()
		var slept atomic.Int64
		elapsed := func() time.Duration { return awake() + time.Duration(slept.Load()) }
		held, release, err := hold(t.Context(), elapsed, leases, Background, 0)
		testenv.OK(t, err)
		synctest.Wait()
		slept.Store(int64(ttl))
		time.Sleep(ttl / 2)
		testenv.Is(t, context.Cause(held), ErrLost, "after a sleep the context goes on")
		testenv.Check(t, release())
	})
}

// TestHoldSeesStandbyNodes checks that Hold is refused when the leader has ended and another node
// still runs.
func TestHoldSeesStandbyNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases, elapsed := &clockLeases{mu: make(chan struct{}, 1)}, sinceNow()
		idle := func(ctx context.Context) { <-ctx.Done() }
		leading, end := context.WithCancel(t.Context())
		go lead(leading, elapsed, leases, Background, func(string, error) {}, idle)
		synctest.Wait()
		standing, stop := context.WithCancel(t.Context())
		defer stop()
		go lead(standing, elapsed, leases, Background, func(string, error) {}, idle)
		time.Sleep(ttl)
		end()
		synctest.Wait()
		_, _, err := hold(t.Context(), elapsed, leases, Background, patience)
		testenv.Is(t, err, ErrInUse, "with a node running")
	})
}
