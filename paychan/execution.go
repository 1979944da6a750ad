package paychan

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"sluice/ledger"
	"sluice/micropay"
)

// attempt is a payment that is being accepted, by a sale or by a renewal.
type attempt struct {
	offer  ledger.Offer
	until  time.Time // when it stops waiting for the chain
	renews bool
	accept func(ledger.Offer) error
}

// acceptOnChain accepts a payment that the chain would execute, as far as that is known. The
// channel is read before that if it was not read recently, or after a refusal that a newer reading
// may lift. If it cannot be read, the last reading counts: the selling limit bounds the loss.
func (s *Service) acceptOnChain(ctx context.Context, a *attempt) error {
	ahead, err := s.chain.ahead()
	if err != nil {
		return err
	}
	a.until = time.Now().Add(chainPatience)
	a.offer.Ahead, a.offer.MaxAge = ahead, s.chain.opt.Refresh
	err = s.try(ctx, a)
	outdated := errors.Is(err, ledger.ErrOutdated)
	if !outdated && !mayHaveChanged(err, a.offer.Payment) {
		return err
	}
	if failed := s.chain.refresh(ctx, a.offer.Payment, a.until); failed != nil && !outdated {
		return err
	}
	a.offer.MaxAge = everRead
	return s.try(ctx, a)
}

// everRead is the greatest age where any reading will do, but there must be one.
const everRead = 100 * 365 * 24 * time.Hour

// mayHaveChanged reports whether a refusal's reason may be gone, after the payer's transaction
// since the channel was read: a new deposit, or a later expiry.
func mayHaveChanged(err error, p ledger.Payment) bool {
	return errors.Is(err, ledger.ErrChannelStopped) || errors.Is(err, ledger.ErrChannelExpired) || exceedsDeposit(err, p)
}

// exceedsDeposit reports whether a payment was refused because its amount is above the deposit.
func exceedsDeposit(err error, p ledger.Payment) bool {
	funds, ok := errors.AsType[*ledger.InsufficientFundsError](err)
	return ok && funds.Required == p.Amount && funds.Available < p.Amount
}

// try accepts a payment once. A payment that the store would refuse anyway is left to it, so that
// the chain is not asked for it.
func (s *Service) try(ctx context.Context, a *attempt) error {
	p := &a.offer
	c, err := s.meta.FindChannel(ctx, p.Sender, p.Receiver, p.Asset, p.PaymentChannelID)
	if err != nil {
		return err
	}
	if a.acceptable(c, s.meta.Now()) {
		if err := s.examine(ctx, c, a); err != nil {
			return err
		}
	}
	return a.accept(*p)
}

// acceptable reports whether the store has no reason to refuse the payment except for the selling
// limit.
func (a *attempt) acceptable(c ledger.Channel, now time.Time) bool {
	p := &a.offer
	switch {
	case p.Sequence <= c.Sequence || p.Sequence < c.NextSequence || p.Amount > c.Deposit || !now.Before(c.Expires):
		return false
	case a.renews:
		return p.Amount == c.Accepted
	default:
		return p.Amount > max(c.Accepted, c.Withdrawn) && c.State(now) == ledger.ChannelOpen && now.Sub(c.Read) <= p.MaxAge
	}
}

// examine returns an error if the chain would not execute the payment, or if collecting it would
// cost more than it pays. As far as that cannot be found out, the payment sells up to the starting
// limit only.
func (s *Service) examine(ctx context.Context, c ledger.Channel, a *attempt) error {
	p := &a.offer
	if left := c.Expires.Sub(s.meta.Now().Add(p.Ahead)); left < collectMargin {
		return ErrChannelEnding
	}
	m, err := micropay.Parse(p.Proof)
	if err != nil {
		return err
	}
	if err := s.chain.checkSequence(ctx, m, a); err != nil {
		return err
	}
	if !p.Simulated && c.Form != p.Form {
		if err := s.checkPrice(ctx, m, a); err != nil {
			return err
		}
		if err := s.chain.simulate(ctx, m, a); err != nil {
			return err
		}
	}
	return s.chain.checkFee(c, p, m)
}

