package dbtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/database/whole"
	"sluice/internal/testclock"
)

// Measure runs a benchmark with a separate harness for each number of callers. In addition to the
// time of one call, it reports the calls per second of all callers. setUp prepares the store and
// returns the call.
func Measure(b *testing.B, newHarness func(testing.TB) *Harness, name string, callers []int, setUp func(*Bench) func(i int) error) {
	for _, n := range callers {
		full := name
		if len(callers) > 1 {
			full = fmt.Sprintf("%s/callers=%d", name, n)
		}
		b.Run(full, func(b *testing.B) { measure(b, newHarness(b), n, setUp) })
	}
}

// Bench is a running benchmark.
type Bench struct {
	*testing.B
	Ctx   context.Context
	Clock *testclock.Clock
	Store whole.Database
	spent time.Duration // within what timed measures
}

func measure(b *testing.B, h *Harness, callers int, setUp func(*Bench) func(i int) error) {
	s, err := h.Open()
	if err != nil {
		b.Fatal(err)
	}
	call := setUp(&Bench{B: b, Ctx: b.Context(), Clock: h.Clock, Store: s})
	b.ReportAllocs()
	b.ResetTimer()
	if err := each(b.N, callers, call); err != nil {
		b.Fatal(err)
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
	if err := h.Close(); err != nil {
		b.Fatal(err)
	}
}

// each calls fn with 0 to n-1 from several goroutines.
func each(n, callers int, fn func(i int) error) error {
	var next atomic.Int64
	errs := make([]error, callers)
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for errs[c] == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				errs[c] = fn(i)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Fill performs the preparation.
func (b *Bench) Fill(n int, fn func(i int) error) {
	b.Helper()
	if err := each(n, 64, fn); err != nil {
		b.Fatal(err)
	}
}

// Timed measures one part of what a benchmark calls, and reports it under a name. The preparation
// takes much longer and counts in the benchmark's own time, so the number of rounds stays small.
func (b *Bench) Timed(metric string, fn func() error) error {
	start := time.Now()
	err := fn()
	b.spent += time.Since(start)
	b.ReportMetric(float64(b.spent.Microseconds())/float64(b.N), metric)
	return err
}
