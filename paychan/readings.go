package paychan

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"sluice/metastore"
)

// ChainOptions are the settings of a Service whose payments are collected on a chain.
type ChainOptions struct {
	// Read reads the channel with this number between a sender and the receiver. It must return when
	// ctx ends.
	Read func(ctx context.Context, sender, asset string, paymentChannelID int64) (metastore.Reading, error)
	// Refresh is the age from which on a reading is read again before it sells.
	Refresh time.Duration
	// SettleAt is the unsettled amount of a channel at which it is collected, at least 1.
	SettleAt int64
	// MaxFee is the greatest fee that a micropayment may make the receiver pay, in the chain's smallest
	// coin. 0: any.
	MaxFee uint64
}

// Errors of a Service whose payments are collected on a chain.
var (
	// ErrChain means that a channel could not be read from the chain.
	ErrChain = errors.New("the chain cannot be read now")
	// ErrChainTerms means that a channel was not named as one of the chain.
	ErrChainTerms = errors.New("a channel of the chain is opened by naming it: userIdentity and paymentChannelId are required, and deposit and expires are read from the chain")
	// ErrNotOnChain means that the channel to open does not exist on the chain.
	ErrNotOnChain = errors.New("the channel does not exist on the chain: open it there first")
	// ErrDepositOnChain means that a deposit must be made on the chain.
	ErrDepositOnChain = errors.New("deposit into the channel on the chain: the service sees it when it is needed")
)

const (
	readTimeout   = 10 * time.Second // for reading a channel
	readPatience  = 2 * time.Second  // for which a payment waits for it
	readInterval  = 2 * time.Second  // between readings of a channel
	readRetry     = 10 * time.Second // after a reading that has failed
	readSlots     = 64               // concurrent readings
	readsRetained = 4096             // readings that have ended and are retained
)

// readings reads channels from the chain and records what it reads. Each channel is read once at a time, and not
// more often than readInterval.
type readings struct {
	opt    ChainOptions
	meta   metastore.Channels
	slots  chan struct{}
	failed atomic.Int64

	mu   sync.Mutex
	last map[channelName]*reading
}

// channelName identifies a channel of the receiver on the chain.
type channelName struct {
	sender, asset string
	number        int64
}

// reading is a reading that runs, or the last one.
type reading struct {
	began time.Time
	done  chan struct{}
	err   error     // once it is done
	next  time.Time // once it is done: when the channel may be read again
}

func newReadings(opt ChainOptions, meta metastore.Channels) *readings {
	return &readings{opt: opt, meta: meta, slots: make(chan struct{}, readSlots), last: map[channelName]*reading{}}
}

// refresh reads the channel of a payment, or waits for a reading that runs. It returns the error of the last reading
// if the channel may not be read again yet, or ErrChain if a reading takes longer than readPatience.
func (r *readings) refresh(ctx context.Context, p metastore.Payment) error {
	one := r.start(ctx, p)
	patience := time.NewTimer(readPatience - time.Since(one.began))
	defer patience.Stop()
	select {
	case <-one.done:
		return one.err
	case <-patience.C:
		return ErrChain
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *readings) start(ctx context.Context, p metastore.Payment) *reading {
	name := channelName{p.Sender, p.Asset, p.PaymentChannelID}
	r.mu.Lock()
	defer r.mu.Unlock()
	if last := r.last[name]; last != nil && !last.over() {
		return last
	}
	if len(r.last) > readsRetained {
		for n, one := range r.last {
			if one.over() {
				delete(r.last, n)
			}
		}
	}
	one := &reading{began: time.Now(), done: make(chan struct{})}
	r.last[name] = one
	go func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTimeout)
		defer cancel()
		one.err = r.record(ctx, p)
		one.next = time.Now().Add(readInterval)
		if one.err != nil {
			one.next = time.Now().Add(readRetry)
			r.failed.Add(1)
		}
		close(one.done)
	}()
	return one
}

// over reports whether the reading is done and the channel may be read again.
func (one *reading) over() bool {
	select {
	case <-one.done:
		return !time.Now().Before(one.next)
	default:
		return false
	}
}

// record reads the channel of a payment and records what was read.
func (r *readings) record(ctx context.Context, p metastore.Payment) error {
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
	case <-ctx.Done():
		return ErrChain
	}
	c, err := r.meta.FindChannel(ctx, p.Sender, p.Receiver, p.Asset, p.PaymentChannelID)
	if err != nil {
		return err
	}
	read, err := r.read(ctx, p.Sender, p.Asset, p.PaymentChannelID)
	if err != nil {
		return err
	}
	_, err = r.meta.RecordReading(ctx, c.ID, read)
	return err
}

// describe sets what the chain knows of a channel that is about to be opened. It returns ErrNotOnChain if the channel does not
// exist there.
func (r *readings) describe(ctx context.Context, c *metastore.Channel) error {
	read, err := r.read(ctx, c.Sender, c.Asset, c.PaymentChannelID)
	if err != nil {
		return err
	}
	if read.Gone {
		return ErrNotOnChain
	}
	c.Deposit, c.Withdrawn, c.NextSequence, c.Expires, c.Ledger = read.Deposit, read.Withdrawn, read.NextSequence, read.Expires, read.Ledger
	return nil
}

func (r *readings) read(ctx context.Context, sender, asset string, number int64) (metastore.Reading, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	read, err := r.opt.Read(ctx, sender, asset, number)
	if err != nil {
		return read, fmt.Errorf("%w: %w", ErrChain, err)
	}
	return read, nil
}
