package ledger

import (
	"fmt"
	"time"
)

// Usable returns nil if the channel is open at a time, ErrChannelClosed or ErrChannelExpired. A
// channel that has stopped is open.
func (c *Channel) Usable(now time.Time) error {
	switch c.State(now) {
	case ChannelClosed:
		return ErrChannelClosed
	case ChannelExpired:
		return ErrChannelExpired
	default:
		return nil
	}
}

// Examine returns the amount that can be spent if the offer is accepted at a price for a chunkset,
// or the first refusal in the order that Payments lists, but without the Expired of an
// *UnsettledLimitError. halt is the reason why settling has halted; empty: it has not. If the
// offer was simulated, Examine sets the channel's Form.
func (c *Channel) Examine(o Offer, price int64, halt string, now time.Time) (spendable int64, err error) {
	if err := c.Usable(now); err != nil {
		return 0, err
	}
	switch {
	case o.SettleAt > 0 && halt != "":
		return 0, &StoppedError{Reason: halt}
	case o.MaxAge > 0 && now.Sub(c.Read) > o.MaxAge:
		return 0, ErrOutdated
	case c.Stopped != "":
		return 0, &StoppedError{Reason: c.Stopped}
	case c.stale(o.Payment):
		return 0, &StaleError{Stored: c.Proof}
	case o.MaxPrice > 0 && price > o.MaxPrice:
		return 0, &PriceChangedError{Price: price, Max: o.MaxPrice}
	case o.Amount > c.Deposit:
		return 0, &InsufficientFundsError{Required: o.Amount, Available: c.Deposit}
	}
	if o.Simulated {
		c.Form = o.Form
	}
	if limit := c.SellingLimit(o.StartingLimit, o.UnsettledLimit, o.Form); o.Amount-c.Settled > limit {
		return 0, &UnsettledLimitError{Limit: limit, Unsettled: max(0, c.Accepted-c.Settled)}
	}
	return o.Amount - max(c.Accepted, c.Withdrawn) + c.Credit, nil
}

// stale reports whether a payment is not above the accepted one. Without a chain the first sequence
// number may be 0.
func (c *Channel) stale(p Payment) bool {
	if c.ChainTime.IsZero() && c.Proof == nil && p.Sequence == 0 {
		return p.Amount <= c.Accepted
	}
	return p.Sequence <= c.Sequence || p.Amount <= max(c.Accepted, c.Withdrawn) || p.Sequence < c.NextSequence
}

// Due returns the latest time at which the channel's settlement is submitted to the chain after the
// offer was accepted, unless it replaces an earlier one. It is zero without a chain.
func (c *Channel) Due(o Offer, now time.Time) time.Time {
	if o.SettleAt == 0 {
		return time.Time{}
	}
	atOnce := min(o.SettleAt, max(1, c.SellingLimit(o.StartingLimit, o.UnsettledLimit, o.Form)/2))
	if c.Accepted-max(c.Settled, c.Submitted) >= atOnce {
		return now
	}
	within := o.Expires.Sub(now) / 2
	if c.Expires.Before(o.Expires) {
		within = c.Expires.Sub(now) / 2
	}
	if o.SettleWithin > 0 {
		within = min(within, o.SettleWithin)
	}
	return now.Add(within)
}

// ExpiredAt returns Expired at a time. pending is the time at which the pending settlement expires;
// it is zero if there is none.
func (c *Channel) ExpiredAt(now, pending time.Time) int64 {
	if pending.After(now) || pending.IsZero() && c.Submitted > 0 {
		return 0
	}
	return max(0, c.Accepted-max(c.Settled, c.Submitted, c.Withdrawn))
}

// Apply applies a reading to the channel as Channels.RecordReading describes it, except that it
// settles nothing, and reports whether the reading has an effect. owed is the newest submission's
// amount: until it is settled, a deposit cannot make a stopped channel sell again, because the
// payer still owes it.
func (c *Channel) Apply(r Reading, owed int64, now time.Time) bool {
	latest := now.Add(MaxChainAhead)
	if r.ChainTime.IsZero() || r.ChainTime.After(latest) || r.ChainTime.Before(c.ChainTime) && !c.ChainTime.After(latest) && !r.Corrects {
		return false
	}
	again := r.Withdrawn < c.Withdrawn && !r.Corrects
	if !r.Gone && !r.Created.IsZero() && !c.ChainCreated.IsZero() {
		if r.Created.Before(c.ChainCreated) && !r.Corrects || again && r.Created.Equal(c.ChainCreated) {
			return false // whatever the chain's time, it is older than the recorded one
		}
		again = r.Created.After(c.ChainCreated)
	}
	c.ChainTime, c.Read = r.ChainTime, now
	switch {
	case r.Gone:
		c.Stopped, c.Deposit = "the channel does not exist on the chain", 0
		return true
	case again:
		c.Stopped, c.Deposit = "the channel was ended on the chain, and opened again under its number: open one with another number", 0
		return true
	case r.Deposit < c.Deposit:
		c.Stopped = fmt.Sprintf("the deposit of the channel on the chain has shrunk from %d to %d units", c.Deposit, r.Deposit)
	case r.Deposit > c.Deposit && r.Deposit >= c.Accepted && owed <= c.Settled, r.Withdrawn > max(c.Accepted, c.Settled) && r.Withdrawn <= r.Deposit:
		c.Stopped = ""
	}
	c.Deposit, c.Withdrawn, c.NextSequence, c.Expires = r.Deposit, r.Withdrawn, r.NextSequence, r.Expires
	if !r.Created.IsZero() {
		c.ChainCreated = r.Created
	}
	return true
}

// Collect settles a collected submission. withdrawn is the amount that was withdrawn over the
// channel by then.
func (c *Channel) Collect(sub Submission, withdrawn int64) {
	settled := max(c.Settled, min(sub.Amount, max(c.Withdrawn, withdrawn)))
	c.Collected += settled - c.Settled
	c.Settled, c.Withdrawn = settled, max(c.Withdrawn, settled)
	if sub.Form != "" { // an earlier version's node records none
		c.Form = sub.Form
	}
	if c.Accepted <= c.Deposit {
		c.Stopped = ""
	}
}

// SettleElsewhere settles the amount withdrawn. The part that this service has collected is settled
// already, unless a submission is in flight: its outcome shows how much it has withdrawn itself.
func (c *Channel) SettleElsewhere() {
	if c.Submitted == 0 && c.Withdrawn > c.Settled {
		c.Elsewhere += c.Withdrawn - c.Settled
		c.Settled = c.Withdrawn
	}
}

// SellAgain lets the channel sell if it has stopped because its last submission was not collected,
// and third parties have withdrawn its amount since before.
func (c *Channel) SellAgain(before Channel, last Submission) {
	if last.Amount > before.Settled && last.Amount <= c.Settled && c.Stopped == before.Stopped && c.Accepted <= c.Deposit {
		c.Stopped = ""
	}
}
