package node

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"sluice/chain"
	"sluice/internal/task"
)

// chainClockInterval is the interval at which the chain's time is compared with our clock.
const chainClockInterval = 5 * time.Second

// chainClock compares the chain's time with the store's clock.
type chainClock struct {
	chain *chain.Client
	wrong atomic.Pointer[error] // chain.ErrClock if the last look that a fullnode answered found it, or nil
}

// ahead is paychan.ChainOptions.Ahead.
func (c *chainClock) ahead() (time.Duration, error) {
	if wrong := c.wrong.Load(); wrong != nil {
		return 0, *wrong
	}
	ahead, _ := c.chain.Ahead()
	return ahead, nil
}

// watch looks at the chain's time until ctx ends.
func (c *chainClock) watch(ctx context.Context, log *slog.Logger) {
	task.Repeat(ctx, 0, chainClockInterval, func() { c.look(ctx, log) })
}

// look asks for the chain's time. While no fullnode answers, the last result counts.
func (c *chainClock) look(ctx context.Context, log *slog.Logger) {
	_, err := c.chain.Head(ctx)
	switch {
	case errors.Is(err, chain.ErrClock):
		if c.wrong.Swap(&err) == nil {
			log.Error("nothing is sold, because the time of the chain and the clock differ too much: is the clock right, and the fullnode?", "error", err)
		}
	case err == nil:
		if c.wrong.Swap(nil) != nil {
			log.Info("the time of the chain agrees with the clock again")
		}
	}
}
