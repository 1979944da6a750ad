package paychan

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"sluice/ledger"
	"sluice/micropay"
)

// ChainOptions are the settings of a Service that collects payments on a chain. The functions ask
// the chain, and must return when ctx ends.
type ChainOptions struct {
	// Read reads the channel with this number between a sender and the receiver.
	Read func(ctx context.Context, sender, asset string, paymentChannelID int64) (ledger.Reading, error)
	// Simulate returns the effect that a micropayment would have on the chain now.
	Simulate func(ctx context.Context, m *micropay.Micropayment) (Simulation, error)
	// AccountSequence returns an account's sequence number.
	AccountSequence func(ctx context.Context, account micropay.Address) (uint64, error)
	// GasPrices returns the least gas price at which the chain executes a transaction, and the
	// usual one.
	GasPrices func(ctx context.Context) (least, usual uint64, err error)
	// Ahead returns by how much the chain is ahead of the store's clock, and 0 if that is not
	// known. It returns an error if no fullnode that answers has a time that can be right. It asks
	// nobody.
	Ahead func() (time.Duration, error)

	// Refresh is the age from which on a reading is read again before it sells.
	Refresh time.Duration
	// StartingLimit is the unsettled amount up to which a channel sells before anything was
	// collected over it, at least 1; see ledger.Channel.SellingLimit.
	StartingLimit int64
	// SettleAt is the unsettled amount at which a channel's settlement is due, at least 1.
	SettleAt int64
	// SettleWithin is the time after which an accepted payment is collected at the latest. 0: half
	// of its life.
	SettleWithin time.Duration
	// MaxFee is the greatest fee that a micropayment may make the receiver pay, in the chain's
	// smallest coin. 0: any.
	MaxFee uint64
	// Worth returns the value of gas at a price, in the asset's units, rounded up; 0 if that is not
	// known.
	Worth func(gas, price uint64) int64
}

// Simulation is the effect that a micropayment would have on the chain.
type Simulation struct {
	Success  bool
	VMStatus string // why it would have no effect
	GasUsed  uint64
}

// Errors while payments are collected on a chain.
var (
	// ErrChainTerms means that a channel was not named as the chain names it.
	ErrChainTerms = errors.New("a channel of the chain is opened by naming it: userIdentity and paymentChannelId are required, and deposit and expires are read from the chain")
	// ErrNotOnChain means that the channel to open does not exist on the chain.
	ErrNotOnChain = errors.New("the channel does not exist on the chain: open it there first")
	// ErrDepositOnChain means that a deposit must be made on the chain.
	ErrDepositOnChain = errors.New("deposit into the channel on the chain: the service sees it when it is needed")
	// ErrChannelEnding means that a channel ends too soon to collect a payment over it. It wraps
	// ledger.ErrChannelExpired.
	ErrChannelEnding = fmt.Errorf("%w: too little of its life is left to collect a payment over it", ledger.ErrChannelExpired)
	// ErrClock means that the chain is too far ahead of the store's clock.
	ErrClock = errors.New("the chain's time and the service's differ too much, so that nothing is sold")
	// ErrNoChain means that settlements are booked in the ledger, and not collected on a chain.
	ErrNoChain = errors.New("settlements are booked in the ledger, so there is no chain to read")
)

const (
	// readInterval is the time between two readings of one channel or account.
	readInterval = 2 * time.Second
	// maxAhead is by how much the chain may be ahead of the store's clock while something is sold.
	maxAhead = 10 * time.Second
	// collectMargin is the life that a payment, and its channel, must have left when it is
	// accepted: enough to submit a transaction and have it executed.
	collectMargin = 10 * time.Second

	// MinGas is the least maximum gas with which the chain executes a transaction
	// (aptos-gas-schedule: 2.76 units). Simulations raise the least that a micropayment must offer
	// to the gas that the call takes, but not above maxMinGas.
	MinGas    = 3
	maxMinGas = 10_000
	// maxGasPriceFactor is how many times the usual gas price a micropayment may state.
	maxGasPriceFactor = 5
)

