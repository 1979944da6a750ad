package cli

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/test/testenv"
)

// TestRateIsShared checks that concurrent callers together get the rate, evenly from the first byte
// on, and that little more is allowed after a pause.
func TestRateIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rate, jobs, piece = 1 << 20, 8, 8 << 10
		limit := RateFlag{MaxRate: rate}.Limit()
		// transfer transfers so many bytes in all, and returns how many were allowed in the first
		// second, and how long all took.
		transfer := func(total int64) (first int64, took time.Duration) {
			var mu sync.Mutex
			var running sync.WaitGroup
			began := time.Now()
			for range jobs {
				running.Go(func() {
					for range total / jobs / piece {
						testenv.Check(t, limit(t.Context(), piece))
						mu.Lock()
						if time.Since(began) <= time.Second {
							first += piece
						}
						mu.Unlock()
					}
				})
			}
			running.Wait()
			return first, time.Since(began)
		}
		near := func(what string, got, want, most float64) {
			t.Helper()
			if got < want-most || got > want+most {
				t.Errorf("%s: %v, want %v and at most %v more or less", what, got, want, most)
			}
		}
		burst := rate * burstTime.Seconds()
		first, took := transfer(10 * rate)
		near("bytes in the first second", float64(first), rate, piece)
		near("seconds for ten times the rate", took.Seconds(), 10, 0.01)
		time.Sleep(time.Minute)
		first, took = transfer(10 * rate)
		near("bytes in the first second after a pause", float64(first), rate+burst, 2*piece)
		near("seconds after a pause", took.Seconds(), 10-burstTime.Seconds(), 0.01)

		began := time.Now()
		testenv.OK(t, limit(t.Context(), 64<<20)) // an object of a backup
		near("seconds for an object", time.Since(began).Seconds(), 64, 0.01)
	})
}

// TestLimitEndsWithItsContext checks that nothing waits after an interruption.
func TestLimitEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := RateFlag{MaxRate: 1 << 10}.Limit()
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		began := time.Now()
		testenv.Is(t, limit(ctx, 1<<20), context.Canceled, "a wait that is interrupted")
		testenv.Equal(t, time.Since(began), time.Second, "the time that it took")
		testenv.Equal(t, RateFlag{}.Limit() == nil, true, "without the flag there is no limit")
	})
}
