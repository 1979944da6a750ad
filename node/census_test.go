package node

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sluice/database"
	"sluice/internal/metrics"
	"sluice/internal/task"
)

// TestCensus checks that censuses take at most 1% of the time, that the last successful one is
// among the metrics, and none after another node has become the leader.
// Invariant 137.
func TestCensus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fails atomic.Bool
		var calls atomic.Int64
		c := newCensus(func(context.Context) (database.Census, error) {
			n := calls.Add(1)
			time.Sleep(time.Second)
			if fails.Load() {
				return database.Census{}, errors.New("the database is unavailable")
			}
			return database.Census{
				Sessions: database.SessionCensus{Active: n, Exhausted: 2, Expired: 3},
				Channels: database.ChannelCensus{Open: 4, Closed: 5, Expired: 6, Deposited: 70, Accepted: 60, Credit: 5, Settled: 50},
				Inline:   database.ExtentCensus{Extents: 1, Bytes: 10}, Objects: database.ExtentCensus{Extents: 2, Bytes: 20}, Uploads: 8,
			}, nil
		})
		set := metrics.NewSet()
		registerCensus(set, c)
		wantLines(t, set, "before", false, "sluice_uploads_open 8")
		ctx, stop := context.WithCancel(t.Context())
		var runs []task.Run
		done := make(chan struct{})
		go func() {
			defer close(done)
			c.run(ctx, task.NewControl(func(run task.Run) { runs = append(runs, run) }))
		}()
		time.Sleep(2 * time.Second)
		wantLines(t, set, "after the first", true, `sluice_sessions{state="active"} 1`, `sluice_sessions{state="exhausted"} 2`, `sluice_sessions{state="expired"} 3`,
			`sluice_channels{state="open"} 4`, `sluice_channels{state="closed"} 5`, `sluice_channels{state="expired"} 6`,
			`sluice_channel_units{amount="deposited"} 70`, `sluice_channel_units{amount="accepted"} 60`, `sluice_channel_units{amount="settled"} 50`,
			`sluice_channel_units{amount="credit"} 5`, `sluice_extents{kind="inline"} 1`, `sluice_extent_bytes{kind="object"} 20`, "sluice_uploads_open 8")
		fails.Store(true)
		time.Sleep(2 * time.Minute)
		wantLines(t, set, "after a failure", true, `sluice_sessions{state="active"} 1`)
		fails.Store(false)
		time.Sleep(time.Hour)
		if n := calls.Load(); n < 30 || n > 40 {
			t.Errorf("%d censuses of a second in an hour, want one in about 100 s", n)
		}
		stop()
		<-done
		wantLines(t, set, "on a node that does not lead", false, "sluice_uploads_open 8")
		if runs[0].Err != nil || runs[0].Count != 3 || runs[1].Err == nil {
			t.Errorf("the first runs are %+v", runs[:2])
		}
	})
}

// TestCensusOnDemand checks that concurrent callers share a census, that censuses on demand take at
// most 10% of the time, and that neither a failure nor a caller that has gone is in the way of the
// next.
// Invariant 137.
func TestCensusOnDemand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fails error
		var calls int64
		c := newCensus(func(ctx context.Context) (database.Census, error) {
			calls++
			select {
			case <-ctx.Done():
				return database.Census{}, ctx.Err()
			case <-time.After(time.Second):
				return database.Census{Uploads: calls}, fails
			}
		})
		gone, leave := context.WithTimeout(t.Context(), time.Second/2)
		defer leave()
		if _, err := c.recent(gone); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a caller that has gone gets %v", err)
		}
		fails = errors.New("the database is unavailable")
		if _, err := c.recent(t.Context()); !errors.Is(err, fails) {
			t.Errorf("a failed census returns %v", err)
		}
		fails, calls = nil, 0
		recent := func(want int64) {
			if got, err := c.recent(t.Context()); err != nil || got.Uploads != want {
				t.Errorf("census %d, %v; want %d", got.Uploads, err, want)
			}
		}
		var callers sync.WaitGroup
		for range 10 {
			callers.Go(func() { recent(1) })
		}
		callers.Wait()
		time.Sleep(9 * time.Second)
		recent(1)
		time.Sleep(time.Second)
		recent(2)
		if c.metrics() != nil {
			t.Error("a node that does not lead has the metrics of a census")
		}
	})
}
