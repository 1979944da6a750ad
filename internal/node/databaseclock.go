package node

import (
	"context"
	"log/slog"
	"time"

	"sluice/database"
)

const (
	// clockPoll is the interval at which the clocks are compared.
	clockPoll = 10 * time.Second
	// clockWarn is the difference from the database's clock that is logged.
	clockWarn = time.Second
)

// watchDatabaseClock logs when deletions by age pause because a clock was set, and when they
// continue. It also logs when the wall clock of this node, which dates its log and
// the signatures for its object store, differs from the database's clock.
// Reading the clock regularly also detects that a single node's wall clock was
// set. It returns when ctx ends.
func watchDatabaseClock(ctx context.Context, clock database.Clock, wall func() time.Time, log *slog.Logger) {
	tick := time.NewTicker(clockPoll)
	defer tick.Stop()
	var paused bool
	var warned time.Duration
	for {
		switch err := clock.DeletionErr(); {
		case err != nil && !paused:
			paused = true
			log.Warn("deletions pause", "error", err)
		case err == nil && paused:
			paused = false
			log.Info("deletions continue", "time", clock.Now())
		}
		ahead := wall().Sub(clock.Now())
		if ahead.Abs() <= clockWarn {
			ahead = 0
		}
		if (ahead - warned).Abs() > clockWarn {
			warned = ahead
			if ahead != 0 {
				log.Warn("the wall clock of this node differs from the clock of the database: set it", "ahead_seconds", ahead.Round(time.Millisecond).Seconds())
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
