package money

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/big"
	"time"

	"sluice/database"
	"sluice/database/sqlstore/internal/engine"
	"sluice/database/sqlstore/internal/requests"
	"sluice/ledger"
)

// Buy implements ledger.Payments. It returns ErrExists if a new session's id is in use. A granted
// session still has no channel after it is refilled.
func (s *Ledger) Buy(ctx context.Context, p ledger.Purchase, idem *database.Idempotency) (ledger.Session, error) {
	return s.writeSession(ctx, func(t tx) (ledger.Session, error) {
		return once(t, idem, outcomeOfSession, func() (ledger.Session, error) { return t.buy(p) })
	})
}

func (t tx) buy(p ledger.Purchase) (ledger.Session, error) {
	if p.Price < 1 {
		return ledger.Session{}, errNegative
	}
	c, spendable, err := t.examine(p.Payment, p.Price)
	if err != nil {
		return ledger.Session{}, err
	}
	count := spendable / p.Price
	if count == 0 {
		return ledger.Session{}, &ledger.InsufficientFundsError{Required: p.Price, Available: spendable}
	}
	// The session first, because it can still fail, and then nothing has changed.
	var session ledger.Session
	if p.Refill {
		session, err = t.refillSession(p.Session.ID, count)
	} else {
		session, err = t.addSession(ledger.Session{
			ID: p.Session.ID, UserIdentity: p.Session.UserIdentity, Channel: c.ID,
			Total: count, Expires: p.Session.Expires,
		})
	}
	if err != nil {
		return ledger.Session{}, err
	}
	_, err = t.accept(c, p.Payment, spendable, sale{session: []byte(session.ID), count: count, price: p.Price})
	return session, err
}

// PayRead implements ledger.Payments. The Required of its *InsufficientFundsError is at
// most 2^63-1, whatever Count times Price is.
func (s *Ledger) PayRead(ctx context.Context, r ledger.ReadPurchase) (ledger.Channel, error) {
	return s.writeChannel(ctx, func(t tx) (ledger.Channel, error) {
		if r.Price < 1 || r.Count < 1 {
			return ledger.Channel{}, errNegative
		}
		c, spendable, err := t.examine(r.Payment, r.Price)
		if err != nil {
			return c, err
		}
		if r.Count > spendable/r.Price {
			return c, &ledger.InsufficientFundsError{Required: ledger.Cost(r.Count, r.Price), Available: spendable}
		}
		sold := sale{count: r.Count, price: r.Price}
		if r.Charge != "" {
			name := chargeID(r.Charge)
			sold.charge = name[:]
		}
		return t.accept(c, r.Payment, spendable, sold)
	})
}

// errNoProof is the error for a payment that could not be collected.
var errNoProof = errors.New("sqlstore: a payment must have a sender and a proof")

// examine returns a payment's channel and the amount that can be spent, at a price for a chunkset,
// if the payment is accepted. It changes nothing.
func (t tx) examine(p ledger.Payment, price int64) (_ ledger.Channel, spendable int64, err error) {
	if p.Sender == "" || len(p.Proof) == 0 {
		return ledger.Channel{}, 0, errNoProof
	}
	c, halt, err := t.findChannel(p.Sender, p.Receiver, p.Asset, p.PaymentChannelID)
	if err != nil {
		return c, 0, err
	}
	if err := t.channelOpen(c); err != nil {
		return c, 0, err
	}
	switch {
	case p.SettleAt > 0 && halt != "":
		return c, 0, &ledger.StoppedError{Reason: halt}
	case p.MaxAge > 0 && t.Now.Sub(c.Read) > p.MaxAge:
		return c, 0, ledger.ErrOutdated
	case c.Stopped != "":
		return c, 0, &ledger.StoppedError{Reason: c.Stopped}
	case stale(c, p):
		return c, 0, &ledger.StaleError{Stored: c.Proof}
	case p.MaxPrice > 0 && price > p.MaxPrice:
		return c, 0, &ledger.PriceChangedError{Price: price, Max: p.MaxPrice}
	case p.Amount > c.Deposit:
		return c, 0, &ledger.InsufficientFundsError{Required: p.Amount, Available: c.Deposit}
	}
	if p.Simulated {
		c.Form = p.Form
	}
	if limit := c.SellingLimit(p.StartingLimit, p.UnsettledLimit, p.Form); p.Amount-c.Settled > limit {
		expired, err := t.expired(c, t.Now.Add(p.Ahead))
		if err != nil {
			return c, 0, err
		}
		return c, 0, &ledger.UnsettledLimitError{Limit: limit, Unsettled: max(0, c.Accepted-c.Settled), Expired: expired}
	}
	return c, p.Amount - max(c.Accepted, c.Withdrawn) + c.Credit, nil
}

