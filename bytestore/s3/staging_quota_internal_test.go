package s3

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sluice/bytestore"
	"sluice/test/testenv"
)

// sender sends a body a unit at a time.
type sender struct {
	caller    string
	begins    time.Duration
	size      int64
	every     time.Duration // interval between units
	stallsAt  int64         // units, after which it stalls for an hour; 0 if it does not
	takes     time.Duration // time to be sent to the store
	unknown   bool
	gaveUp    atomic.Bool // free was called
	completed time.Duration
}

func (s *sender) run(ctx context.Context, r *stagingQuota) error {
	size := s.size
	if s.unknown {
		size = bytestore.UnknownSize
	}
	time.Sleep(s.begins)
	c := r.admit(bytestore.WithCaller(ctx, s.caller), size, func() { s.gaveUp.Store(true) })
	defer r.release(c)
	for n := int64(1); n <= s.size; n++ {
		if n-1 == s.stallsAt && n > 1 {
			time.Sleep(time.Hour)
		}
		time.Sleep(s.every)
		r.progress(c)
		if err := r.grow(ctx, c, n); err != nil {
			return err
		}
	}
	if err := r.complete(c); err != nil {
		return err
	}
	time.Sleep(s.takes)
	s.completed = r.now()
	return nil
}

// all runs senders concurrently and returns the error of each.
func all(t *testing.T, r *stagingQuota, senders []*sender) []error {
	errs := make([]error, len(senders))
	var running sync.WaitGroup
	for i, s := range senders {
		running.Go(func() { errs[i] = s.run(t.Context(), r) })
	}
	running.Wait()
	if r.used != 0 || len(r.bodies) != 0 {
		t.Errorf("%d bytes of %d bodies are left", r.used, len(r.bodies))
	}
	return errs
}

// TestWaitingBodiesAllComplete receives many times more than fits. The bodies wait for each other,
// and none fails.
// Invariant 63.
func TestWaitingBodiesAllComplete(t *testing.T) {
	for _, unknown := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := newStagingQuota(64, 5*time.Second, time.Hour)
			var senders []*sender
			for i := range 100 {
				senders = append(senders, &sender{
					caller: fmt.Sprint(i % 3), size: int64(i%16) + 1, every: time.Duration(i%7) * 10 * time.Millisecond,
					takes: time.Duration(i%5) * 100 * time.Millisecond, unknown: unknown,
				})
			}
			for i, err := range all(t, r, senders) {
				if err != nil || senders[i].gaveUp.Load() {
					t.Errorf("body %d: %v, evicted %t", i, err, senders[i].gaveUp.Load())
				}
			}
		})
	}
}

// TestOnlyNecessaryReservationsAreEvicted checks that stalled bodies keep their reservations until
// other bodies need them, and that only as many are evicted as necessary.
// Invariant 63.
func TestOnlyNecessaryReservationsAreEvicted(t *testing.T) {
	for need, want := range map[int64]int{4: 0, 5: 1, 16: 1, 19: 1, 20: 2, 64: 4} {
		synctest.Test(t, func(t *testing.T) {
			r := newStagingQuota(64, 5*time.Second, time.Minute)
			var senders []*sender
			for range 4 {
				senders = append(senders, &sender{caller: "stalls", size: 16, stallsAt: 15})
			}
			late := &sender{caller: "late", begins: time.Second, size: need}
			senders = append(senders, late)
			lost := 0
			for i, err := range all(t, r, senders) {
				if (err != nil) != senders[i].gaveUp.Load() || err != nil && !errors.Is(err, bytestore.ErrOverloaded) {
					t.Errorf("body %d: %v, evicted %t", i, err, senders[i].gaveUp.Load())
				}
				if err != nil {
					lost++
				}
			}
			// The late body waited only until the other bodies counted as stalled.
			if lost != want || late.completed > 10*time.Second {
				t.Errorf("for a body of %d, %d were evicted, want %d; it took %v", need, lost, want, late.completed)
			}
		})
	}
}

// TestSharesOfCallers checks that a caller with slow bodies that use the whole quota loses as much
// as another caller within its share needs, and not more.
// Invariant 63.
func TestSharesOfCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newStagingQuota(64, 5*time.Second, time.Hour)
		var senders []*sender
		for range 10 { // each a unit every 4 s once the quota is used up
			senders = append(senders, &sender{caller: "greedy", size: 16, every: 4 * time.Second})
		}
		errs := make(chan []error)
		go func() { errs <- all(t, r, senders) }()
		time.Sleep(26 * time.Second) // most quota is used
		small := &sender{caller: "small", size: 16}
		if err := small.run(t.Context(), r); err != nil || small.completed > time.Minute {
			t.Errorf("the one body of a caller: %v, after %v", err, small.completed)
		}
		completed := 0
		for _, err := range <-errs {
			if err == nil {
				completed++
			}
		}
		if completed < 5 || completed == len(senders) {
			t.Errorf("%d of %d bodies of the greedy caller were completed", completed, len(senders))
		}
		// Without competition a caller can use the whole quota.
		for i, err := range all(t, r, []*sender{{caller: "greedy", size: 64}, {caller: "greedy", size: 64}}) {
			testenv.Is(t, err, nil, "body %d of a caller alone", i)
		}
	})
}

// TestWaitForSpaceEnds checks that waiting ends after the limit, and with the context.
func TestWaitForSpaceEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newStagingQuota(16, 5*time.Second, 30*time.Second)
		sent := make(chan error)
		go func() { sent <- (&sender{size: 16, takes: time.Hour}).run(t.Context(), r) }()
		synctest.Wait()
		begun := time.Now()
		testenv.Is(t, (&sender{size: 1}).run(t.Context(), r), bytestore.ErrOverloaded, "a body for which no space became free")
		if took := time.Since(begun); took < 30*time.Second || took > 40*time.Second {
			t.Errorf("it waited %v", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		testenv.Is(t, (&sender{size: 1}).run(ctx, r), context.DeadlineExceeded, "a body whose context ended")
		testenv.Is(t, <-sent, nil, "the body that was being sent")
	})
}
