package lease

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// clockLeases is a lease judged by the synctest bubble's clock, in a database that can be
// unavailable.
type clockLeases struct {
	mu          chan struct{}
	holder      string
	expires     time.Time
	unavailable atomic.Bool
	slow        atomic.Int64 // how long a call takes, even if its context ends
	late        atomic.Int64 // delay of its response
}

func (l *clockLeases) Lease(_ context.Context, _, holder string, ttl time.Duration) (bool, error) {
	if l.unavailable.Load() {
		return false, errors.New("the database is unavailable")
	}
	time.Sleep(time.Duration(l.slow.Load()))
	defer func() { time.Sleep(time.Duration(l.late.Load())) }()
	l.mu <- struct{}{}
	defer func() { <-l.mu }()
	if l.holder != holder && time.Now().Before(l.expires) {
		return false, nil
	}
	l.holder, l.expires = holder, time.Now().Add(ttl)
	return ttl > 0, nil
}

// worker is set while it works.
type worker struct{ atomic.Bool }

func (w *worker) work(ctx context.Context) {
	w.Store(true)
	<-ctx.Done()
	w.Store(false)
}

// sinceNow returns a clock that counts the bubble's time.
func sinceNow() func() time.Duration {
	start := time.Now()
	return func() time.Duration { return time.Since(start) }
}
