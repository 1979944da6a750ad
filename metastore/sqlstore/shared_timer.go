package sqlstore

import (
	"context"
	"fmt"
	"time"

	"sluice/internal/tick"
	"sluice/metastore"
)

// timerTick is how often the callers that wait look at the time.
const timerTick = 100 * time.Millisecond

// sharedTimer is one timer for many callers that wait until different times. Nearly all of them get a
// result long before their time. Its methods may be called concurrently.
type sharedTimer struct{ ticks *tick.Shared }

func newSharedTimer() sharedTimer { return sharedTimer{tick.Every(timerTick)} }

// wait waits for done and returns nil. It returns the error of ctx if that ends before, and
// errQueued at until or at most one tick later.
func (p sharedTimer) wait(ctx context.Context, done <-chan struct{}, until time.Time) error {
	for {
		select {
		case <-done:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-p.ticks.Next():
			if !time.Now().Before(until) {
				return errQueued
			}
		}
	}
}

// errQueued is the error of a call that waited too long for other calls or processes.
var errQueued = fmt.Errorf("sqlstore: %w: other transactions are running", metastore.ErrBusy)
