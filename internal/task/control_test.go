package task

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sluice/test/testenv"
)

var errWaits = errors.New("the work waits")

// controlledTask is a task that takes a second, and counts its runs.
type controlledTask struct {
	*Control
	name                  Name
	reported, begun, ends atomic.Int64
	running               atomic.Int64
	err                   atomic.Pointer[error]
}

func newControlledTask(t *testing.T, name Name) *controlledTask {
	c := &controlledTask{name: name}
	c.Control = NewControl(func(Run) { c.reported.Add(1) })
	c.Define(name, func(err error) bool { return errors.Is(err, errWaits) }, func(ctx context.Context) (int64, error) {
		c.begun.Add(1)
		if c.running.Add(1) > 1 {
			t.Error("two runs of a task at once")
		}
		defer c.running.Add(-1)
		if err := Wait(ctx, time.Second); err != nil {
			return 0, err
		}
		c.ends.Add(1)
		if err := c.err.Load(); err != nil {
			return 0, *err
		}
		return 1, nil
	})
	return c
}

// served returns the start that the task has served, and forgets its changes.
func (c *controlledTask) served() time.Time {
	for _, p := range c.Changes() {
		if p.Task == c.name {
			return p.Served
		}
	}
	return time.Time{}
}

// TestStartIsJoined: a run serves the starts that arrive during it, each start is served by one
// run, and runs of a task do not overlap.
// Invariant 203.
func TestStartIsJoined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, first := newControlledTask(t, Heal), time.Now()
		go c.Do(t.Context(), Heal)
		synctest.Wait()
		c.Start(t.Context(), Heal, first) // a run is in progress
		c.Start(t.Context(), Heal, first)
		go c.Do(t.Context(), Heal) // for damage that the first run may not have seen
		time.Sleep(5 * time.Second)
		testenv.Equal(t, c.begun.Load(), 2, "runs")
		testenv.Equal(t, c.served(), first, "served")
		c.Start(t.Context(), Heal, first) // the leader's list was read before
		c.Wait()
		testenv.Equal(t, c.begun.Load(), 2, "runs after a start that was served")
		second := first.Add(time.Microsecond)
		c.Start(t.Context(), Heal, second)
		c.Start(t.Context(), Heal, second)
		c.Wait()
		testenv.Equal(t, c.reported.Load(), 3, "runs after another start")
		testenv.Equal(t, c.served(), second, "served")
	})
}

// TestStartOutlivesAnInterruptedRun: a run that ended early, or had to wait, serves no start, and a
// run that failed does.
// Invariant 203.
func TestStartOutlivesAnInterruptedRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, wanted := newControlledTask(t, Sweep), time.Now()
		leads, stop := context.WithCancel(t.Context())
		c.Start(leads, Sweep, wanted)
		synctest.Wait()
		stop()
		c.Wait()
		testenv.Equal(t, c.served(), time.Time{}, "served when the leader ended")
		c.err.Store(&errWaits)
		c.Start(t.Context(), Sweep, wanted)
		c.Wait()
		testenv.Equal(t, c.served(), time.Time{}, "served by work that waits")
		testenv.Equal(t, c.reported.Load(), 0, "reported runs")
		failed := errors.New("failed")
		c.err.Store(&failed)
		c.Start(t.Context(), Sweep, wanted)
		c.Wait()
		testenv.Equal(t, c.served(), wanted, "served by a run that failed")
		testenv.Equal(t, c.reported.Load(), 1, "reported runs")
	})
}

// TestPauseEndsTheRun: a pause ends the run in progress, which is not reported, and none begins
// until it ends.
// Invariant 202.
func TestPauseEndsTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newControlledTask(t, Purge)
		go c.Repeat(t.Context(), time.Minute, time.Minute, func() { c.Do(t.Context(), Purge) }, Purge)
		time.Sleep(time.Minute + time.Second/2)
		c.Pause(Purge, true)
		synctest.Wait()
		if c.running.Load() != 0 || c.begun.Load() != 1 {
			t.Errorf("%d of %d runs go on", c.running.Load(), c.begun.Load())
		}
		c.Start(t.Context(), Purge, time.Now())
		time.Sleep(time.Hour + time.Second/4) // not when the task is due
		testenv.Equal(t, c.begun.Load(), 1, "runs during the pause")
		testenv.Equal(t, c.reported.Load(), 0, "reported runs")
		c.Pause(Purge, false)
		paused, resumed := c.Paused(Purge)
		if paused || !resumed.Equal(time.Now()) {
			t.Errorf("after the pause: %t, %s", paused, resumed)
		}
		time.Sleep(time.Minute + 2*time.Second)
		testenv.Equal(t, c.ends.Load(), 1, "runs after the pause")
	})
}

// TestChangesAreFew: a frequent task's progress is published once a minute, a rare one's and a
// served start at once, and nothing of it is lost when publishing fails.
func TestChangesAreFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewControl(func(Run) {})
		changes, lists := map[Name]int{}, 0
		for range 10 * 60 {
			c.Note(Run{Task: Settle})
			list := c.Changes()
			for _, p := range list {
				changes[p.Task]++
			}
			if len(list) > 0 {
				lists++
			}
			time.Sleep(time.Second)
		}
		testenv.Equal(t, changes[Settle], 10, "changes of a frequent task in ten minutes")
		testenv.Equal(t, lists, 10, "lists")

		sweep := newControlledTask(t, Sweep)
		sweep.Plan(time.Now().Add(time.Hour), Sweep)
		if list := sweep.Changes(); len(list) != 1 || !list[0].Next.Equal(time.Now().Add(time.Hour)) {
			t.Errorf("a plan: %+v", list)
		}
		go sweep.Do(t.Context(), Sweep)
		<-sweep.Changed()
		if list := sweep.Changes(); len(list) != 1 || !list[0].Running.Equal(time.Now()) || list[0].Next.IsZero() {
			t.Errorf("while it runs: %+v", list)
		}
		<-sweep.Changed()
		list := sweep.Changes()
		sweep.Unpublished(list)
		if again := sweep.Changes(); len(again) != 1 || again[0].Last == nil || again[0].Last.Count != 1 || !again[0].Running.IsZero() {
			t.Errorf("after a failure: %+v, before %+v", again, list)
		}
		testenv.Equal(t, len(sweep.Changes()), 0, "changes without any")
	})
}
