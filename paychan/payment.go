package paychan

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"sluice/database"
	"sluice/ledger"
	"sluice/micropay"
)

// Verify decodes a micropayment from base64, as it is sent in a header or a JSON body, and checks
// everything that needs no state: its encoding, signature, signer, receiver, module, chain, asset
// and expiry. It returns a *micropay.Error, or ledger.ErrAmountOverflow if a number in it is
// above 2^63-1, or the error of ctx.
//
// Verify verifies the signatures last: there may be 32. Before that it calls afford, unless it is
// nil, with micropay.Micropayment.Work, and returns its error. All calls together verify a few
// signatures at once, in turns: a call that waits for its next signature waits for at most one
// signature of each other call.
func (s *Service) Verify(ctx context.Context, encoded string, afford func(ctx context.Context, work int) error) (ledger.Payment, error) {
	m, err := s.receive(ctx, encoded, afford)
	if err != nil {
		return ledger.Payment{}, err
	}
	if max(m.Amount, m.PaymentChannelID, m.Sequence) > math.MaxInt64 {
		return ledger.Payment{}, fmt.Errorf("a number in the micropayment: %w", ledger.ErrAmountOverflow)
	}
	p := ledger.Payment{
		Sender:           m.Sender.String(),
		Receiver:         m.Receiver.String(),
		Asset:            m.Asset.String(),
		PaymentChannelID: int64(m.PaymentChannelID),
		Sequence:         int64(m.Sequence),
		Amount:           int64(m.Amount),
		Proof:            m.Bytes(),
		Expires:          m.Expires(),
	}
	if s.chain != nil {
		p.Form = m.Form()
	}
	return p, nil
}

// receive is micropay.Receive, which makes the same checks in the same order.
func (s *Service) receive(ctx context.Context, encoded string, afford func(context.Context, int) error) (*micropay.Micropayment, error) {
	m, err := micropay.ParseBase64(encoded)
	if err != nil {
		return nil, err
	}
	if err := s.check(m); err != nil {
		return nil, err
	}
	if err := m.CheckSigner(); err != nil {
		return nil, err
	}
	if afford != nil {
		if err := afford(ctx, m.Work()); err != nil {
			return nil, err
		}
	}
	err = m.VerifySignatures(func(verify func() error) error { return s.turns.take(ctx, verify) })
	if err != nil {
		return nil, err
	}
	return m, nil
}

// check compares a micropayment with the policy. With a chain, the chain's time decides whether it
// has expired, and it must live long enough to be collected.
func (s *Service) check(m *micropay.Micropayment) error {
	policy, now := s.policy, s.meta.Now()
	if s.chain == nil {
		return m.Check(policy, now)
	}
	ahead, err := s.chain.ahead()
	if err != nil {
		return err
	}
	now = now.Add(ahead)
	policy.MinGas, policy.MinGasPrice, policy.MaxGasPrice = s.chain.minGas.Load(), s.chain.minGasPrice.Load(), s.chain.maxGasPrice.Load()
	if err := m.Check(policy, now); err != nil {
		return err
	}
	if left := m.Expires().Sub(now); left < collectMargin {
		return refuse(micropay.ReasonExpired, "it expires in %s, and collecting it takes up to %s: sign it with a longer life", left.Round(time.Second), collectMargin)
	}
	return nil
}

// sell calls accept, which accepts p and sells for it.
func (s *Service) sell(ctx context.Context, p ledger.Payment, accept func(ledger.Offer) error) error {
	offer := ledger.Offer{Payment: p, Policy: s.offerPolicy()}
	if s.chain == nil {
		return accept(offer)
	}
	return s.acceptOnChain(ctx, &attempt{offer: offer, accept: accept})
}

