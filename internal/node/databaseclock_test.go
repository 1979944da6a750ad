package node

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/database"
)

// fakeClock is a clock with an error that the test sets.
type fakeClock struct {
	sync.Mutex
	err error
}

func (c *fakeClock) Now() time.Time  { return time.Now() }
func (c *fakeClock) ClockErr() error { return nil }
func (c *fakeClock) DeletionErr() error {
	c.Lock()
	defer c.Unlock()
	return c.err
}

func (c *fakeClock) set(err error) {
	c.Lock()
	defer c.Unlock()
	c.err = err
}

// TestWatchDatabaseClock checks that each change is logged once: that deletions pause, that
// they continue, and by how much the wall clock differs.
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
		stop()
		<-ended
		for _, text := range []string{"deletions pause", "deletions continue", "ahead_seconds=60"} {
			if n := strings.Count(log.String(), text); n != 1 {
				t.Errorf("the log contains %q %d times:\n%s", text, n, log.String())
			}
		}
	})
}
