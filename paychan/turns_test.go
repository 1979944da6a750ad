package paychan

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
)

// TestTurns checks that no more turns are taken at once than there are, that a verification of one
// signature waits for at most one turn of each other verification, and that a turn is not taken for
// a caller that has gone.
// Invariant 56.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most, long, signatures = 2, 6, 32
		turns := turns{free: make(chan struct{}, most)}
		var mu sync.Mutex
		var order []string
		working, peak := 0, 0
		step := make(chan struct{})
		verify := func(name string, signatures int) {
			for range signatures {
				err := turns.take(t.Context(), func() error {
					mu.Lock()
					working++
					peak = max(peak, working)
					order = append(order, name)
					mu.Unlock()
					<-step
					mu.Lock()
					working--
					mu.Unlock()
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		}
		var all sync.WaitGroup
		for i := range long {
			all.Go(func() { verify(fmt.Sprint("long", i), signatures) })
		}
		synctest.Wait()
		all.Go(func() { verify("short", 1) })
		synctest.Wait()

		gone, leave := context.WithCancel(t.Context())
		refused := make(chan error)
		go func() {
			refused <- turns.take(gone, func() error { t.Error("a turn of a caller that has gone"); return nil })
		}()
		synctest.Wait()
		leave()
		if err := <-refused; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}

		for range long*signatures + 1 {
			step <- struct{}{}
			synctest.Wait()
		}
		all.Wait()
		if peak != most {
			t.Errorf("%d at once, want %d", peak, most)
		}
		if before, _, _ := strings.Cut(strings.Join(order, " "), "short"); len(strings.Fields(before)) > 2*long {
			t.Errorf("one signature waited for %d signatures of %d payments", len(strings.Fields(before)), long)
		}
		if n := turns.taken.Load(); n != long*signatures+1 {
			t.Errorf("%d turns are counted", n)
		}
	})
}
