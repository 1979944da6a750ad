package exchange

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sluice/bytestore"
)

// TestReadinessIsCachedForASecond: the stores are checked once a second, and concurrent callers
// share the result.
// Invariant 66.
func TestReadinessIsCachedForASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		r := &readiness{log: slog.New(slog.DiscardHandler), stopped: func() bool { return false }, check: func(context.Context) error {
			time.Sleep(time.Second / 2)
			if asked.Add(1) == 2 {
				return bytestore.ErrNoSpace
			}
			return nil
		}}
		begun := time.Now()
		for time.Since(begun) < 10*time.Second {
			var all sync.WaitGroup
			for range 50 {
				all.Go(func() {
					err := r.get(t.Context())
					if want := asked.Load() == 2; errors.Is(err, bytestore.ErrNoSpace) != want {
						t.Errorf("response %d: %v", asked.Load(), err)
					}
				})
			}
			all.Wait()
			time.Sleep(10 * time.Millisecond)
		}
		if got := asked.Load(); got < 9 || got > 10 {
			t.Errorf("%d checks in 10 s, want one a second", got)
		}
	})
}

// TestReadinessOfStoresThatHang: a store that hangs delays no caller for longer than readyTimeout,
// and no caller after its context has ended.
func TestReadinessOfStoresThatHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		letGo := make(chan struct{})
		var asked atomic.Int64
		r := &readiness{log: slog.New(slog.DiscardHandler), stopped: func() bool { return false }, check: func(ctx context.Context) error {
			asked.Add(1)
			<-ctx.Done()
			<-letGo // it ignores its context
			return ctx.Err()
		}}
		gone, leave := context.WithCancel(t.Context())
		left := make(chan error)
		go func() { left <- r.get(gone) }()
		synctest.Wait()
		leave()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("a cancelled caller gets %v", err)
		}
		begun := time.Now()
		for range 3 {
			if err := r.get(t.Context()); err == nil || !strings.Contains(err.Error(), "have not responded") {
				t.Errorf("stores that hang: %v", err)
			}
		}
		if took := time.Since(begun); took != 3*readyTimeout || asked.Load() != 1 {
			t.Errorf("three responses took %v, and %d checks", took, asked.Load())
		}
		close(letGo)
		synctest.Wait()
	})
}
