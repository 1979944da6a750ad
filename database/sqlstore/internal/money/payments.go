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
	c, spendable, err := t.examine(p.Offer, p.Price)
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
	_, err = t.accept(c, p.Offer, spendable, sale{session: []byte(session.ID), count: count, price: p.Price})
	return session, err
}

// PayRead implements ledger.Payments. The Required of its *InsufficientFundsError is at
// most 2^63-1, whatever Count times Price is.
func (s *Ledger) PayRead(ctx context.Context, r ledger.ReadPurchase) (ledger.Channel, error) {
	return s.writeChannel(ctx, func(t tx) (ledger.Channel, error) {
		if r.Price < 1 || r.Count < 1 {
			return ledger.Channel{}, errNegative
		}
		c, spendable, err := t.examine(r.Offer, r.Price)
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
		return t.accept(c, r.Offer, spendable, sold)
	})
}

// errNoProof is the error for a payment that could not be collected.
var errNoProof = errors.New("sqlstore: a payment must have a sender and a proof")

// examine returns an offer's channel and the amount that can be spent, at a price for a chunkset,
// if the offer is accepted. It changes nothing.
func (t tx) examine(o ledger.Offer, price int64) (_ ledger.Channel, spendable int64, err error) {
	if o.Sender == "" || len(o.Proof) == 0 {
		return ledger.Channel{}, 0, errNoProof
	}
	c, halt, err := t.findChannel(o.Sender, o.Receiver, o.Asset, o.PaymentChannelID)
	if err != nil {
		return c, 0, err
	}
	spendable, err = c.Examine(o, price, halt, t.Now)
	if limit, ok := errors.AsType[*ledger.UnsettledLimitError](err); ok {
		var failed error
		if limit.Expired, failed = t.expired(c, t.Now.Add(o.Ahead)); failed != nil {
			return c, 0, failed
		}
	}
	return c, spendable, err
}

// sale is a purchase of chunksets by a payment.
type sale struct {
	session any // its id, or nil for a read
	count   int64
	price   int64
	charge  any // the chargeID, or nil
}

// accept records an offer that was examined: it updates the channel and binds it to the sender,
// inserts the sale, and replaces the pending settlement. Withdrawals on the chain above the
// accepted amount count as sold: the payment proves them now.
func (t tx) accept(c ledger.Channel, o ledger.Offer, spendable int64, s sale) (ledger.Channel, error) {
	if unproven := c.Withdrawn - c.Accepted; unproven > 0 {
		if err := t.addFolded(c.ID, big.NewInt(unproven)); err != nil {
			return c, err
		}
	}
	c.Sender, c.Sequence, c.Accepted, c.Proof = o.Sender, o.Sequence, o.Amount, bytes.Clone(o.Proof)
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
	return c, t.settleLater(c, o.Expires, c.Due(o, t.Now))
}

// settleLater makes the payment that proves the accepted amount its channel's pending settlement.
// It is due at a time, or never if that is zero.
func (t tx) settleLater(c ledger.Channel, expires, due time.Time) error {
	return t.Change(`INSERT INTO settlements (channel, sequence, amount, proof, expires, due) VALUES ($1, $2, $3, $4, $5, $6)
		ON CONFLICT (channel) DO UPDATE SET sequence = excluded.sequence, amount = excluded.amount,
		proof = excluded.proof, expires = excluded.expires,
		due = CASE WHEN settlements.due < excluded.due THEN settlements.due ELSE excluded.due END`,
		[]byte(c.ID), c.Sequence, c.Accepted, c.Proof, expires.UnixMicro(), engine.Micros(due))
}

// expired returns ledger.Channel.Expired at the given time.
func (t tx) expired(c ledger.Channel, now time.Time) (int64, error) {
	var pending time.Time
	_, err := t.Row(`SELECT expires FROM settlements WHERE channel = $1`, engine.Args{[]byte(c.ID)}, (*engine.Instant)(&pending))
	return c.ExpiredAt(now, pending), err
}

// Renew implements ledger.Payments.
func (s *Ledger) Renew(ctx context.Context, o ledger.Offer) (ledger.Channel, error) {
	return s.writeChannel(ctx, func(t tx) (ledger.Channel, error) {
		if o.Sender == "" || len(o.Proof) == 0 {
			return ledger.Channel{}, errNoProof
		}
		c, _, err := t.findChannel(o.Sender, o.Receiver, o.Asset, o.PaymentChannelID)
		if err != nil {
			return c, err
		}
		at := t.Now.Add(o.Ahead)
		expired, err := t.expired(c, at)
		switch {
		case err != nil:
			return c, err
		case bytes.Equal(o.Proof, c.Proof): // it was renewed by an earlier call
			c.Expired = expired
			return c, nil
		case !at.Before(c.Expires):
			return c, ledger.ErrChannelExpired
		case o.Amount != c.Accepted || o.Sequence <= c.Sequence || o.Sequence < c.NextSequence:
			return c, &ledger.StaleError{Stored: c.Proof}
		case expired == 0:
			return c, ledger.ErrNothingExpired
		case o.Amount > c.Deposit:
			return c, &ledger.InsufficientFundsError{Required: o.Amount, Available: c.Deposit}
		}
		if c.Sequence, c.Proof = o.Sequence, bytes.Clone(o.Proof); o.Simulated {
			c.Form = o.Form
		}
		if err := t.Change(`UPDATE channels SET sequence = $2, proof = $3, form = $4 WHERE id = $1`, []byte(c.ID), c.Sequence, c.Proof, engine.OptionalColumn(c.Form)); err != nil {
			return c, err
		}
		var due time.Time
		if o.SettleAt > 0 {
			due = t.Now
		}
		return c, t.settleLater(c, o.Expires, due)
	})
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
