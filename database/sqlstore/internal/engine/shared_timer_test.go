package engine

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/database"
	"sluice/test/testenv"
)

// TestSharedTimer: each of many callers returns at its own time, or when it gets its result.
func TestSharedTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewSharedTimer()
		began := time.Now()
		var all sync.WaitGroup
		for i := range 20 {
			limit := time.Duration(i) * 70 * time.Millisecond
			all.Go(func() {
				err := p.Wait(t.Context(), make(chan struct{}), began.Add(limit))
				late := time.Since(began) - limit
				if !errors.Is(err, database.ErrBusy) || late < 0 || late > timerTick {
					t.Errorf("a caller with a patience of %v returned %v later: %v", limit, late, err)
				}
			})
		}
		all.Wait()

		done := make(chan struct{})
		time.AfterFunc(time.Hour, func() { close(done) })
		if err := p.Wait(t.Context(), done, began.Add(2*time.Hour)); err != nil || time.Since(began) > 2*time.Hour {
			t.Errorf("a caller with a result: %v after %v", err, time.Since(began))
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		testenv.Is(t, p.Wait(ctx, make(chan struct{}), time.Now().Add(time.Hour)), context.Canceled, "an abandoned call")
	})
}
