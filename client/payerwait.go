package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"sluice/micropay"
	"sluice/wire"
)

const (
	// micropaymentLife is how long a micropayment is valid: as with the public client.
	micropaymentLife = time.Minute

	// chainMargin is by how much this machine's clock may be ahead of the chain's, by which a
	// micropayment expires.
	chainMargin = time.Minute
)

// Bounds for the pauses between two looks at a channel while its payments are awaited.
const (
	shortestWaitPause = 500 * time.Millisecond
	longestWaitPause  = 5 * time.Second
)

// maxRefusals bounds how many purchases in a row the selling limit may refuse before the payer
// returns an error: the service publishes its limit, so that one refusal is usual.
const maxRefusals = 8

// wait is a purchase's state while the channel's selling limit does not permit it yet.
type wait struct {
	until   time.Time // when it ends
	pause   time.Duration
	steps   int       // amounts that were signed again
	told    bool      // the caller knows that a purchase waits
	renewed time.Time // when a payment was renewed last

	refusal  error // the last one; nil: none
	refusals int
	most     uint64 // the largest amount that the refusal permits, while settled is unchanged
	settled  uint64
}

func newWait(longest time.Duration) *wait {
	return &wait{until: time.Now().Add(longest), pause: shortestWaitPause}
}

// room returns how much a purchase may cost now.
func (w *wait) room(ch Channel, c *channelRecord) uint64 {
	most := ch.Settled + ch.SellingLimit
	if w.refusal != nil && ch.Settled == w.settled {
		most = min(most, w.most)
	}
	return less(most, c.Bought)
}

// less returns a less b, or 0 if b is more.
func less(a, b uint64) uint64 { return a - min(a, b) }

// refused records that the service refused a purchase with err. It reports whether to wait, or to
// buy less.
func (w *wait) refused(err error, ch Channel, c *channelRecord) bool {
	e, reported := errors.AsType[*Error](err)
	if !reported || c.Pending != nil || e.Code != wire.CodeUnsettledLimit && e.Code != wire.CodeChannelStopped {
		return false
	}
	limit, limitErr := strconv.ParseUint(e.Limit, 10, 63)
	unsettled, unsettledErr := strconv.ParseUint(e.Unsettled, 10, 63)
	w.most = ch.known()
	if limitErr == nil && unsettledErr == nil {
		w.most += less(limit, unsettled)
	}
	w.refusal, w.settled = err, ch.Settled
	w.refusals++
	return w.refusals <= maxRefusals
}

// renews reports whether a payment that has expired may be renewed: once in its life, if the chain
// refuses it again.
func (w *wait) renews() bool {
	now := time.Now()
	if !w.renewed.IsZero() && now.Sub(w.renewed) < micropaymentLife {
		return false
	}
	w.renewed = now
	return true
}

// await pauses before the next look at the channel. It returns an error if the service sells
// nothing over it, or the wait has ended.
func (p *Payer) await(ctx context.Context, w *wait, ch Channel, price uint64) error {
	if ch.Accepted <= ch.Settled && ch.SellingLimit < price || ch.Accepted <= ch.Settled && (w.refusal != nil || ch.State == "stopped") {
		return w.error(ch, price) // there is nothing that could be collected
	}
	if !w.told && p.o.OnWait != nil {
		p.o.OnWait(ch)
	}
	w.told = true
	pause := w.pause/2 + rand.N(w.pause/2)
	w.pause = min(2*w.pause, longestWaitPause)
	if e, reported := errors.AsType[*Error](w.refusal); reported {
		pause = max(pause, e.RetryAfter)
	}
	if time.Now().Add(pause).After(w.until) {
		return w.error(ch, price)
	}
	if !waits(ctx, pause) {
		return errors.Join(w.error(ch, price), context.Cause(ctx))
	}
	return nil
}