// checkPrice compares the gas price in a payment of a new form with the usual one, which may not
// have been known when the payment was verified. Without it nothing bounds the receiver's cost of
// collecting the payment, so checkPrice returns ErrChain if it cannot be read.
func (s *Service) checkPrice(ctx context.Context, m *micropay.Micropayment, a *attempt) error {
	if s.chain.maxGasPrice.Load() > 0 {
		return s.check(m)
	}
	prices, _, err := s.chain.prices.get(ctx, struct{}{}, a.until, func(ctx context.Context) (gasPrices, error) {
		least, usual, err := s.chain.opt.GasPrices(ctx)
		return gasPrices{least, usual}, err
	})
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return fmt.Errorf("%w: the price of gas: %w", ErrChain, err)
	}
	s.SetGasPrices(prices.least, prices.usual)
	return s.check(m)
}

// checkFee refuses a payment that can never pay its own gas: at most the selling limit, or the
// deposit that is not settled, is collected together.
func (o *onChain) checkFee(c ledger.Channel, p *ledger.Offer, m *micropay.Micropayment) error {
	if o.opt.Worth == nil {
		return nil
	}
	fee := o.opt.Worth(o.minGas.Load(), m.GasPrice)
	most := min(c.Deposit-c.Settled, c.SellingLimit(p.StartingLimit, p.UnsettledLimit, c.Form))
	if fee <= most {
		return nil
	}
	return refuse(micropay.ReasonUnprofitable, "its gas is worth %d units at its price of %d, and at most %d units are collected together over this channel", fee, m.GasPrice, most)
}

// checkSequence refuses a payment that the chain executes at one sequence number only, if the
// sender's account has passed that. If the chain does not answer, the payment sells up to the
// starting limit.
func (o *onChain) checkSequence(ctx context.Context, m *micropay.Micropayment, a *attempt) error {
	if !m.UsesAccountSequence() {
		return nil
	}
	next, _, err := o.sequences.get(ctx, m.Sender, a.until, func(ctx context.Context) (uint64, error) { return o.opt.AccountSequence(ctx, m.Sender) })
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		a.offer.UnsettledLimit = min(a.offer.UnsettledLimit, a.offer.StartingLimit)
	case m.AccountSequence < next:
		return refuse(micropay.ReasonAccountSequence, "its account sequence number is %d, and the next one of the account is %d: sign it with that one, or with a nonce", m.AccountSequence, next)
	}
	return nil
}

// simulate refuses a payment that the chain would not execute. If the chain does not answer, or if
// another payment over the channel is being simulated, the payment counts as not simulated.
func (o *onChain) simulate(ctx context.Context, m *micropay.Micropayment, a *attempt) error {
	p := &a.offer
	result, own, err := o.simulations.get(ctx, nameOf(&p.Payment), a.until, func(ctx context.Context) (simulated, error) {
		result, err := o.opt.Simulate(ctx, m)
		return simulated{result, p.Form}, err
	})
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil || result.form != p.Form:
		return nil
	case result.Success:
		o.counts.simulated.Add(1)
		o.needed(result.GasUsed)
		p.Simulated = true
		return nil
	case !own || isReceivers(result.VMStatus): // the other payment may have been refused for its number
		return nil
	default:
		o.counts.refused.Add(1)
		return refuse(micropay.ReasonExecution, "the chain would not execute it: %s", result.VMStatus)
	}
}

// isReceivers reports whether the chain refuses a transaction because of the account that pays its
// gas: the receiver's, not the payer's.
func isReceivers(status string) bool {
	return strings.Contains(status, "INSUFFICIENT_BALANCE_FOR_TRANSACTION_FEE")
}

// needed raises the least maximum gas to the gas that a transaction took.
func (o *onChain) needed(gas uint64) {
	gas = min(gas, maxMinGas)
	for {
		if least := o.minGas.Load(); gas <= least || o.minGas.CompareAndSwap(least, gas) {
			return
		}
	}
}

func refuse(reason micropay.Reason, format string, args ...any) error {
	return &micropay.Error{Class: micropay.ClassPolicy, Reason: reason, Detail: fmt.Sprintf(format, args...)}
}
