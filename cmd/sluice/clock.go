package main

import (
	"context"
	"log/slog"
	"time"

	"sluice/metastore"
)

const (
	// clockPoll is how often the clocks are looked at.
	clockPoll = 10 * time.Second
	// clockWarn is the difference from the database's clock from which on the wall
	// clock of a node is called wrong.
	clockWarn = time.Second
)

// watchClock says in the log when nothing may be deleted for its age because a clock
// was set, and when it may be again; and how far the wall clock of this node, by
// which its log and its object store's signatures are dated, is from the time by
// which everything else is judged. The look itself is what notices that the wall
// clock of a single node was set. It ends with ctx.
func watchClock(ctx context.Context, clock metastore.Clock, wall func() time.Time, log *slog.Logger) {
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
			log.Info("deletions go on", "time", clock.Now())
		}
		ahead := wall().Sub(clock.Now())
		if ahead.Abs() <= clockWarn {
			ahead = 0
		}
		if (ahead - warned).Abs() > clockWarn {
			warned = ahead
			if ahead != 0 {
				log.Warn("the wall clock of this node is not the time that the service goes by: set it", "ahead", ahead)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
