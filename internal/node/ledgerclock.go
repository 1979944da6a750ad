package node

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"sluice/chain"
)

// ledgerInterval is the interval at which the time of the ledger is compared with the clock.
const ledgerInterval = 5 * time.Second

// ledgerClock compares the time of the chain's ledger with the clock of the store.
type ledgerClock struct {
	chain *chain.Client
	wrong atomic.Pointer[error] // chain.ErrClock of the last look that a fullnode answered, or nil
}

// ahead is paychan.ChainOptions.Ahead.
func (c *ledgerClock) ahead() (time.Duration, error) {
	if wrong := c.wrong.Load(); wrong != nil {
		return 0, *wrong
	}
	ahead, _ := c.chain.Ahead()
	return ahead, nil
}

// watch looks at the time of the ledger until ctx ends.
func (c *ledgerClock) watch(ctx context.Context, log *slog.Logger) {
	tick := time.NewTicker(ledgerInterval)
	defer tick.Stop()
	for {
		c.look(ctx, log)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// look asks for the time of the ledger. While no fullnode answers, the last result counts.
func (c *ledgerClock) look(ctx context.Context, log *slog.Logger) {
	_, err := c.chain.Ledger(ctx)
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
