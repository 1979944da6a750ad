package load

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// service is a Worker for a service that takes a millisecond for an operation. From stallAt on it
// stalls for stallFor: all operations that are in progress or begin meanwhile end with the stall.
type service struct {
	start             time.Time
	stallAt, stallFor time.Duration
	fail              func(n int64) error
	served            atomic.Int64
}

const serviceTime = time.Millisecond

func (s *service) Do(ctx context.Context, n int64) (int64, error) {
	s.served.Add(1)
	wait := serviceTime
	now := time.Since(s.start)
	if end := s.stallAt + s.stallFor; s.stallFor > 0 && now+wait > s.stallAt && now < end {
		wait = end - now
	}
	select {
	case <-time.After(wait):
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	if s.fail != nil {
		return 10, s.fail(n)
	}
	return 10, nil
}

// repeat returns n times the same worker.
func repeat(w Worker, n int) (all []Worker) {
	for range n {
		all = append(all, w)
	}
	return all
}

func onlyGets(int64) Kind { return Get }

func TestClosedLoop(t *testing.T) {
	for _, test := range []struct {
		plan    Plan
		want    int64
		elapsed time.Duration
	}{
		{Plan{Count: 10}, 10, 3 * serviceTime}, // 4 connections: 4 + 4 + 2
		{Plan{Duration: 10 * time.Millisecond}, 40, 10 * time.Millisecond},
		{Plan{Duration: 10 * time.Millisecond, Count: 8}, 8, 2 * serviceTime},
		{Plan{Duration: 2 * time.Millisecond, Count: 100}, 8, 2 * serviceTime},
	} {
		synctest.Test(t, func(t *testing.T) {
			var r Recorder
			s := &service{start: time.Now()}
			elapsed := test.plan.Run(t.Context(), repeat(s, 4), onlyGets, &r)
			total := r.Total()
			if total.Done != test.want || s.served.Load() != test.want || total.Bytes != 10*test.want || elapsed != test.elapsed || total.Failed() != 0 {
				t.Errorf("%+v: %d operations of %d bytes in %s, want %d in %s", test.plan, total.Done, total.Bytes, elapsed, test.want, test.elapsed)
			}
			if total.Min() < serviceTime*99/100 || total.Max() > serviceTime*101/100 {
				t.Errorf("latencies from %s to %s, want %s", total.Min(), total.Max(), serviceTime)
			}
		})
	}
}

func openPlan() Plan { return Plan{Rate: 1000, Duration: time.Second, sleep: time.Sleep} }

func TestOpenLoopKeepsTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r Recorder
		plan := openPlan()
		plan.Run(t.Context(), repeat(&service{start: time.Now()}, 4), onlyGets, &r)
		total := r.Total()
		if total.Done != 1000 || total.Unsent != 0 || total.Max() > serviceTime*101/100 {
			t.Errorf("%d operations, %d unsent, at most %s", total.Done, total.Unsent, total.Max())
		}
	})
}

// TestStallIsInThePercentiles checks that a stall of 300 ms delays the 300 operations that were due
// meanwhile, and not only one for each connection, as it is in a closed loop.
func TestStallIsInThePercentiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stalled := func() []Worker {
			return repeat(&service{start: time.Now(), stallAt: 200 * time.Millisecond, stallFor: 300 * time.Millisecond}, 4)
		}
		var open, closed Recorder
		plan := openPlan()
		plan.Run(t.Context(), stalled(), onlyGets, &open)
		// Of 1,000 operations, 300 were due in the stall, evenly: a tenth of all waited for more
		// than 200 ms, and the backlog of 300 was done by 4 connections in 100 ms.
		if total := open.Total(); total.Done != 1000 || total.Quantile(0.9) < 190*time.Millisecond || total.Quantile(0.5) > 10*time.Millisecond {
			t.Errorf("open loop: %d operations, p50 %s, p90 %s", total.Done, total.Quantile(0.5), total.Quantile(0.9))
		}
		unhurried := Plan{Duration: time.Second}
		unhurried.Run(t.Context(), stalled(), onlyGets, &closed)
		if total := closed.Total(); total.Quantile(0.99) > 2*serviceTime || total.Max() < 290*time.Millisecond {
			t.Errorf("closed loop: p99 %s, max %s: the test shows nothing", total.Quantile(0.99), total.Max())
		}
	})
}

// TestStallToTheEnd checks that operations that were due and not sent before the end count with the
// time that they waited.
func TestStallToTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r Recorder
		plan := openPlan()
		plan.Run(t.Context(), repeat(&service{start: time.Now(), stallAt: 500 * time.Millisecond, stallFor: time.Minute}, 4), onlyGets, &r)
		total := r.Total()
		if total.Done+total.Unsent != 1000 || total.Unsent < 490 || total.Unsent > 500 {
			t.Errorf("%d done and %d unsent, want 1000 in all, of which about 495 were not sent", total.Done, total.Unsent)
		}
		if p75 := total.Quantile(0.75); p75 < 240*time.Millisecond || p75 > 260*time.Millisecond {
			t.Errorf("p75 is %s, want about 250ms", p75)
		}
		if total.Max() < 59*time.Second {
			t.Errorf("the operations in progress took at most %s, want a minute", total.Max())
		}
	})
}

func TestRunEndsWithItsContext(t *testing.T) {
	for _, plan := range []Plan{{Duration: time.Hour}, {Rate: 100, Duration: time.Hour, sleep: time.Sleep}, {Rate: 0.001, sleep: time.Sleep}} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond+serviceTime/2)
			defer cancel()
			var r Recorder
			elapsed := plan.Run(ctx, repeat(&service{start: time.Now()}, 2), onlyGets, &r)
			if total := r.Total(); total.Failed() != 0 || total.Unsent != 0 || total.Done == 0 || elapsed > 110*time.Millisecond {
				t.Errorf("%+v: %d failed, %d unsent of %d in %s", plan, total.Failed(), total.Unsent, total.Done, elapsed)
			}
		})
	}
}

func TestErrorsAreCountedByCode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r Recorder
		fail := func(n int64) error {
			if n%4 == 0 {
				return errMalformed
			}
			if n%4 == 1 {
				return errors.New("other")
			}
			return nil
		}
		plan := Plan{Count: 100}
		plan.Run(t.Context(), repeat(&service{start: time.Now(), fail: fail}, 1), func(n int64) Kind { return Kind(n % 2) }, &r)
		all := r.Summaries()
		if len(all) != 2 || all[Put].Errors[codeMalformed] != 25 || all[Get].Errors[codeNetwork] != 25 || all[Put].Failed() != 25 || all[Get].Done != 50 || !errors.Is(all[Put].First, errMalformed) {
			t.Errorf("%+v, %+v", all[Put], all[Get])
		}
		if total := r.Total(); total.Failed() != 50 || total.Done != 100 || r.Done() != 100 || total.Quantile(1) < serviceTime*99/100 {
			t.Errorf("%+v", total)
		}
	})
}
