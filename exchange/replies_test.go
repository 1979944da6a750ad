package exchange

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"sluice/access"
	"sluice/access/keys"
	"sluice/test/testenv"
)

// TestReplyMemoryIsBounded fills the memory for replies: a caller gets its share and not more,
// callers without a key leave a quarter, and waiting replies are admitted in order when memory is
// free again.
// Invariant 75.
func TestReplyMemoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newReplies(80)
		limiter := access.NewLimiter(access.LimiterOptions{Address: keys.Limits{ConcurrentRequests: 10}})
		callers := make([]*access.Allowance, 6)
		for i := range callers {
			callers[i] = limiter.OfAddress(netip.AddrFrom4([4]byte{byte(i)}))
		}
		const piece = CallerReplies / 4
		ask := func(caller int, anonymous bool) (*reply, error) {
			r := &reply{of: s, caller: callers[caller], anonymous: anonymous, size: piece}
			return r, s.acquire(t.Context(), r)
		}
		refused := func(caller int, anonymous bool, want error) {
			t.Helper()
			began := time.Now()
			if _, err := ask(caller, anonymous); !errors.Is(err, want) || time.Since(began) != repliesWait {
				t.Errorf("caller %d: %v after %v, want %v", caller, err, time.Since(began), want)
			}
		}
		var all []*reply
		fill := func(caller int, anonymous bool) {
			t.Helper()
			for range 4 {
				r := testenv.Must(ask(caller, anonymous))(t)
				all = append(all, r)
			}
		}
		for caller := range 3 {
			fill(caller, true)
			refused(caller, true, access.ErrConcurrent)
		}
		refused(3, true, ErrTooBusy)
		fill(4, false)
		refused(5, false, ErrTooBusy)
		if got := s.held(); got != repliesMemory {
			t.Errorf("%d bytes are held, want %d", got, repliesMemory)
		}

		// As many as may wait do, and no more. A caller that has its share holds up no other.
		waiting := make(chan int, 20)
		for i := range s.maxWaiting {
			go func() {
				if r, err := ask(i%2*4, i%2 == 0); err == nil { // of caller 0 without a key, of 4 with one
					waiting <- i % 2
					s.resize(r, 0)
				}
			}()
			synctest.Wait()
		}
		began := time.Now()
		if _, err := ask(5, false); !errors.Is(err, ErrTooBusy) || time.Since(began) != 0 {
			t.Errorf("a reply while as many wait as may: %v after %v", err, time.Since(began))
		}
		s.resize(all[15], 0) // of caller 4
		synctest.Wait()
		if len(waiting) != s.maxWaiting/2 {
			t.Errorf("%d replies of caller 4 were admitted, want %d", len(waiting), s.maxWaiting/2)
		}
		for range len(waiting) {
			if <-waiting != 1 {
				t.Error("a reply of caller 0 was admitted, which has its share")
			}
		}
		time.Sleep(2 * repliesWait) // the last callers are refused
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		gone := &reply{of: s, caller: callers[0], anonymous: true, size: piece}
		testenv.Is(t, s.acquire(ctx, gone), context.Canceled, "a client that has gone")
		for _, r := range all {
			s.resize(r, 0)
		}
		if s.held() != 0 || s.anonymous != 0 || len(s.callers) != 0 || s.waiting.Len() != 0 {
			t.Errorf("after all have ended: %d bytes, %d without a key, %d callers, %d wait", s.held(), s.anonymous, len(s.callers), s.waiting.Len())
		}
		began = time.Now()
		huge := &reply{of: s, caller: callers[0], size: CallerReplies + 1}
		if err := s.acquire(t.Context(), huge); !errors.Is(err, access.ErrConcurrent) || time.Since(began) != 0 {
			t.Errorf("a caller's first reply, which is larger than its share: %v after %v", err, time.Since(began))
		}
		huge = &reply{of: s, caller: callers[0], size: 2 * repliesMemory, unbounded: true}
		if err := s.acquire(t.Context(), huge); err != nil {
			t.Errorf("a reply that is larger than all memory, alone, to a caller without bounds: %v", err)
		}
	})
}
