package reconnect

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sluice/test/testenv"
)

// run makes n callers connect at once, and returns the largest number of attempts at a time.
func run(t *testing.T, g *Gate, n int, connect func() error) (most int64) {
	var at, greatest atomic.Int64
	var callers sync.WaitGroup
	for range n {
		callers.Go(func() {
			attempt, err := g.Enter(t.Context())
			testenv.Check(t, err)
			for now := at.Add(1); ; {
				if old := greatest.Load(); now <= old || greatest.CompareAndSwap(old, now) {
					break
				}
			}
			err = connect()
			at.Add(-1)
			attempt.End(err)
		})
	}
	callers.Wait()
	return greatest.Load()
}

// TestGate checks how many attempts run at once, and the pauses between those that fail.
func TestGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New(4)
		slow := func() error { time.Sleep(time.Second); return nil }
		testenv.Equal(t, run(t, g, 20, slow), 4, "attempts at once to a server that answers")

		g.Lost()
		testenv.Equal(t, run(t, g, 20, func() error { time.Sleep(time.Second); return errors.New("refused") }), 1,
			"attempts at once to a server that does not answer")
		began := time.Now()
		run(t, g, 10, func() error { return errors.New("refused") })
		if took := time.Since(began); took < 10*longestPause/2 || took > 10*longestPause {
			t.Errorf("ten attempts that fail at once take %s", took)
		}
		run(t, g, 1, slow)
		testenv.Equal(t, run(t, g, 20, slow), 4, "attempts at once after one has succeeded")
	})
}

// TestGateIsLeft checks that a caller that leaves while it waits or pauses takes no place, and that
// an attempt that was given up shows nothing about the server.
func TestGateIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New(2)
		g.Lost()
		ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
		defer cancel()
		for range 3 {
			_, err := g.Enter(ctx)
			testenv.Is(t, err, context.DeadlineExceeded, "entering for a nanosecond")
		}
		run(t, g, 1, func() error { return nil })
		run(t, g, 1, func() error { return context.Canceled })
		testenv.Equal(t, run(t, g, 4, func() error { time.Sleep(time.Nanosecond); return nil }), 2, "attempts at once")
	})
}

// TestTimeout checks that a server that is too slow is given more time, until it answers.
func TestTimeout(t *testing.T) {
	g := New(2)
	testenv.Equal(t, g.Timeout(5*time.Second), 5*time.Second, "the first timeout")
	for _, want := range []time.Duration{10 * time.Second, 20 * time.Second, 40 * time.Second, 40 * time.Second} {
		run(t, g, 1, func() error { return context.DeadlineExceeded })
		testenv.Equal(t, g.Timeout(5*time.Second), want, "the timeout after one more late attempt")
	}
	testenv.Equal(t, g.Timeout(time.Minute), time.Minute, "a timeout that is longer by itself")
	run(t, g, 1, func() error { return nil })
	testenv.Equal(t, g.Timeout(5*time.Second), 5*time.Second, "the timeout after a success")
}