// Live returns nil if there is an open channel for a payment, otherwise ledger.ErrNoChannel,
// ledger.ErrChannelClosed or ledger.ErrChannelExpired.
func (s *Service) Live(ctx context.Context, p ledger.Payment) error {
	c, err := s.meta.FindChannel(ctx, p.Sender, p.Receiver, p.Asset, p.PaymentChannelID)
	if err != nil {
		return err
	}
	if s.chain != nil && s.State(c) == ledger.ChannelExpired && s.chain.refresh(ctx, p, time.Now().Add(chainPatience)) == nil {
		if c, err = s.meta.Channel(ctx, c.ID); err != nil {
			return err
		}
	}
	switch s.State(c) {
	case ledger.ChannelClosed:
		return ledger.ErrChannelClosed
	case ledger.ChannelExpired:
		return ledger.ErrChannelExpired
	default:
		return nil
	}
}

// BuyOptions describes a purchase of chunksets for a session.
type BuyOptions struct {
	Payment      ledger.Payment // from Verify
	UserIdentity string         // for a new session
	SessionID    string         // the session to add to; empty: a new session
}

// Buy accepts a payment and sells as many chunksets as it covers; the rest becomes the channel's
// credit. It returns the session, or, if idem was recorded before, the session as it was first
// returned. idem may be nil. It returns the errors of ledger.Payments.Buy; a refusal has no
// effect. With database.ErrUnknownOutcome, and without an idem, it also returns a Session with
// only ID set: the session's id if it was, or will be, sold.
func (s *Service) Buy(ctx context.Context, b BuyOptions, idem *database.Idempotency) (ledger.Session, error) {
	p := ledger.Purchase{Price: s.opt.Price}
	if b.SessionID == "" {
		p.Session = ledger.Session{ID: s.opt.NewID(), UserIdentity: b.UserIdentity, Expires: s.meta.Now().Add(s.opt.SessionTTL)}
	} else {
		p.Session, p.Refill = ledger.Session{ID: b.SessionID}, true
	}
	if err := s.opt.Space(0); err != nil {
		return ledger.Session{}, err
	}
	var bought ledger.Session
	err := s.sell(ctx, b.Payment, func(o ledger.Offer) (err error) {
		p.Offer = o
		bought, err = s.meta.Buy(ctx, p, idem)
		return err
	})
	if err == nil {
		s.counts.purchases.Add(1)
		s.wake()
	}
	if idem == nil && errors.Is(err, database.ErrUnknownOutcome) {
		bought = ledger.Session{ID: p.Session.ID}
	}
	return bought, err
}

// PayRead accepts a payment and sells exactly count chunksets for one read; the rest becomes the
// channel's credit. It returns the errors of ledger.Payments.PayRead; a refusal has no effect.
// charge is a new, unguessable name by which ReturnRead finds the sale if its outcome is
// database.ErrUnknownOutcome.
func (s *Service) PayRead(ctx context.Context, p ledger.Payment, count int64, charge string) (ledger.Channel, error) {
	if err := s.opt.Space(0); err != nil {
		return ledger.Channel{}, err
	}
	var c ledger.Channel
	err := s.sell(ctx, p, func(o ledger.Offer) (err error) {
		c, err = s.meta.PayRead(ctx, ledger.ReadPurchase{Offer: o, Price: s.opt.Price, Count: count, Charge: charge})
		return err
	})
	if err == nil {
		s.counts.reads.Add(1)
		s.wake()
	}
	return c, err
}

// ReturnRead adds a read's price to the channel's credit, if PayRead sold it under this name; see
// ledger.Payments.ReturnRead.
func (s *Service) ReturnRead(ctx context.Context, p ledger.Payment, charge string) (ledger.Channel, error) {
	return s.meta.ReturnRead(ctx, p, charge)
}

// Return adds the price of count chunksets, which PayRead sold at this price but for which nothing
// was served, to the channel's credit. request identifies the return: repeated with the same
// request, it has no effect.
func (s *Service) Return(ctx context.Context, channelID string, count, price int64, request string) (ledger.Channel, error) {
	return s.meta.ReturnCredit(ctx, channelID, count, price, request)
}
