package load

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// Worker sends operations over one connection.
type Worker interface {
	// Do sends operation n, counted from 0. It returns the number of bytes of contents that were
	// transferred, and an error if the operation failed. It ends early if ctx is cancelled.
	Do(ctx context.Context, n int64) (bytes int64, err error)
}

// Plan sets how many operations are sent, and when. It ends after Count operations or after
// Duration, whichever is first; 0 is no limit. No operation begins after the end, and those in
// progress are completed.
type Plan struct {
	Duration time.Duration
	Count    int64

	// Rate is the number of operations that are due each second, in an open loop: operation n is
	// due n/Rate seconds after the start, whether or not earlier ones have ended, and its latency
	// counts from then. Thus a server that stalls delays all operations that were due meanwhile,
	// and not only one for each connection. 0 is a closed loop: each connection sends an operation
	// when its last one has ended.
	Rate float64

	// sleep replaces the system's precise sleep in tests.
	sleep func(time.Duration)
}

// endTime is how long operations may take to end after a signal.
const endTime = 2 * time.Second

// Run sends operations by all workers concurrently and records them. kindOf returns operation n's
// kind. Run returns the time from the start until the last operation ends. If ctx is cancelled, the
// operations in progress have endTime to end, so that their blobs can be removed afterwards;
// operations that take longer are not recorded.
func (p *Plan) Run(ctx context.Context, workers []Worker, kindOf func(n int64) Kind, r *Recorder) time.Duration {
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(endTime, stop) })()
	start := time.Now()
	if p.Rate > 0 {
		p.runOpen(ctx, working, start, workers, kindOf, r)
	} else {
		p.runClosed(ctx, working, start, workers, kindOf, r)
	}
	return time.Since(start)
}

func (p *Plan) runClosed(ctx, working context.Context, start time.Time, workers []Worker, kindOf func(n int64) Kind, r *Recorder) {
	var next atomic.Int64
	var group sync.WaitGroup
	for _, w := range workers {
		group.Go(func() {
			for began := start; ctx.Err() == nil && (p.Duration == 0 || began.Sub(start) < p.Duration); {
				n := next.Add(1) - 1
				if p.Count > 0 && n >= p.Count {
					return
				}
				began = perform(working, w, n, kindOf(n), began, r)
			}
		})
	}
	group.Wait()
}

// perform sends an operation, and records it with the latency since it was due. It returns the time
// of its end.
func perform(ctx context.Context, w Worker, n int64, k Kind, due time.Time, r *Recorder) time.Time {
	bytes, err := w.Do(ctx, n)
	end := time.Now()
	if err == nil || ctx.Err() == nil {
		r.record(k, end.Sub(due), bytes, err)
	}
	return end
}

// ticket is an operation that is due.
type ticket struct {
	n   int64
	due time.Time
}

// runOpen issues a ticket for each operation when it is due. While all workers are busy, the next
// ticket waits, and those after it are issued late, with the times at which they were due.
func (p *Plan) runOpen(ctx, working context.Context, start time.Time, workers []Worker, kindOf func(n int64) Kind, r *Recorder) {
	tickets := make(chan ticket)
	var group sync.WaitGroup
	for _, w := range workers {
		group.Go(func() {
			for t := range tickets {
				perform(working, w, t.n, kindOf(t.n), t.due, r)
			}
		})
	}
	issued := p.issue(ctx, start, tickets)
	end := time.Now()
	close(tickets)
	if ctx.Err() == nil {
		for n := issued; n < p.due(); n++ {
			r.recordUnsent(kindOf(n), end.Sub(start.Add(p.offset(n))))
		}
	}
	group.Wait()
}

// issue issues tickets until the plan ends, and returns their number.
func (p *Plan) issue(ctx context.Context, start time.Time, tickets chan<- ticket) (issued int64) {
	var end <-chan time.Time // never, without a duration
	if p.Duration > 0 {
		timer := time.NewTimer(time.Until(start.Add(p.Duration)))
		defer timer.Stop()
		end = timer.C
	}
	for n := range p.due() {
		at := start.Add(p.offset(n))
		if !p.wait(ctx, time.Until(at)) {
			return n
		}
		select {
		case tickets <- ticket{n, at}:
		case <-end:
			return n
		case <-ctx.Done():
			return n
		}
	}
	return p.due()
}

// due returns the number of operations that are due before the end.
func (p *Plan) due() int64 {
	n := int64(math.MaxInt64)
	if p.Duration > 0 {
		n = int64(math.Ceil(p.Rate * p.Duration.Seconds()))
	}
	if p.Count > 0 {
		n = min(n, p.Count)
	}
	return n
}

// offset returns the time from the start at which operation n is due.
func (p *Plan) offset(n int64) time.Duration {
	return time.Duration(float64(n) / p.Rate * float64(time.Second))
}

// coarse is how late the runtime's timers may be.
const coarse = 2 * time.Millisecond

// wait waits for d, by a timer while it is long and precisely in the end. It reports whether the
// context was not cancelled.
func (p *Plan) wait(ctx context.Context, d time.Duration) bool {
	if d > coarse {
		begin := time.Now()
		timer := time.NewTimer(d - coarse)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return false
		}
		d -= time.Since(begin)
	}
	if d > 0 {
		sleep := p.sleep
		if sleep == nil {
			sleep = preciseSleep
		}
		sleep(d)
	}
	return ctx.Err() == nil
}
