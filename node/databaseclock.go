package node

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"sluice/database"
)

const (
	// clockPoll is the interval at which the clocks are compared.
	clockPoll = 10 * time.Second
	// clockWarn is the difference from the database's clock that is logged.
	clockWarn = time.Second
	// keepEvery is the interval at which the database keeps the time.
	keepEvery = time.Minute
	// keepAtEnd is how long a node that ends waits for that.
	keepAtEnd = 2 * time.Second
)

// timekeeper has the methods that watchDatabaseClock requires from the database.
type timekeeper interface {
	database.Clock
	KeepTime(ctx context.Context) error
}

// watchDatabaseClock logs when deletions by age pause because the time is in doubt, and when they
// continue. It also logs when the wall clock of this node, which dates its log and
// the signatures for its object store, differs from the database's clock.
// Reading the clock regularly also detects that a single node's wall clock was
// set. It lets the database keep the time every minute, and when ctx ends; then it returns.
func watchDatabaseClock(ctx context.Context, clock timekeeper, wall func() time.Time, log *slog.Logger) {
	tick, keep := time.NewTicker(clockPoll), time.NewTicker(keepEvery)
	defer tick.Stop()
	defer keep.Stop()
	w := &clockWatch{clock: clock, wall: wall, log: log}
	w.keep(ctx)
	for {
		w.look(ctx)
		select {
		case <-ctx.Done():
			last, stop := context.WithTimeout(context.WithoutCancel(ctx), keepAtEnd)
			defer stop()
			w.keep(last)
			return
		case <-keep.C:
			w.keep(ctx)
		case <-tick.C:
		}
	}
}

// clockWatch is the state that watchDatabaseClock has logged.
type clockWatch struct {
	clock  timekeeper
	wall   func() time.Time
	log    *slog.Logger
	paused bool
	failed bool          // to keep the time
	warned time.Duration // the wall clock's difference
}

// look logs each change, and keeps the time then: the database knows soon whether the clock was set
// or its time was adopted.
func (w *clockWatch) look(ctx context.Context) {
	switch err := w.clock.DeletionErr(); {
	case err != nil && !w.paused:
		w.paused = true
		level := slog.LevelWarn
		if errors.Is(err, database.ErrLongStop) {
			level = slog.LevelInfo // as after each night in which the machine was off
		}
		w.log.Log(context.Background(), level, "deletions pause", "error", err)
		w.keep(ctx)
	case err == nil && w.paused:
		w.paused = false
		w.log.Info("deletions continue", "time", w.clock.Now())
		w.keep(ctx)
	}
	ahead := w.wall().Sub(w.clock.Now())
	if ahead.Abs() <= clockWarn {
		ahead = 0
	}
	if (ahead - w.warned).Abs() > clockWarn {
		w.warned = ahead
		if ahead != 0 {
			w.log.Warn("the wall clock of this node differs from the clock of the database: set it", "ahead_seconds", ahead.Round(time.Millisecond).Seconds())
		}
	}
}

// keep lets the database keep the time, and logs the first of several failures.
func (w *clockWatch) keep(ctx context.Context) {
	err := w.clock.KeepTime(ctx)
	if err != nil && !w.failed && ctx.Err() == nil {
		w.log.Warn("the database has not kept the time: if this goes on, deletions by age pause for an hour after the next start", "error", err)
	}
	w.failed = err != nil
}