// error returns why the purchase cannot be made.
func (w *wait) error(ch Channel, price uint64) error {
	switch {
	case w.refusal != nil:
		return w.refusal
	case ch.State == "stopped":
		return fmt.Errorf("client: %w: the service sells nothing over the channel: %s", ErrPaymentRequired, ch.Stopped)
	default:
		return fmt.Errorf("client: %w: a chunkset costs %d, the service sells %d beyond the collected amount, and has not collected %d", ErrPaymentRequired, price, ch.SellingLimit, less(ch.Accepted, ch.Settled))
	}
}

// Renew signs the channel's accepted amount once more, if the micropayment that proves it can no
// longer be collected. It returns the channel. That buys nothing, and adds nothing to the amount
// that the service can collect. Purchases do it by themselves when they need it; Renew also serves
// a channel over which nothing more is bought, even if it was closed. It returns ErrNotFound if the
// payer has no channel, and ErrGone if it has expired.
func (p *Payer) Renew(ctx context.Context) (Channel, error) {
	var ch Channel
	err := p.locked(ctx, func(s *payerState) error {
		if s.Channel == nil && p.o.ChannelID == "" || s.Channel != nil && s.Channel.ID == "" {
			return fmt.Errorf("client: %w: the payer has no channel", ErrNotFound)
		}
		if err := p.settlePending(ctx, s); err != nil {
			return err
		}
		of, err := p.offer(ctx, s)
		if err != nil {
			return err
		}
		if ch, err = p.look(ctx, s); err != nil || ch.Expired == 0 {
			return err
		}
		if err := p.keep(s, &ch); err != nil {
			return err
		}
		if err := p.catchUp(ctx, s, of.gas, ch); err != nil {
			return err
		}
		ch, err = p.renew(ctx, s, of.gas, ch.Accepted)
		return err
	})
	return ch, err
}

// renew sends a micropayment for the accepted amount, which is at most the amount bought, and
// returns the channel after that. It is in the state before it is sent, and is sent again by the
// next call if its outcome is unknown.
func (p *Payer) renew(ctx context.Context, s *payerState, g gas, accepted uint64) (Channel, error) {
	c := s.Channel
	amount := min(accepted, c.Bought)
	if amount == 0 {
		return Channel{}, fmt.Errorf("client: %w: the service reports that a payment has expired, and nothing was bought", ErrTermsChanged)
	}
	for attempt := 1; ; attempt++ {
		m, err := p.renewal(s, amount, g)
		if err != nil {
			return Channel{}, err
		}
		ch, err := p.c.RenewChannel(ctx, c.ID, m)
		if err != nil && (!isRefusal(err) || errors.Is(err, ErrOutcomeUnknown)) {
			return Channel{}, err
		}
		c.Renewal = ""
		e, _ := errors.AsType[*Error](err)
		if e != nil && e.Code == wire.CodeMicropaymentStale && attempt == 1 && p.newer(s, e.StoredMicropayment, m) {
			continue // another state has signed it
		}
		if err := p.file.save(s); err != nil {
			return Channel{}, err
		}
		if e != nil && e.Code == wire.CodeNothingExpired { // it was collected or renewed meanwhile
			return p.look(ctx, s)
		}
		return ch, err
	}
}

// renewal returns the micropayment for a renewal in doubt, or a new one.
func (p *Payer) renewal(s *payerState, amount uint64, g gas) (*micropay.Micropayment, error) {
	c := s.Channel
	if c.Renewal != "" {
		m, err := micropay.ParseBase64(c.Renewal)
		if err != nil {
			return nil, err
		}
		if m.Amount == amount && m.Sequence == c.Sequence && time.Now().Before(m.Expires()) {
			return m, nil
		}
	}
	m, err := p.next(s, amount, g)
	if err != nil {
		return nil, err
	}
	c.Renewal = m.Base64()
	return m, p.file.save(s)
}

// newer adopts a stored micropayment's sequence number, if the amount is the same as in m and the
// number is higher. It reports whether it did.
func (p *Payer) newer(s *payerState, raw []byte, m *micropay.Micropayment) bool {
	stored, err := p.own(s, raw)
	if err != nil || stored.Amount != m.Amount || stored.Sequence < m.Sequence {
		return false
	}
	s.Channel.Sequence = max(s.Channel.Sequence, stored.Sequence)
	return true
}
