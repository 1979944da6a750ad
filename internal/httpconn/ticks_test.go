package httpconn

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestTicks checks that concurrent waits have the same channel, that each is closed at most one
// period later, and that the timer does not run while nothing waits.
func TestTicks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const period = time.Second
		shared := &ticks{every: period}
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				time.Sleep(time.Duration(i) * 333 * time.Millisecond)
				next := shared.after()
				if shared.after() != next {
					t.Error("two channels of one tick")
				}
				began := time.Now()
				<-next
				if late := time.Since(began); late > period {
					t.Errorf("a tick after %v", late)
				}
			})
		}
		all.Wait()
		time.Sleep(10 * period)
		began := time.Now()
		if <-shared.after(); time.Since(began) != period {
			t.Errorf("the first tick after a pause is %v later", time.Since(began))
		}
	})
}