// onChain is a Service's knowledge about the chain.
type onChain struct {
	opt  ChainOptions
	meta ledger.Channels

	readings    *calls[channelName, struct{}]
	simulations *calls[channelName, simulated]
	sequences   *calls[micropay.Address, uint64]
	prices      *calls[struct{}, gasPrices]

	minGas, minGasPrice, maxGasPrice atomic.Uint64
	counts                           struct{ simulated, refused atomic.Int64 }
}

// simulated is a simulation's result, and the payment's form.
type simulated struct {
	Simulation
	form string
}

// gasPrices are the least gas price at which the chain executes a transaction, and the usual one.
type gasPrices struct{ least, usual uint64 }

// channelName names a channel between a sender and the receiver on the chain.
type channelName struct {
	sender, asset string
	number        int64
}

func nameOf(p *ledger.Payment) channelName {
	return channelName{p.Sender, p.Asset, p.PaymentChannelID}
}

func newOnChain(opt ChainOptions, meta ledger.Channels) *onChain {
	o := &onChain{
		opt: opt, meta: meta,
		readings:    newCalls[channelName, struct{}](readInterval),
		simulations: newCalls[channelName, simulated](0),
		sequences:   newCalls[micropay.Address, uint64](readInterval),
		prices:      newCalls[struct{}, gasPrices](readInterval),
	}
	o.minGas.Store(MinGas)
	return o
}

// ahead returns by how much the chain is ahead of the store's clock, at least 0, or ErrClock.
func (o *onChain) ahead() (time.Duration, error) {
	ahead, err := o.opt.Ahead()
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrClock, err)
	}
	if ahead > maxAhead {
		return 0, fmt.Errorf("%w: the chain is %s ahead", ErrClock, ahead.Round(time.Second))
	}
	return max(0, ahead), nil
}

// refresh reads a payment's channel, or waits for a reading that runs. It returns the last
// reading's error if the channel may not be read again yet, or ErrChain if a reading takes too
// long.
func (o *onChain) refresh(ctx context.Context, p ledger.Payment, until time.Time) error {
	_, _, err := o.readings.get(ctx, nameOf(&p), until, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, o.record(ctx, p)
	})
	return err
}

// record reads a payment's channel and records the reading.
func (o *onChain) record(ctx context.Context, p ledger.Payment) error {
	c, err := o.meta.FindChannel(ctx, p.Sender, p.Receiver, p.Asset, p.PaymentChannelID)
	if err != nil {
		return err
	}
	read, err := o.read(ctx, p.Sender, p.Asset, p.PaymentChannelID)
	if err != nil {
		return err
	}
	_, err = o.meta.RecordReading(ctx, c.ID, read)
	return err
}

// describe sets fields from the chain in a channel that is about to be opened. It returns
// ErrNotOnChain if the channel does not exist there.
func (o *onChain) describe(ctx context.Context, c *ledger.Channel) error {
	read, err := o.read(ctx, c.Sender, c.Asset, c.PaymentChannelID)
	if err != nil {
		return err
	}
	if read.Gone {
		return ErrNotOnChain
	}
	c.Deposit, c.Withdrawn, c.NextSequence, c.Expires = read.Deposit, read.Withdrawn, read.NextSequence, read.Expires
	c.ChainTime, c.ChainCreated = read.ChainTime, read.Created
	return nil
}

func (o *onChain) read(ctx context.Context, sender, asset string, number int64) (ledger.Reading, error) {
	ctx, cancel := context.WithTimeout(ctx, chainTimeout)
	defer cancel()
	read, err := o.opt.Read(ctx, sender, asset, number)
	if err != nil {
		return read, fmt.Errorf("%w: %w", ErrChain, err)
	}
	return read, nil
}
