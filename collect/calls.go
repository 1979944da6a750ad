package collect

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"sluice/chain"
	"sluice/internal/task"
	"sluice/ledger"
	"sluice/micropay"
)

// errBehind means that a fullnode has not executed transactions that another has.
var errBehind = errors.New("the fullnode is behind one that was asked before")

// The calls to the chain. Each is bounded and takes a slot. Submissions have slots of their own, so
// that neither they nor the rest keep the other from the chain. Who calls submit holds its slot.

func (c *Collector) submit(ctx context.Context, a *attempt) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err := c.opt.Chain.Submit(ctx, &micropay.Transaction{Body: a.Body, Hash: a.Hash})
	a.submitted(err)
	return err
}

func (c *Collector) lookUp(ctx context.Context, s ledger.Submission) (t chain.Transaction, err error) {
	err = c.ask(ctx, func(ctx context.Context) error {
		t, err = c.opt.Chain.Transaction(ctx, s.Hash)
		return err
	})
	return t, err
}

// readSince reads the channel as the chain shows it at since or later, and not before the recorded
// reading.
func (c *Collector) readSince(ctx context.Context, of ledger.Channel, since time.Time) (ledger.Reading, error) {
	r, err := c.read(ctx, of)
	recorded := of.ChainTime
	if recorded.After(c.store.Now().Add(ledger.MaxChainAhead)) { // it was recorded while the clock was wrong
		recorded = time.Time{}
	}
	if err == nil && (r.ChainTime.Before(since) || r.ChainTime.Before(recorded)) {
		err = errBehind
	}
	if err != nil {
		err = fmt.Errorf("reading the channel: %w", err)
	}
	return r, err
}

func (c *Collector) read(ctx context.Context, of ledger.Channel) (r ledger.Reading, err error) {
	err = c.ask(ctx, func(ctx context.Context) error {
		r, err = c.reader.Read(ctx, of.Sender, of.Asset, of.PaymentChannelID)
		return err
	})
	return r, err
}

func (c *Collector) readAt(ctx context.Context, of ledger.Channel, version uint64) (r ledger.Reading, err error) {
	err = c.ask(ctx, func(ctx context.Context) error {
		r, err = c.reader.ReadAt(ctx, of.Sender, of.Asset, of.PaymentChannelID, version)
		return err
	})
	return r, err
}

// ask makes a call that is not a submission, when it has a slot.
func (c *Collector) ask(ctx context.Context, call func(context.Context) error) error {
	release, err := take(ctx, c.lookups)
	if err != nil {
		return err
	}
	defer release()
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return call(ctx)
}

// take waits for a slot and returns the function that releases it, or the error of ctx.
func take(ctx context.Context, slots chan struct{}) (release func(), err error) {
	select {
	case slots <- struct{}{}:
		return func() { <-slots }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// wait reports whether it waited for about a pause, and false if ctx ended before.
func wait(ctx context.Context, pause time.Duration) bool {
	return task.Wait(ctx, pause-rand.N(pause/4+1)) == nil
}
