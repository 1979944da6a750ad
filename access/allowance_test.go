package access_test

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/access"
	"sluice/access/keys"
	"sluice/test/testenv"
)

// allowance returns an Allowance with these limits.
func allowance(limits keys.Limits) *access.Allowance {
	return access.NewLimiter(access.LimiterOptions{Address: limits}).OfAddress(netip.IPv6Loopback())
}

func enter(t testing.TB, a *access.Allowance) (leave func()) {
	t.Helper()
	leave = testenv.Must(a.Enter(context.Background()))(t)
	return leave
}

// The number of slots is bounded, and each can be used again.
func TestHeldRequests(t *testing.T) {
	a := allowance(keys.Limits{ConcurrentRequests: 2})
	for range 2 {
		var all []func()
		for {
			release, ok := a.Hold()
			if !ok {
				break
			}
			all = append(all, release)
			if len(all) > 100 {
				t.Fatal("the number of slots is not bounded")
			}
		}
		testenv.Equal(t, len(all), 2*2+16, "slots, twice the concurrent requests and 16 more")
		for _, release := range all {
			release()
		}
	}
	free := allowance(keys.Limits{})
	for range 1000 {
		if _, ok := free.Hold(); !ok {
			t.Fatal("without a limit a request is refused")
		}
	}
}

// TestRequestRate checks that the requests of one second enter immediately and then one every 100
// ms, and that requests that would wait for more than 2 s are refused immediately with the time to
// wait.
func TestRequestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := allowance(keys.Limits{RequestsPerSecond: 10})
		if left, full := a.Requests(); left != 10 || full != 0 {
			t.Errorf("at first %d are left, whole after %v", left, full)
		}
		start := time.Now()
		for range 10 {
			enter(t, a)()
		}
		testenv.Equal(t, since(start), 0, "the seconds that a second's requests took")
		if left, full := a.Requests(); left != 0 || full != time.Second {
			t.Errorf("later %d are left, whole after %v", left, full)
		}
		var wg sync.WaitGroup
		for i := range 20 { // as many as fit into 2 s
			wg.Go(func() {
				enter(t, a)()
				if at := since(start); !within(at, 0.1*float64(1+i), 0.001) {
					t.Errorf("number %d entered after %v s", i, at)
				}
			})
			synctest.Wait()
		}
		for range 5 { // a refusal uses no tokens, so all report the same
			_, err := a.Enter(t.Context())
			var told *access.RateError
			if !errors.Is(err, access.ErrRate) || !errors.As(err, &told) || told.RetryAfter != 2100*time.Millisecond {
				t.Errorf("more than fits: %v", err)
			}
		}
		if left, full := a.Requests(); left != 0 || full != 3*time.Second || since(start) != 0 {
			t.Errorf("%d are left, whole after %v, at %v s", left, full, since(start))
		}
		wg.Wait()
		time.Sleep(100 * time.Millisecond)
		enter(t, a)()
		if took := since(start); !within(took, 2.1, 0.001) {
			t.Errorf("a request at the reported time enters after %v s", took)
		}
	})
}

// TestRequestsThatWaitHoldTheirSlot checks that waiting requests hold their slot, and release it
// when they are cancelled or refused.
func TestRequestsThatWaitHoldTheirSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := allowance(keys.Limits{RequestsPerSecond: 1, ConcurrentRequests: 2})
		enter(t, a)()
		ctx, cancel := context.WithCancel(t.Context())
		waited := make(chan error)
		for range 2 {
			go func() { _, err := a.Enter(ctx); waited <- err }()
		}
		synctest.Wait()
		testenv.Is(t, testenv.Error(a.Enter(t.Context())), access.ErrConcurrent, "besides two that wait")
		cancel()
		for range 2 {
			testenv.Is(t, <-waited, context.Canceled, "cancelled")
		}
		time.Sleep(time.Minute)
		leaves := []func(){enter(t, a), enter(t, a)} // the second of them waits
		for _, leave := range leaves {
			leave()
		}
		for range 3 {
			go func() {
				if leave, err := a.Enter(t.Context()); err == nil {
					leave()
				}
			}()
			synctest.Wait()
		}
		for range 5 { // refused for the rate or the slots, or cancelled
			if _, err := a.Enter(t.Context()); err == nil {
				t.Error("let in")
			}
		}
		time.Sleep(time.Minute)
		enter(t, a)()
	})
}

// TestCancelledRequest checks that a request that is cancelled while it waits leaves its tokens to
// the next.
func TestCancelledRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := allowance(keys.Limits{RequestsPerSecond: 1})
		enter(t, a)()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		testenv.Is(t, testenv.Error(a.Enter(ctx)), context.DeadlineExceeded, "out of time")
		start := time.Now()
		enter(t, a)()
		if took := since(start); !within(took, 0.5, 0.001) {
			t.Errorf("the next entered after %v s, want 0.5", took)
		}
	})
}
