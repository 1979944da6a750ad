package collect

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"sluice/chain"
	"sluice/metastore"
	"sluice/micropay"
)

// The life of a submission. A settlement that is due becomes a submission in flight, durably, before anything is
// sent. Then its transaction is submitted, and looked up by its hash until its outcome is known:
//
//	executed with success      collected
//	executed without success   failed
//	unknown, and the ledger of the same fullnode is past its expiration
//	                           expired: it was not executed, and never will be
//	unknown                    it is submitted again: the same bytes, so nothing is collected twice
//	pending                    it is looked up again
//
// The channel is read from the same ledger or a later one before an outcome is recorded. Every step may be repeated,
// by this node or the next leader.

// step is what to do next with a submission.
type step int

const (
	stepWait step = iota
	stepSubmit
	stepEnd
)

// next returns the step after a fullnode was asked for the transaction.
func next(s metastore.Submission, t chain.Transaction) step {
	switch {
	case t.State == chain.StateExecuted:
		return stepEnd
	case t.State == chain.StatePending:
		return stepWait
	case t.Ledger.After(s.Expires):
		return stepEnd
	default:
		return stepSubmit
	}
}

// outcome returns the outcome of a transaction after which next is stepEnd. after is what the chain shows of the channel.
func outcome(s metastore.Submission, t chain.Transaction, after metastore.Reading) metastore.Outcome {
	o := metastore.Outcome{Reading: after}
	switch {
	case t.State == chain.StateExecuted && t.Success, t.State == chain.StateUnknown && alreadyCollected(s, after):
		o.State = metastore.Collected
	case t.State == chain.StateExecuted:
		o.State, o.Status = metastore.Failed, "the chain refused to collect a payment: "+t.VMStatus
	default:
		o.State = metastore.Expired
	}
	return o
}

// alreadyCollected reports whether the channel shows that an unknown transaction was executed: fullnodes forget old ones.
func alreadyCollected(s metastore.Submission, after metastore.Reading) bool {
	return !after.Gone && after.Withdrawn == withdrawnAfter(s.Amount) && after.NextSequence == nextAfter(s.Sequence)
}

// complete signs a settlement as its receiver.
func (c *Collector) complete(s metastore.Settlement) (metastore.Submission, error) {
	m, err := micropay.Parse(s.Proof)
	if err != nil {
		return metastore.Submission{}, err
	}
	t, err := m.Collect(c.opt.Receiver)
	if err != nil {
		return metastore.Submission{}, err
	}
	return metastore.Submission{Channel: s.Channel, Sequence: s.Sequence, Amount: s.Amount, Expires: s.Expires, Hash: t.Hash, Body: t.Body}, nil
}

// collect submits a settlement and follows the submission to its outcome, unless a newer payment has replaced it.
func (c *Collector) collect(ctx context.Context, due metastore.Settlement, release func()) {
	s, err := c.complete(due)
	if err == nil {
		err = c.store.BeginSubmission(ctx, s)
	}
	if err != nil {
		release()
		c.beginFailed(due, err)
		return
	}
	if !s.Expires.Before(c.ledgerTime()) {
		c.report(s, c.submit(ctx, s))
	}
	release()
	c.follow(ctx, s, firstPause)
}

// beginFailed reports why a submission was not begun. If that is not known, the next look at the submissions in flight
// finds out.
func (c *Collector) beginFailed(due metastore.Settlement, err error) {
	switch {
	case errors.Is(err, metastore.ErrNotFound), errors.Is(err, metastore.ErrExists): // another one was faster
	case errors.Is(err, metastore.ErrUnknownOutcome):
		c.lookInFlight.Store(true)
		fallthrough
	default:
		c.fail(fmt.Errorf("beginning to collect payment %d of channel %.6s: %w", due.Sequence, due.Channel, err))
	}
}

// follow looks a submission up until its outcome is recorded or ctx ends.
func (c *Collector) follow(ctx context.Context, s metastore.Submission, pause time.Duration) {
	for wait(ctx, pause) {
		ended, err := c.advance(ctx, s)
		c.report(s, err)
		if ended {
			return
		}
		pause = min(max(firstPause, 2*pause), longestPause)
	}
}

// advance makes the next step of a submission, and reports whether its outcome is recorded.
func (c *Collector) advance(ctx context.Context, s metastore.Submission) (ended bool, err error) {
	t, err := c.lookUp(ctx, s)
	if err != nil {
		return false, err
	}
	switch next(s, t) {
	case stepSubmit:
		release, err := take(ctx, c.submits)
		if err != nil {
			return false, err
		}
		defer release()
		return false, c.submit(ctx, s)
	case stepEnd:
		return c.end(ctx, s, t)
	default:
		return false, nil
	}
}

