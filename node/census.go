package node

import (
	"context"
	"sync/atomic"
	"time"

	"sluice/database"
	"sluice/internal/task"
)

const (
	// censusEvery is the least time between two censuses in the background.
	censusEvery = time.Minute
	// censusShare is how much of the time they may take: one part in this number.
	censusShare = 100
	// censusDemand is the same for censuses that an operator waits for.
	censusDemand = 10
)

// census counts sessions, channels, extents and uploads, which costs more the more there are: on
// the leader in the background, for the metrics, and on each node on demand.
type census struct {
	count   func(context.Context) (database.Census, error)
	slot    chan struct{} // of capacity 1; full while a census runs
	last    atomic.Pointer[counted]
	leading atomic.Bool // whether run runs, so that this node has the metrics
}

// counted is a census's result.
type counted struct {
	database.Census
	at   time.Time // when it ended
	took time.Duration
}

func newCensus(count func(context.Context) (database.Census, error)) *census {
	return &census{count: count, slot: make(chan struct{}, 1)}
}

// run counts at intervals until ctx ends; control makes its runs. It takes at most one hundredth of
// the time.
func (c *census) run(ctx context.Context, control *task.Control) {
	c.leading.Store(true)
	defer c.leading.Store(false)
	control.Define(task.Census, func(error) bool { return false }, func(ctx context.Context) (int64, error) {
		result, err := c.newer(ctx, time.Now())
		return result.Inline.Extents + result.Objects.Extents, err
	})
	for pause := time.Duration(0); task.Wait(ctx, pause) == nil; {
		began := time.Now()
		control.Do(ctx, task.Census)
		pause = max(censusEvery, censusShare*time.Since(began))
		control.Plan(time.Now().Add(pause), task.Census)
	}
}

// recent returns a census. The result is at most ten times as old as the census took; if the last
// one is older, it counts again.
func (c *census) recent(ctx context.Context) (database.Census, error) {
	var since time.Time
	if last := c.last.Load(); last != nil {
		since = time.Now().Add(-censusDemand * last.took)
	}
	return c.newer(ctx, since)
}

// newer returns a census's result that is newer than since. One census runs at a time.
func (c *census) newer(ctx context.Context, since time.Time) (database.Census, error) {
	select {
	case c.slot <- struct{}{}:
		defer func() { <-c.slot }()
	case <-ctx.Done():
		return database.Census{}, context.Cause(ctx)
	}
	if last := c.last.Load(); last != nil && last.at.After(since) {
		return last.Census, nil
	}
	began := time.Now()
	result, err := c.count(ctx)
	if err != nil {
		return database.Census{}, err
	}
	c.last.Store(&counted{result, time.Now(), time.Since(began)})
	return result, nil
}

// metrics returns the last census for the metrics, or nil if this node does not lead or has made
// none.
func (c *census) metrics() *counted {
	if !c.leading.Load() {
		return nil
	}
	return c.last.Load()
}