// stale reports whether a payment is not above what the channel has accepted. Without a chain the
// first sequence number may be 0.
func stale(c ledger.Channel, p ledger.Payment) bool {
	if c.ChainTime.IsZero() && c.Proof == nil && p.Sequence == 0 {
		return p.Amount <= c.Accepted
	}
	return p.Sequence <= c.Sequence || p.Amount <= max(c.Accepted, c.Withdrawn) || p.Sequence < c.NextSequence
}

// sale is a purchase of chunksets by a payment.
type sale struct {
	session any // its id, or nil for a read
	count   int64
	price   int64
	charge  any // the chargeID, or nil
}

// accept records a payment that was examined: it updates the channel and binds it to the sender,
// inserts the sale, and replaces the pending settlement. Withdrawals on the chain above the
// accepted amount count as sold: the payment proves them now.
func (t tx) accept(c ledger.Channel, p ledger.Payment, spendable int64, s sale) (ledger.Channel, error) {
	if unproven := c.Withdrawn - c.Accepted; unproven > 0 {
		if err := t.addFolded(c.ID, big.NewInt(unproven)); err != nil {
			return c, err
		}
	}
	c.Sender, c.Sequence, c.Accepted, c.Proof = p.Sender, p.Sequence, p.Amount, bytes.Clone(p.Proof)
	c.Credit = spendable - s.count*s.price
	id := []byte(c.ID)
	if err := t.Change(`UPDATE channels SET sender = $2, sequence = $3, accepted = $4, proof = $5, credit = $6, form = $7 WHERE id = $1`,
		id, []byte(c.Sender), c.Sequence, c.Accepted, c.Proof, c.Credit, engine.OptionalColumn(c.Form)); err != nil {
		return c, err
	}
	if err := t.Change(`INSERT INTO sales (id, channel, sequence, session, count, price, at, charge) VALUES ($8, $1, $2, $3, $4, $5, $6, $7)`,
		id, c.Sequence, s.session, s.count, s.price, engine.Micros(t.Now), s.charge, t.saleID()); err != nil {
		return c, err
	}
	return c, t.settleLater(c, p.Expires, due(c, p, t.Now))
}

// settleLater makes the payment that proves what is accepted the pending settlement of its channel.
// It is due at a time, or never if that is zero.
func (t tx) settleLater(c ledger.Channel, expires, due time.Time) error {
	return t.Change(`INSERT INTO settlements (channel, sequence, amount, proof, expires, due) VALUES ($1, $2, $3, $4, $5, $6)
		ON CONFLICT (channel) DO UPDATE SET sequence = excluded.sequence, amount = excluded.amount,
		proof = excluded.proof, expires = excluded.expires,
		due = CASE WHEN settlements.due < excluded.due THEN settlements.due ELSE excluded.due END`,
		[]byte(c.ID), c.Sequence, c.Accepted, c.Proof, expires.UnixMicro(), engine.Micros(due))
}

// expired returns what ledger.Channel.Expired is at the given time.
func (t tx) expired(c ledger.Channel, now time.Time) (int64, error) {
	var pending time.Time
	_, err := t.Row(`SELECT expires FROM settlements WHERE channel = $1`, engine.Args{[]byte(c.ID)}, (*engine.Instant)(&pending))
	return expiredOf(c, pending, now), err
}

// expiredOf is expired with the time at which the pending settlement expires; it is zero if there
// is none.
func expiredOf(c ledger.Channel, pending, now time.Time) int64 {
	if pending.After(now) || pending.IsZero() && c.Submitted > 0 {
		return 0
	}
	return max(0, c.Accepted-max(c.Settled, c.Submitted, c.Withdrawn))
}