// end records the outcome of a submission.
func (c *Collector) end(ctx context.Context, s metastore.Submission, t chain.Transaction) (ended bool, err error) {
	before, err := c.store.Channel(ctx, s.Channel)
	if err != nil {
		return false, err
	}
	after, err := c.read(ctx, before)
	if err != nil {
		return false, fmt.Errorf("reading the channel: %w", err)
	}
	if after.Ledger.Before(t.Ledger) || after.Ledger.Before(before.Ledger) {
		return false, fmt.Errorf("reading the channel: %w", errBehind)
	}
	o := outcome(s, t, after)
	if o.State == metastore.Collected {
		if o.Halt, o.Reading, err = c.check(ctx, s, t, before, after); err != nil {
			return false, err
		}
	}
	if err := c.store.EndSubmission(ctx, s.Channel, s.Sequence, o); err != nil {
		if errors.Is(err, metastore.ErrNotFound) { // another leader has ended it, and begun a newer one
			return true, nil
		}
		return false, err
	}
	c.count(o)
	return true, nil
}

// check returns why a collection halts settling, or "", and the reading of the channel to record: now, with what was
// withdrawn if the channel was ended after the collection.
func (c *Collector) check(ctx context.Context, s metastore.Submission, t chain.Transaction, of metastore.Channel, now metastore.Reading) (halt string, _ metastore.Reading, err error) {
	before := metastore.Reading{Deposit: of.Deposit, Withdrawn: of.Withdrawn, Ledger: of.Ledger}
	what := contradiction(s, before, now)
	if what == "" && conclusive(s, before, now) {
		return "", now, nil
	}
	what, after, err := c.confirm(ctx, s, of, t.Version, what, now)
	if err != nil {
		return "", now, err
	}
	if what != "" {
		halt = fmt.Sprintf("after the collection of %d units at sequence number %d (transaction 0x%x), %s", s.Amount, s.Sequence, s.Hash, what)
	}
	if now.Gone {
		now.Withdrawn = after.Withdrawn
	}
	return halt, now, nil
}

// confirm returns how the collection itself contradicts the rules, and the channel directly after it. suspicion is how the
// channel differs from the rules now, or "". That may be due to others: a payer may deposit as much as is collected, or end
// the channel, and must not be able to halt settling by that. So the channel directly before the transaction is compared
// with the channel directly after it. If no fullnode shows that, confirm returns the suspicion, and now.
func (c *Collector) confirm(ctx context.Context, s metastore.Submission, of metastore.Channel, version uint64, suspicion string, now metastore.Reading) (string, metastore.Reading, error) {
	if version == 0 {
		return suspicion, now, nil
	}
	before, err := c.readAt(ctx, of, version-1)
	var after metastore.Reading
	if err == nil {
		after, err = c.readAt(ctx, of, version)
	}
	refusal, refused := errors.AsType[*chain.Error](err)
	behind := refused && refusal.Status == http.StatusNotFound
	switch {
	case err != nil && !behind && suspicion == "":
		return "", now, nil
	case refused && !behind:
		return fmt.Sprintf("%s, and what the transaction did is not known (%v)", suspicion, refusal), now, nil
	case err != nil:
		return "", now, fmt.Errorf("reading the channel at the transaction: %w", err)
	case before.Gone || before.Withdrawn >= withdrawnAfter(s.Amount): // the fullnode ignores versions
		return suspicion, now, nil
	}
	return contradiction(s, before, after), after, nil
}

// errBehind means that a fullnode has not executed what another has.
var errBehind = errors.New("the fullnode is behind another one that was asked before")

// The calls of the chain. Each is bounded, and has one of a limited number of slots: submissions have others than the
// rest, so that neither keeps the other from the chain. The caller of submit holds its slot.

func (c *Collector) submit(ctx context.Context, s metastore.Submission) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return c.opt.Chain.Submit(ctx, &micropay.Collection{Body: s.Body, Hash: s.Hash})
}

func (c *Collector) lookUp(ctx context.Context, s metastore.Submission) (t chain.Transaction, err error) {
	err = c.ask(ctx, func(ctx context.Context) error {
		t, err = c.opt.Chain.Transaction(ctx, s.Hash)
		return err
	})
	if err == nil {
		c.observe(t.Ledger)
	}
	return t, err
}

func (c *Collector) read(ctx context.Context, of metastore.Channel) (r metastore.Reading, err error) {
	err = c.ask(ctx, func(ctx context.Context) error {
		r, err = c.reader.Read(ctx, of.Sender, of.Asset, of.PaymentChannelID)
		return err
	})
	return r, err
}

func (c *Collector) readAt(ctx context.Context, of metastore.Channel, version uint64) (r metastore.Reading, err error) {
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
	timer := time.NewTimer(pause - rand.N(pause/4+1))
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
