package collect

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sluice/chain"
	"sluice/database"
	"sluice/ledger"
	"sluice/micropay"
)

// A due settlement is submitted, except in these cases, in this order:
//
//	the channel was not read since the collector was created
//	                           it is read first: in a folder that was restored, a pending one may be collected already
//	it has expired             it is not submitted; if the chain has not executed it, it waits for a renewal, or for
//	                           the next payment over its channel
//	it does not pay for its fee
//	                           it waits for more until its last chance, and if it does not pay then, like one that has
//	                           expired

// collect submits a settlement that is due and follows the submission to its outcome, unless a
// newer payment has replaced it or it is not to be submitted. version is a version that the chain
// has reached.
func (c *Collector) collect(ctx context.Context, due ledger.Settlement, version uint64, release func()) {
	a, err := c.complete(due, version)
	submits := false
	if err == nil {
		submits, err = c.decide(ctx, due, a)
	}
	if err != nil {
		release()
		c.report(ledger.Submission{Channel: due.Channel, Sequence: due.Sequence}, err)
		wait(ctx, longestPause) // other settlements are tried before this one again
		return
	}
	if !submits {
		release()
		return
	}
	if err := c.store.BeginSubmission(ctx, a.Submission); err != nil {
		release()
		c.beginFailed(due, err)
		return
	}
	c.report(a.Submission, c.submit(ctx, &a.attempt))
	release()
	c.follow(ctx, &a.attempt, firstPause)
}

// candidate is a settlement that its receiver has signed.
type candidate struct {
	attempt
	maxGas, gasPrice uint64
}

// complete signs a settlement as its receiver.
func (c *Collector) complete(s ledger.Settlement, version uint64) (*candidate, error) {
	m, err := micropay.Parse(s.Proof)
	if err != nil {
		return nil, err
	}
	t, err := m.Collect(c.opt.Receiver)
	if err != nil {
		return nil, err
	}
	return &candidate{
		attempt: attempt{
			Submission: ledger.Submission{Channel: s.Channel, Sequence: s.Sequence, Amount: s.Amount, Expires: s.Expires, Hash: t.Hash, Body: t.Body, Form: m.Form()},
			began:      true, version: version,
		},
		maxGas: m.MaxGas, gasPrice: m.GasPrice,
	}, nil
}

// decide reports whether a settlement that is due is to be submitted now.
func (c *Collector) decide(ctx context.Context, due ledger.Settlement, a *candidate) (submits bool, err error) {
	of, err := c.store.Channel(ctx, due.Channel)
	if err != nil {
		return false, err
	}
	if of.Read.Before(c.began) {
		if of, err = c.reread(ctx, of, time.Time{}); err != nil {
			return false, err
		}
	}
	if !a.Expires.After(c.chainTime()) {
		t, err := c.lookUp(ctx, a.Submission)
		switch {
		case err != nil:
			return false, err
		case t.State != chain.StateUnknown: // it was submitted before the folder was restored
			return true, nil
		case next(a.Submission, t) == stepEnd:
			return false, c.abandon(ctx, of, a, t.At)
		}
	}
	if due.Amount <= of.Settled {
		return false, nil
	}
	if c.opt.CoinPrice > 0 && due.Amount-of.Settled < FeeUnits(min(c.gas.expected(), a.maxGas), a.gasPrice, c.opt.CoinPrice) {
		c.counts.postponed.Add(1)
		return false, c.store.Postpone(ctx, due.Channel, due.Sequence, c.lastChance(due.Expires, of.Expires))
	}
	return true, nil
}

// abandon makes a settlement wait for a renewal or for the next payment. It had expired by the
// chain's time at expired, and the chain has not executed it. If another payment has withdrawn its
// amount, abandon does nothing.
func (c *Collector) abandon(ctx context.Context, of ledger.Channel, a *candidate, expired time.Time) error {
	of, err := c.reread(ctx, of, expired)
	if err != nil || a.Amount <= of.Settled {
		return err
	}
	if err := c.store.Postpone(ctx, a.Channel, a.Sequence, time.Time{}); err != nil {
		return err
	}
	c.counts.expired.Add(1)
	c.fail(ofPayment(a.Channel, a.Sequence, errors.New("it expired before it was submitted; a renewal or the next payment over its channel includes its amount")))
	return nil
}

// reread reads a channel as the chain shows it at since or later, and records that.
func (c *Collector) reread(ctx context.Context, of ledger.Channel, since time.Time) (ledger.Channel, error) {
	r, err := c.readSince(ctx, of, since)
	if err != nil {
		return of, err
	}
	return c.store.RecordReading(ctx, of.ID, r)
}

// lastChance returns when a settlement is due that does not pay for its fee: shortly before it or
// its channel expires. The zero time, after that, is never.
func (c *Collector) lastChance(expires, channelExpires time.Time) time.Time {
	if channelExpires.Before(expires) {
		expires = channelExpires
	}
	last := expires.Add(-lastChance)
	if !c.chainTime().Before(last) {
		return time.Time{}
	}
	return last.Add(c.advanceOfDue() - c.ahead())
}

// advanceOfDue returns by how much settlements are due earlier because our clock is late. If it is
// d late, half of a lifetime that it measures ends d/2 too late.
func (c *Collector) advanceOfDue() time.Duration { return c.ahead() / 2 }

// beginFailed reports why a submission was not begun. If that is not known, the next look at the
// submissions in flight finds out.
func (c *Collector) beginFailed(due ledger.Settlement, err error) {
	switch {
	case errors.Is(err, database.ErrNotFound), errors.Is(err, database.ErrExists): // another leader was faster
	case errors.Is(err, database.ErrUnknownOutcome):
		c.lookInFlight.Store(true)
		fallthrough
	default:
		c.fail(fmt.Errorf("beginning to collect payment %d of channel %.6s: %w", due.Sequence, due.Channel, err))
	}
}
