package ledgertest

import (
	"fmt"
	"math"
	"time"

	"sluice/database"
	"sluice/database/dbtest"
	"sluice/ledger"
)

// probe is a running check.
type probe struct{ *dbtest.Probe }

// check returns the check that calls fn with a probe.
func check(name string, fn func(p *probe)) dbtest.Check {
	return dbtest.NewCheck(name, func(p *dbtest.Probe) { fn(&probe{p}) })
}

// The times to expiry of payments and sessions.
const (
	paymentLife = time.Minute
	sessionLife = 500 * time.Hour
)

func (p *probe) getChannel(id string) ledger.Channel {
	return dbtest.Value(p.Store.Channel(p.Ctx, id))
}

// recorded returns a channel as calls return it that do not set Expired.
func (p *probe) recorded(id string) ledger.Channel {
	c := p.getChannel(id)
	c.Expired = 0
	return c
}

// pay returns a payment over a channel, with the sender s if the channel has none.
func (p *probe) pay(c ledger.Channel, sequence, amount int64) ledger.Offer {
	pay := ledger.Offer{Payment: ledger.Payment{
		Sender: c.Sender, Receiver: c.Receiver, Asset: c.Asset, PaymentChannelID: c.PaymentChannelID,
		Sequence: sequence, Amount: amount, Proof: fmt.Appendf(nil, "%s\x00%d\xff%d", c.ID, sequence, amount),
		Expires: p.Clock.Now().Add(paymentLife),
	}, Policy: ledger.Policy{UnsettledLimit: math.MaxInt64}}
	if pay.Sender == "" {
		pay.Sender = "s"
	}
	return pay
}

func (p *probe) purchase(pay ledger.Offer, price int64, session string) ledger.Purchase {
	return ledger.Purchase{
		Offer: pay, Price: price,
		Session: ledger.Session{ID: session, UserIdentity: "user", Expires: p.Clock.Now().Add(sessionLife)},
	}
}

// buys buys a session.
func (p *probe) buys(c ledger.Channel, sequence, amount, price int64, session string) ledger.Session {
	s, err := p.Store.Buy(p.Ctx, p.purchase(p.pay(c, sequence, amount), price, session), nil)
	p.OK(err, "buy session %s with %d at sequence %d", session, amount, sequence)
	return s
}

// buysMore buys chunksets for an existing session.
func (p *probe) buysMore(c ledger.Channel, sequence, amount, price int64, session string) ledger.Session {
	buy := p.purchase(p.pay(c, sequence, amount), price, session)
	buy.Refill = true
	s, err := p.Store.Buy(p.Ctx, buy, nil)
	p.OK(err, "refill session %s with %d at sequence %d", session, amount, sequence)
	return s
}

// reads pays for chunksets of one read.
func (p *probe) reads(c ledger.Channel, sequence, amount, price, count int64) ledger.Channel {
	got, err := p.Store.PayRead(p.Ctx, ledger.ReadPurchase{Offer: p.pay(c, sequence, amount), Price: price, Count: count})
	p.OK(err, "read %d chunksets with %d at sequence %d", count, amount, sequence)
	return got
}

// books is the state that a payment over a channel may change.
type books struct {
	channel     ledger.Channel
	sessions    []ledger.Session
	settlements []ledger.Settlement
}

func (p *probe) books(channel string) books {
	sessions := dbtest.Value(p.Store.ChannelSessions(p.Ctx, channel, 1000))
	settlements := dbtest.Value(p.Store.Settlements(p.Ctx, ledger.Settlement{}, 1000))
	return books{p.getChannel(channel), sessions, settlements}
}

// refused ends the check unless fn returns want and changes nothing.
func (p *probe) refused(channel string, want error, label string, fn func() error) {
	before := p.books(channel)
	err := fn()
	p.Must(dbtest.Matches(err, want), "%s: got error %v, want %v", label, err, want)
	p.Equal(p.books(channel), before, "after a refusal (%s)", label)
	p.Audited()
}

// refusedPurchase checks that a purchase is refused and has no effect.
func (p *probe) refusedPurchase(channel string, want error, label string, buy ledger.Purchase) {
	p.refused(channel, want, label, func() error { return dbtest.Error(p.Store.Buy(p.Ctx, buy, nil)) })
}

// refusedRead checks that a payment for chunksets of a read is refused and has no effect.
func (p *probe) refusedRead(channel string, want error, label string, pay ledger.Offer, price, count int64) {
	read := ledger.ReadPurchase{Offer: pay, Price: price, Count: count}
	p.refused(channel, want, label, func() error { return dbtest.Error(p.Store.PayRead(p.Ctx, read)) })
}

// refusedPayment checks that the payment is refused by every method that accepts payments.
func (p *probe) refusedPayment(channel string, pay ledger.Offer, want error, label string) {
	buy := p.purchase(pay, 1, "refused "+label)
	p.refusedPurchase(channel, want, label, buy)
	p.Is(dbtest.Error(p.Store.Session(p.Ctx, buy.Session.ID)), database.ErrNotFound, "session of a refused purchase (%s)", label)
	p.refused(channel, want, label, func() error { return dbtest.Error(p.Store.Buy(p.Ctx, buy, dbtest.Idem("refused", label))) })
	p.refusedRead(channel, want, label, pay, 1, 1)
}
