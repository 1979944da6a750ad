package node

import (
	"context"
	"sync/atomic"
	"time"

	"sluice/internal/task"
	"sluice/metastore"
)

const (
	// censusEvery is the least time between two censuses.
	censusEvery = time.Minute
	// censusShare is the part of the time that censuses may take: one in this number.
	censusShare = 100
)

// census counts what is stored, on the leader, in the background: the counts cost too much for a
// collection of metrics.
type census struct {
	count func(context.Context) (metastore.Census, error)
	last  atomic.Pointer[counted] // nil: none was made, or another node leads
}

// counted is the result of a census.
type counted struct {
	metastore.Census
	at time.Time // when it ended
}

// run counts at intervals until ctx ends, and reports each run. It takes at most a hundredth of the
// time.
func (c *census) run(ctx context.Context, report task.Report) {
	defer c.last.Store(nil)
	for {
		began := time.Now()
		task.Do(task.Census, report, func() (int64, error) {
			result, err := c.count(ctx)
			if err != nil {
				return 0, err
			}
			c.last.Store(&counted{result, time.Now()})
			return result.Inline.Extents + result.Objects.Extents, nil
		}, func(error) bool { return ctx.Err() != nil })
		select {
		case <-ctx.Done():
			return
		case <-time.After(max(censusEvery, censusShare*time.Since(began))):
		}
	}
}
