package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"sluice/metastore"
)

// How the clocks of several nodes are kept together.
const (
	clockPoll  = 10 * time.Second
	clockWarn  = time.Second
	clockLimit = 5 * time.Second
)

// clock compares the clock of this node, by which it judges expiries, with that
// of the metadata's engine, which all nodes share.
type clock struct {
	leases   metastore.Leases
	offset   atomic.Int64 // as it was measured last, in nanoseconds
	measured atomic.Bool
}

func newClock(leases metastore.Leases) *clock { return &clock{leases: leases} }

// watch measures until ctx ends.
func (c *clock) watch(ctx context.Context, log *slog.Logger) {
	tick := time.NewTicker(clockPoll)
	defer tick.Stop()
	for {
		if offset, err := c.leases.ClockOffset(ctx); err == nil { // else /readyz tells that the engine is away
			c.offset.Store(int64(offset))
			c.measured.Store(true)
			if offset.Abs() > clockWarn {
				log.Warn("the clock of this node differs from the database's: set it", "ahead", offset)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// err tells that the clocks are too far apart to serve, and to delete by what
// they say; or that nobody has compared them yet.
func (c *clock) err() error {
	if !c.measured.Load() {
		return errors.New("the clock of this node was not compared with the database's yet")
	}
	if offset := time.Duration(c.offset.Load()); offset.Abs() > clockLimit {
		return fmt.Errorf("the clock of this node is ahead of the database's by %s, at most %s is good", offset, clockLimit)
	}
	return nil
}
