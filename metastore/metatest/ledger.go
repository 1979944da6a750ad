package metatest

import (
	"fmt"
	"math"
	"time"

	"sluice/database"
	"sluice/ledger"
)

// The times to expiry of the channels, payments and sessions of the checks.
const (
	channelLife = 1000 * time.Hour
	paymentLife = time.Minute
	sessionLife = 500 * time.Hour
)

// channel opens a channel with a new number.
func (p *probe) channel(id, sender string, deposit int64) ledger.Channel {
	p.keys++
	c, err := p.store.OpenChannel(p.ctx, ledger.Channel{
		ID: id, PaymentChannelID: int64(p.keys), Sender: sender, Receiver: "receiver", Asset: "asset",
		Deposit: deposit, Expires: p.clock.Now().Add(channelLife),
	}, nil)
	p.ok(err, "open channel")
	return c
}

func (p *probe) getChannel(id string) ledger.Channel {
	c, err := p.store.Channel(p.ctx, id)
	p.ok(err, "channel")
	return c
}

// recorded returns a channel as calls return it that do not set Expired.
func (p *probe) recorded(id string) ledger.Channel {
	c := p.getChannel(id)
	c.Expired = 0
	return c
}

// pay returns a payment over a channel, with the sender s if the channel has none.
func (p *probe) pay(c ledger.Channel, sequence, amount int64) ledger.Payment {
	pay := ledger.Payment{
		Sender: c.Sender, Receiver: c.Receiver, Asset: c.Asset, PaymentChannelID: c.PaymentChannelID,
		Sequence: sequence, Amount: amount, Proof: fmt.Appendf(nil, "%s\x00%d\xff%d", c.ID, sequence, amount),
		Expires: p.clock.Now().Add(paymentLife), UnsettledLimit: math.MaxInt64,
	}
	if pay.Sender == "" {
		pay.Sender = "s"
	}
	return pay
}

func (p *probe) purchase(pay ledger.Payment, price int64, session string) ledger.Purchase {
	return ledger.Purchase{
		Payment: pay, Price: price,
		Session: ledger.Session{ID: session, UserIdentity: "user", Expires: p.clock.Now().Add(sessionLife)},
	}
}

// buys buys a session.
func (p *probe) buys(c ledger.Channel, sequence, amount, price int64, session string) ledger.Session {
	s, err := p.store.Buy(p.ctx, p.purchase(p.pay(c, sequence, amount), price, session), nil)
	p.ok(err, "buy session %s with %d at sequence %d", session, amount, sequence)
	return s
}

// buysMore buys chunksets for an existing session.
func (p *probe) buysMore(c ledger.Channel, sequence, amount, price int64, session string) ledger.Session {
	buy := p.purchase(p.pay(c, sequence, amount), price, session)
	buy.Refill = true
	s, err := p.store.Buy(p.ctx, buy, nil)
	p.ok(err, "refill session %s with %d at sequence %d", session, amount, sequence)
	return s
}

// reads pays for chunksets of one read.
func (p *probe) reads(c ledger.Channel, sequence, amount, price, count int64) ledger.Channel {
	got, err := p.store.PayRead(p.ctx, ledger.ReadPurchase{Payment: p.pay(c, sequence, amount), Price: price, Count: count})
	p.ok(err, "read %d chunksets with %d at sequence %d", count, amount, sequence)
	return got
}

// audited ends the check if Audit reports an inconsistency.
func (p *probe) audited() {
	found, err := p.store.Audit(p.ctx)
	p.ok(err, "audit")
	p.must(len(found) == 0, "the audit found: %q", found)
}

// books is the state that a payment over a channel may change.
type books struct {
	channel     ledger.Channel
	sessions    []ledger.Session
	settlements []ledger.Settlement
}

func (p *probe) books(channel string) books {
	sessions, err := p.store.ChannelSessions(p.ctx, channel, 1000)
	p.ok(err, "sessions of a channel")
	settlements, err := p.store.Settlements(p.ctx, ledger.Settlement{}, 1000)
	p.ok(err, "settlements")
	return books{p.getChannel(channel), sessions, settlements}
}

// refused ends the check unless fn returns want and changes nothing.
func (p *probe) refused(channel string, want error, what string, fn func() error) {
	before := p.books(channel)
	err := fn()
	p.must(matches(err, want), "%s: got error %v, want %v", what, err, want)
	p.equal(p.books(channel), before, "after a refusal (%s)", what)
	p.audited()
}

// refusedPayment checks that the payment is refused by every method that accepts payments.
func (p *probe) refusedPayment(channel string, pay ledger.Payment, want error, what string) {
	buy := p.purchase(pay, 1, "refused "+what)
	p.refused(channel, want, what, func() error {
		_, err := p.store.Buy(p.ctx, buy, nil)
		return err
	})
	_, err := p.store.Session(p.ctx, buy.Session.ID)
	p.is(err, database.ErrNotFound, "session of a refused purchase (%s)", what)
	p.refused(channel, want, what, func() error {
		_, err := p.store.Buy(p.ctx, buy, idem("refused", what))
		return err
	})
	p.refused(channel, want, what, func() error {
		_, err := p.store.PayRead(p.ctx, ledger.ReadPurchase{Payment: pay, Price: 1, Count: 1})
		return err
	})
}
