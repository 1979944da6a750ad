package collect

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sluice/chain"
	"sluice/database"
	"sluice/ledger"
)

// How a submission lives. A due settlement becomes a submission in flight, durably, before anything
// is sent. Then its transaction is submitted, and looked up by its hash until its outcome is known:
//
//	executed with success      collected
//	executed without success   failed
//	unknown, and by the fullnode's time it has expired
//	                           expired: it was not executed, and never will be
//	unknown                    it is submitted again: the same bytes, so nothing is collected twice
//	unknown, and a fullnode refuses it for the signed payment
//	                           the same, and its channel sells nothing until it is collected
//	pending                    it is looked up again
//
// If the chain had executed the transaction before this process began the submission, it is not its
// own. If the transaction is unknown and the channel shows that its amount was withdrawn, the
// submission is collected. Before an outcome is recorded, the channel is read at the fullnode's
// time or later. Every step may be repeated, by this node or the next leader.

// step is a submission's next step.
type step int

const (
	stepWait step = iota
	stepSubmit
	stepEnd
)

// next returns the step after a fullnode was asked for the transaction.
func next(s ledger.Submission, t chain.Transaction) step {
	switch {
	case t.State == chain.StateExecuted:
		return stepEnd
	case t.State == chain.StatePending:
		return stepWait
	case t.At.After(s.Expires):
		return stepEnd
	default:
		return stepSubmit
	}
}

// outcome returns how a submission ends. before is the channel as it is recorded, and now as the
// chain shows it.
func outcome(a *attempt, t chain.Transaction, before, now ledger.Reading) ledger.Outcome {
	o := ledger.Outcome{Reading: now}
	withdrawn := alreadyCollected(a.Submission, before, now)
	switch {
	case t.State == chain.StateExecuted && withdrawn && (!t.Success || a.ofAnother(t)):
		o.State, o.Status = ledger.Failed, fmt.Sprintf("the %d units of a payment had been withdrawn before: does another instance collect for the same receiver?", a.Amount)
	case t.State == chain.StateExecuted && t.Success, t.State == chain.StateUnknown && withdrawn:
		o.State = ledger.Collected
	case t.State == chain.StateExecuted:
		o.State, o.Status = ledger.Failed, "the chain refused to collect a payment: "+t.VMStatus
	default:
		o.State = ledger.Expired
	}
	return o
}

// follow looks a submission up until its outcome is recorded or ctx ends.
func (c *Collector) follow(ctx context.Context, a *attempt, pause time.Duration) {
	for wait(ctx, pause) {
		ended, err := c.advance(ctx, a)
		c.report(a.Submission, err)
		if ended {
			return
		}
		pause = min(max(firstPause, 2*pause), longestPause)
	}
}

// advance makes a submission's next step, and reports whether its outcome is recorded.
func (c *Collector) advance(ctx context.Context, a *attempt) (ended bool, err error) {
	t, err := c.lookUp(ctx, a.Submission)
	if err != nil {
		return false, err
	}
	switch next(a.Submission, t) {
	case stepSubmit:
		if a.doubted() {
			if ended, err := c.doubt(ctx, a, t); ended || err != nil {
				return ended, err
			}
		}
		release, err := take(ctx, c.submits)
		if err != nil {
			return false, err
		}
		defer release()
		return false, c.submit(ctx, a)
	case stepEnd:
		of, now, err := c.compare(ctx, a.Channel, t.At)
		if err != nil {
			return false, err
		}
		return c.end(ctx, a, t, of, now)
	default:
		return false, nil
	}
}

// doubt ends a submission that is not known, if its amount was withdrawn. Otherwise, if a fullnode
// refuses it, its channel stops.
func (c *Collector) doubt(ctx context.Context, a *attempt, t chain.Transaction) (ended bool, err error) {
	of, now, err := c.compare(ctx, a.Channel, t.At)
	if err != nil {
		return false, err
	}
	if alreadyCollected(a.Submission, recorded(of), now) {
		return c.end(ctx, a, t, of, now)
	}
	if a.compared = true; a.refusal != nil {
		err = c.store.StopSelling(ctx, a.Channel, a.Sequence, fmt.Sprintf("the chain does not take a payment of %d units: %v", a.Amount, a.refusal))
		a.stopped = err == nil
	}
	return false, err
}

// compare returns a channel as it is recorded, and as the chain shows it at since or later.
func (c *Collector) compare(ctx context.Context, channel string, since time.Time) (of ledger.Channel, now ledger.Reading, err error) {
	if of, err = c.store.Channel(ctx, channel); err == nil {
		now, err = c.readSince(ctx, of, since)
	}
	return of, now, err
}

// end records how a submission ended. of is its channel as it is recorded, and now as the chain
// shows it.
func (c *Collector) end(ctx context.Context, a *attempt, t chain.Transaction, of ledger.Channel, now ledger.Reading) (ended bool, err error) {
	o := outcome(a, t, recorded(of), now)
	if o.State == ledger.Collected {
		if a.executed.IsZero() {
			a.executed = c.store.Now()
		}
		v, err := c.judge(ctx, a, t, of, now)
		if err != nil {
			return false, err
		}
		o.Withdrawn, o.Halt, o.Stop = v.withdrawn, v.halt, v.stop
	}
	if err := c.store.EndSubmission(ctx, a.Channel, a.Sequence, o); err != nil {
		if errors.Is(err, database.ErrNotFound) { // another leader has ended it, and begun a newer one
			return true, nil
		}
		return false, err
	}
	c.count(a, t, o, of)
	return true, nil
}

// count counts how a submission ended, and reports a bad end.
func (c *Collector) count(a *attempt, t chain.Transaction, o ledger.Outcome, of ledger.Channel) {
	if t.State == chain.StateExecuted && !a.ofAnother(t) {
		c.gas.pay(t.GasUsed, t.GasPrice)
	}
	switch o.State {
	case ledger.Collected:
		c.counts.collected.Add(1)
		if t.State == chain.StateExecuted {
			c.gas.measure(t.GasUsed)
		}
		saturate(&c.counts.amount, max(0, min(a.Amount, o.Withdrawn)-of.Settled))
		if o.Stop != "" {
			c.fail(ofPayment(a.Channel, a.Sequence, errors.New(o.Stop)))
		}
	case ledger.Failed:
		c.counts.failed.Add(1)
		c.fail(ofPayment(a.Channel, a.Sequence, errors.New(o.Status)))
	case ledger.Expired:
		c.counts.expired.Add(1)
		c.fail(ofPayment(a.Channel, a.Sequence, fmt.Errorf("%w; its channel sells nothing until it is renewed", a.expired())))
	}
}
