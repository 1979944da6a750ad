package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"sluice/micropay"
	"sluice/wire"
)

// stale handles a response by which the micropayment m is stale. It believes only amounts that the
// stored micropayment proves.
func (p *Payer) stale(ctx context.Context, s *payerState, m *micropay.Micropayment, e *Error) (Session, error) {
	stored, err := p.own(s, e.StoredMicropayment)
	if c := s.Channel; c.Pending.Amount <= c.Bought && (err != nil || !c.Pending.has(stored)) {
		return Session{}, p.dropped(s, e) // it was to cost nothing
	}
	if err != nil || stored.Amount < m.Amount {
		if ch, err := p.present(ctx, s, s.Channel.ID); err == nil && ch.Settled >= m.Amount {
			return Session{}, fmt.Errorf("client: %w: the chain shows that %d were withdrawn, and no session has the chunksets that it paid for: %w", ErrNotDelivered, ch.Settled, e)
		}
	}
	if err != nil {
		return Session{}, unknown(fmt.Errorf("client: the service reports that a micropayment is stale and does not prove it: %w: %w", err, e))
	}
	c := s.Channel
	switch {
	case c.Pending.has(stored):
		found, err := p.find(ctx, s)
		if err == nil && found.ID == "" && c.Pending.Amount <= c.Bought {
			return Session{}, p.dropped(s, e)
		}
		if err == nil && found.ID == "" {
			err = fmt.Errorf("client: %w: it accepted %d for %d chunksets, and no session has them", ErrNotDelivered, c.Pending.Amount-c.Bought, c.Pending.Chunksets)
		}
		return found, err
	case stored.Sequence < m.Sequence && stored.Amount < m.Amount:
		return Session{}, unknown(fmt.Errorf("client: the service reports that a micropayment is stale, and it is newer than the stored one: %w", e))
	case p.signedHere(s, stored):
		// It was signed here and its purchase was refused, or the state file is an old copy.
		return Session{}, fmt.Errorf("client: %w: it accepted a micropayment of %d that it had refused: %w", ErrNotDelivered, stored.Amount, e)
	}
	// No micropayment so far for this purchase can be accepted any more, or they add nothing.
	cost := c.Pending.Amount - c.Bought
	if err := p.adopt(s, stored.Amount, stored.Sequence, cost); err != nil {
		return Session{}, p.dropped(s, err)
	}
	c.Pending.Amount, c.Pending.Micropayments = c.Bought+cost, nil
	return Session{}, p.sign(s, gas{m.MaxGas, m.GasPrice})
}

// own parses a micropayment and returns an error unless the account signed it for this channel.
func (p *Payer) own(s *payerState, raw []byte) (*micropay.Micropayment, error) {
	m, err := micropay.Parse(raw)
	if err != nil {
		return nil, err
	}
	if err := m.Verify(); err != nil {
		return nil, err
	}
	signed := Terms{Receiver: m.Receiver.String(), Asset: m.Asset.String(), Module: m.ModuleAddress.String(), ChainID: m.ChainID}
	switch {
	case m.Sender != p.o.Signer.Address():
		return nil, fmt.Errorf("the stored micropayment is from %v", m.Sender)
	case signed != *s.Terms || m.PaymentChannelID != s.Channel.PaymentChannelID:
		return nil, errors.New("the stored micropayment is for another channel")
	case m.Amount > maxAmount || m.Sequence > maxAmount:
		return nil, errors.New("the stored micropayment has a number above 2^63-1")
	}
	return m, nil
}

// catchUp adopts the service's numbers if it has accepted more than this state knows: the state is
// new and the channel is not, or the state is an old copy. The service must prove it: catchUp sends
// it a micropayment for an amount that is owed already, or for 1 unit, and it responds that this is
// stale. Nothing proves an amount that the service knows from the chain alone: catchUp believes it
// up to PayerOptions.Withdrawn.
func (p *Payer) catchUp(ctx context.Context, s *payerState, g gas, ch Channel) error {
	c := s.Channel
	switch {
	case ch.known() <= c.Bought:
		return nil
	case ch.known() <= p.o.Withdrawn:
		c.Sequence = max(c.Sequence, ch.Sequence)
		if err := p.adopt(s, ch.known(), c.Sequence, 0); err != nil {
			return err
		}
		return p.file.save(s)
	case ch.Accepted > c.Bought:
		if err := p.prove(ctx, s, g, ch.Accepted); err != nil {
			return err
		}
	}
	switch {
	case ch.Settled <= c.Bought:
		return nil
	case ch.Settled <= c.Signed:
		return fmt.Errorf("client: %w: the chain shows that %d were withdrawn, and %d were bought", ErrNotDelivered, ch.Settled, c.Bought)
	default:
		return fmt.Errorf("client: %w: the service reports that %d were withdrawn from the channel with number %d: look there, and name the amount in PayerOptions.Withdrawn", ErrUnproven, ch.Settled, c.PaymentChannelID)
	}
}

// prove adopts the accepted amount, and the sequence number, that the service proves.
func (p *Payer) prove(ctx context.Context, s *payerState, g gas, accepted uint64) error {
	c := s.Channel
	m, err := p.next(s, max(c.Bought, 1), g)
	if err == nil {
		err = p.file.save(s)
	}
	if err != nil {
		return err
	}
	_, err = p.c.CreateSession(ctx, CreateSessionOptions{Micropayment: m, MaxPrice: p.o.MaxPrice})
	var stored *micropay.Micropayment
	if e, reported := errors.AsType[*Error](err); reported && e.Code == wire.CodeMicropaymentStale {
		stored, err = p.own(s, e.StoredMicropayment)
	} else if err != nil && !isRefusal(err) {
		return err
	}
	if stored == nil || stored.Amount <= c.Bought { // or the service has the amount from the chain alone
		return fmt.Errorf("client: %w: the service reports that it has accepted %d over the channel, and does not prove it: %w", ErrTermsChanged, accepted, cmp.Or(err, errNoProof))
	}
	if p.signedHere(s, stored) {
		return fmt.Errorf("client: %w: it accepted a micropayment of %d that it had refused", ErrNotDelivered, stored.Amount)
	}
	if err := p.adopt(s, stored.Amount, stored.Sequence, 0); err != nil {
		return err
	}
	return p.file.save(s)
}

var errNoProof = errors.New("it has no stored micropayment")

// signedHere reports whether this state signed m, so that it knows its outcome.
func (p *Payer) signedHere(s *payerState, m *micropay.Micropayment) bool {
	return m.Nonce>>32 == uint64(s.Mark) && m.Sequence <= s.Channel.Sequence
}

// adopt continues after a micropayment that another state signed: a lost state file of this
// channel, or the lost end of this one. Its amount is owed already. It returns ErrBudget, and
// changes nothing, if that and cost exceed the budget.
func (p *Payer) adopt(s *payerState, amount, sequence, cost uint64) error {
	c := s.Channel
	bought, now := max(c.Bought, amount), time.Now()
	earlier := s.earlier(now)
	if earlier > maxAmount-bought || cost > maxAmount-bought-earlier || earlier+max(c.collectable(now), bought+cost) > p.o.MaxSpend {
		return fmt.Errorf("client: %w: another state signed %d over the channel, and MaxSpend is %d", ErrBudget, amount, p.o.MaxSpend)
	}
	c.Sequence, c.Bought, c.Signed = max(c.Sequence, sequence), bought, max(c.Signed, bought)
	c.Credit = 0 // the other state may have spent it
	return nil
}
