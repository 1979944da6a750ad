// Package collect collects accepted micropayments on the chain.
//
// A Collector runs on the node that leads. It submits settlements when they are due, so that gas is
// spent once for many payments, and follows each submission to its outcome. Each step is durable in
// the store before it is done on the chain, so that a crash or another leader continues where it
// stopped: nothing is collected twice, because a transaction has one hash and a channel one
// submission in flight, and nothing is forgotten, because amounts are cumulative.
package collect

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"sluice/chain"
	"sluice/database"
	"sluice/ledger"
	"sluice/micropay"
)

const (
	// DefaultParallel is the number of submissions that are sent concurrently by default.
	DefaultParallel = 256
	// DefaultMaxFee is the greatest fee that a micropayment may make the receiver pay by default,
	// in the chain's smallest coin: 10^8 of them are a coin.
	DefaultMaxFee = 100_000_000

	// lastChance is how long before a payment expires it is decided for the last time whether to
	// collect it: enough for a submission, and little for payments that could still follow.
	lastChance = 15 * time.Second

	firstPause   = time.Second // before a transaction is looked up, then twice that, and so on
	longestPause = 5 * time.Second
	callTimeout  = 20 * time.Second // for a call to the chain
	maxReported  = 10               // failures that are reported individually
)

// Store holds channels and their submissions.
type Store interface {
	ledger.Channels
	ledger.Submissions
	database.Clock
}

// Options are a Collector's settings. Chain and Receiver are required.
type Options struct {
	Chain    *chain.Client
	Receiver *micropay.Signer
	// Parallel is the maximum number of submissions that are sent concurrently, and of other calls
	// to the chain. 0: DefaultParallel.
	Parallel int
	// CoinPrice is a coin's value in the asset's units. A coin is 10^8 of the chain's smallest. A
	// payment waits while its gas would cost more than the unsettled amount. 0: not known, and
	// nothing is compared. It must not be negative.
	CoinPrice int64
}

// Stats are a Collector's counters since it was created.
type Stats struct {
	Collected, Failed, Expired int64 // submissions that ended, and settlements that expired before they were submitted
	Refused                    int64 // submissions that a fullnode did not take
	Postponed                  int64 // decisions to wait, because the gas would cost more than is collected
	AmountCollected            int64 // the asset's units
	GasSpent                   int64 // the chain's smallest coins, also for transactions without success
}

// Collector collects micropayments.
type Collector struct {
	store   Store
	opt     Options
	reader  Reader
	submits chan struct{} // slots of submissions
	lookups chan struct{} // slots of other calls

	began        time.Time   // by the store's clock
	lookInFlight atomic.Bool // the submissions in flight are to be looked at
	halted       atomic.Bool // settling had halted at the last look, by a Run that has not ended
	gas          gasMeter
	counts       struct{ collected, failed, expired, refused, postponed, amount atomic.Int64 }

	mu struct {
		sync.Mutex
		busy   map[string]bool // channels with a submission that is being begun or followed
		failed []error
	}
}

// ErrHalted means that a submission contradicted the contract's rules. Nothing is collected or sold
// until an operator resumes settling.
var ErrHalted = errors.New("settling has halted")

// New returns a Collector over a store.
func New(store Store, opt Options) *Collector {
	if opt.Parallel == 0 {
		opt.Parallel = DefaultParallel
	}
	c := &Collector{
		store: store, opt: opt, reader: Reader{Chain: opt.Chain, Receiver: opt.Receiver.Address()},
		submits: make(chan struct{}, opt.Parallel), lookups: make(chan struct{}, opt.Parallel), began: store.Now(),
	}
	c.mu.busy = map[string]bool{}
	return c
}

// Stats returns the counters.
func (c *Collector) Stats() Stats {
	return Stats{
		Collected: c.counts.collected.Load(), Failed: c.counts.failed.Load(),
		Expired: c.counts.expired.Load(), Refused: c.counts.refused.Load(), Postponed: c.counts.postponed.Load(),
		AmountCollected: c.counts.amount.Load(), GasSpent: c.gas.spent.Load(),
	}
}

// Halted reports whether Run runs, and settling has halted.
func (c *Collector) Halted() bool { return c.halted.Load() }

// ahead returns by how much the chain is ahead of the store's clock, or 0 if it is behind, or if
// that is not known.
func (c *Collector) ahead() time.Duration {
	ahead, _ := c.opt.Chain.Ahead()
	return max(0, ahead)
}

// chainTime returns the chain's time: the store's, and by how much the chain is known to be ahead.
func (c *Collector) chainTime() time.Time { return c.store.Now().Add(c.ahead()) }

// report reports that a submission's step failed. The step is made again.
func (c *Collector) report(s ledger.Submission, err error) {
	if err == nil || errors.Is(err, context.Canceled) {
		return
	}
	if refusal, ok := errors.AsType[*chain.Error](err); ok {
		c.counts.refused.Add(1)
		if refusal.VMCode == noGas {
			err = fmt.Errorf("the account of the receiver, %v, cannot pay the gas: send coins to it: %w", c.opt.Receiver.Address(), err)
		}
	}
	c.fail(ofPayment(s.Channel, s.Sequence, err))
}

func (c *Collector) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.failed = append(c.mu.failed, err)
}

// failures returns the failures since its last call, joined: the first ones, and how many more
// there were.
func (c *Collector) failures() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	failed := c.mu.failed
	c.mu.failed = nil
	if n := len(failed) - maxReported; n > 0 {
		failed = append(failed[:maxReported:maxReported], fmt.Errorf("and %d failures more", n))
	}
	return errors.Join(failed...)
}
