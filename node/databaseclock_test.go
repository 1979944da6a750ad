package node

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/database"
)

// fakeClock is a clock with errors that the test sets.
type fakeClock struct {
	sync.Mutex
	err     error
	keepErr error
	kept    int
}

func (c *fakeClock) Now() time.Time  { return time.Now() }
func (c *fakeClock) ClockErr() error { return nil }
func (c *fakeClock) DeletionErr() error {
	c.Lock()
	defer c.Unlock()
	return c.err
}

func (c *fakeClock) KeepTime(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.Lock()
	defer c.Unlock()
	c.kept++
	return c.keepErr
}

func (c *fakeClock) set(err error) {
	c.Lock()
	defer c.Unlock()
	c.err = err
}

func (c *fakeClock) refuseToKeep(err error) {
	c.Lock()
	defer c.Unlock()
	c.keepErr = err
}

// TestWatchDatabaseClock checks that each change is logged once: that deletions pause, as a warning
// unless nothing need be wrong, that they continue, by how much the wall clock differs, and that
// the time was not kept. It is kept at the start, every minute, when deletions pause or continue,
// and at the end.
// Invariant 103.
func TestWatchDatabaseClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		clock := &fakeClock{}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			watchDatabaseClock(ctx, clock, func() time.Time { return time.Now().Add(time.Minute) }, slog.New(slog.NewTextHandler(&log, nil)))
		}()
		time.Sleep(10 * clockPoll)
		clock.set(database.ErrClock)
		time.Sleep(10 * clockPoll)
		clock.set(nil)
		time.Sleep(10 * clockPoll)
		clock.set(fmt.Errorf("%w: %w", database.ErrClock, database.ErrLongStop))
		clock.refuseToKeep(database.ErrUnavailable)
		time.Sleep(10*keepEvery - 30*clockPoll + clockPoll/2)
		clock.refuseToKeep(nil)
		stop()
		<-ended
		for text, want := range map[string]int{
			`level=WARN msg="deletions pause"`: 1, `level=INFO msg="deletions pause"`: 1, "deletions continue": 1, "ahead_seconds=60": 1,
			"has not kept the time": 1,
		} {
			if n := strings.Count(log.String(), text); n != want {
				t.Errorf("the log contains %q %d times, want %d:\n%s", text, n, want, log.String())
			}
		}
		if clock.kept != 15 {
			t.Errorf("the time was kept %d times in ten minutes, want 15", clock.kept)
		}
	})
}