// Renew implements ledger.Payments.
func (s *Ledger) Renew(ctx context.Context, p ledger.Payment) (ledger.Channel, error) {
	return s.writeChannel(ctx, func(t tx) (ledger.Channel, error) {
		if p.Sender == "" || len(p.Proof) == 0 {
			return ledger.Channel{}, errNoProof
		}
		c, _, err := t.findChannel(p.Sender, p.Receiver, p.Asset, p.PaymentChannelID)
		if err != nil {
			return c, err
		}
		at := t.Now.Add(p.Ahead)
		expired, err := t.expired(c, at)
		switch {
		case err != nil:
			return c, err
		case bytes.Equal(p.Proof, c.Proof): // it was renewed by an earlier call
			c.Expired = expired
			return c, nil
		case !at.Before(c.Expires):
			return c, ledger.ErrChannelExpired
		case p.Amount != c.Accepted || p.Sequence <= c.Sequence || p.Sequence < c.NextSequence:
			return c, &ledger.StaleError{Stored: c.Proof}
		case expired == 0:
			return c, ledger.ErrNothingExpired
		case p.Amount > c.Deposit:
			return c, &ledger.InsufficientFundsError{Required: p.Amount, Available: c.Deposit}
		}
		if c.Sequence, c.Proof = p.Sequence, bytes.Clone(p.Proof); p.Simulated {
			c.Form = p.Form
		}
		if err := t.Change(`UPDATE channels SET sequence = $2, proof = $3, form = $4 WHERE id = $1`, []byte(c.ID), c.Sequence, c.Proof, engine.OptionalColumn(c.Form)); err != nil {
			return c, err
		}
		var due time.Time
		if p.SettleAt > 0 {
			due = t.Now
		}
		return c, t.settleLater(c, p.Expires, due)
	})
}

// due returns the latest time at which a channel's settlement is submitted to the chain after p was
// accepted, unless it replaces an earlier one. It is zero without a chain.
func due(c ledger.Channel, p ledger.Payment, now time.Time) time.Time {
	if p.SettleAt == 0 {
		return time.Time{}
	}
	atOnce := min(p.SettleAt, max(1, c.SellingLimit(p.StartingLimit, p.UnsettledLimit, p.Form)/2))
	if c.Accepted-max(c.Settled, c.Submitted) >= atOnce {
		return now
	}
	within := p.Expires.Sub(now) / 2
	if c.Expires.Before(p.Expires) {
		within = c.Expires.Sub(now) / 2
	}
	if p.SettleWithin > 0 {
		within = min(within, p.SettleWithin)
	}
	return now.Add(within)
}

// errNotSold is the error for returning chunksets that were never sold.
var errNotSold = errors.New("sqlstore: more would be returned than was sold")

// ReturnCredit implements ledger.Payments. It returns an error if the credit would exceed
// the accepted amount. A return is recorded for database.IdempotencyRetention.
func (s *Ledger) ReturnCredit(ctx context.Context, id string, count, price int64, request string) (ledger.Channel, error) {
	if count < 1 || price < 1 {
		return ledger.Channel{}, errNegative
	}
	return s.writeChannel(ctx, func(t tx) (ledger.Channel, error) {
		c, err := t.channel(id)
		if err != nil {
			return c, err
		}
		key := returnID("channel", id, request)
		if returned, err := requests.Marked(t.Tx, key); err != nil || returned {
			return c, err
		}
		if count > (c.Accepted-c.Credit)/price {
			return c, fmt.Errorf("channel: %w", errNotSold)
		}
		if c, err = t.addCredit(c, count, price); err != nil {
			return c, err
		}
		return c, requests.Mark(t.Tx, key)
	})
}

// addCredit returns the price of sold chunksets to the channel's credit.
func (t tx) addCredit(c ledger.Channel, count, price int64) (ledger.Channel, error) {
	c.Credit += count * price
	if _, err := t.Exec(`UPDATE channels SET credit = $2 WHERE id = $1`, []byte(c.ID), c.Credit); err != nil {
		return c, err
	}
	_, err := t.Exec(`INSERT INTO sales (id, channel, count, price, at) VALUES ($1, $2, $3, $4, $5)`,
		t.saleID(), []byte(c.ID), -count, price, engine.Micros(t.Now))
	return c, err
}

// saleID returns an id for a new sale. It begins with the time, so that rows are appended.
func (t tx) saleID() []byte {
	id := engine.NewRowID(t.Now)
	return id[:]
}
