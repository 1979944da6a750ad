package client

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"strconv"

	"sluice/wire"
)

// offer is a service's terms for a payment.
type offer struct {
	price uint64 // for a chunkset
	gas   gas    // of micropayments
	chain bool   // the service collects on a chain
}

// gas is a micropayment's maximum gas, and the price of gas in the chain's smallest coin. The
// receiver pays it.
type gas struct{ max, price uint64 }

// usualGas is the public client's maximum gas and gas price.
var usualGas = gas{200_000, 100}

// offer checks the service's terms and returns them. It sets the state's terms if there are none.
func (p *Payer) offer(ctx context.Context, s *payerState) (offer, error) {
	info, err := p.c.Info(ctx)
	if err != nil {
		return offer{}, err
	}
	if err := p.checkTerms(s, info); err != nil {
		return offer{}, err
	}
	price, err := strconv.ParseUint(info.Payment.ChunksetPrice, 10, 63)
	if err != nil || price == 0 {
		return offer{}, fmt.Errorf("client: %w: the price of a chunkset is %q", ErrTermsChanged, info.Payment.ChunksetPrice)
	}
	g, err := gasOf(&info.Payment)
	return offer{price, g, info.Payment.Settlement == wire.SettlementChain}, err
}

// affordable returns ErrBudget if the price is above MaxPrice.
func (p *Payer) affordable(of offer) error {
	if of.price > p.o.MaxPrice {
		return fmt.Errorf("client: %w: the price of a chunkset is %d, and the greatest price is %d", ErrBudget, of.price, p.o.MaxPrice)
	}
	return nil
}

// gasOf returns the usual gas, or as near to it as the terms permit.
func gasOf(terms *wire.Payment) (gas, error) {
	var minGas, minPrice, maxPrice, maxFee uint64
	for _, n := range []amountMember{
		{"minGas", terms.MinGas, &minGas}, {"minGasPrice", terms.MinGasPrice, &minPrice}, {"maxGasPrice", terms.MaxGasPrice, &maxPrice}, {"maxFee", terms.MaxFee, &maxFee},
	} {
		if n.value == "" {
			continue
		}
		if err := n.parse(); err != nil {
			return gas{}, fmt.Errorf("client: %w: %w", ErrTermsChanged, err)
		}
	}
	g := usualGas
	if minPrice > 0 {
		g.price = minPrice
	}
	if maxPrice > 0 {
		g.price = min(g.price, maxPrice)
	}
	if maxFee > 0 && g.price > 0 {
		g.max = min(g.max, maxFee/g.price)
	}
	g.max = max(g.max, minGas)
	return g, nil
}

// checkTerms returns ErrTermsChanged unless the service's terms equal the state's. It sets them if
// there are none.
func (p *Payer) checkTerms(s *payerState, info wire.Info) error {
	given := Terms{Receiver: info.Payment.Receiver, Asset: info.Payment.Asset, Module: info.Payment.Module, ChainID: uint8(info.Payment.ChainID)}
	offered, err := given.canonical()
	if err != nil || info.Payment.ChainID != int(offered.ChainID) {
		return fmt.Errorf("client: %w: the terms of the service are invalid: %+v", ErrTermsChanged, info.Payment)
	}
	if s.Terms == nil {
		s.Terms = &offered
	}
	if *s.Terms != offered {
		err = fmt.Errorf("client: %w: %s", ErrTermsChanged, offered.changes(*s.Terms))
		if p.o.Terms == nil {
			err = fmt.Errorf("%w; if another instance is at %s now, it requires another state file than %s", err, p.c.URL(), p.file.path)
		}
		return err
	}
	return nil
}

// checkNamed returns an error if the options name another channel than the state's.
func (p *Payer) checkNamed(s *payerState) error {
	c := s.Channel
	switch {
	case c == nil || c.ID == "":
		return nil
	case p.o.ChannelID != "" && p.o.ChannelID != c.ID:
		return fmt.Errorf("client: %w: in %s it has the id %s, and PayerOptions.ChannelID is %s", ErrOtherChannel, p.file.path, c.ID, p.o.ChannelID)
	case p.o.PaymentChannelID != 0 && p.o.PaymentChannelID != c.PaymentChannelID:
		return fmt.Errorf("client: %w: in %s it has the number %d, and PayerOptions.PaymentChannelID is %d", ErrOtherChannel, p.file.path, c.PaymentChannelID, p.o.PaymentChannelID)
	}
	return nil
}

// channel returns the channel, over which payments are possible. If the state has none, it opens
// one or looks at the one that the options name.
func (p *Payer) channel(ctx context.Context, s *payerState, of offer) (Channel, error) {
	var ch Channel
	var err error
	if p.o.ChannelID != "" || s.Channel != nil && s.Channel.ID != "" {
		ch, err = p.look(ctx, s)
	} else if ch, err = p.open(ctx, s, of); err == nil {
		err = p.checkChannel(&ch, s)
	}
	switch {
	case err != nil:
		return Channel{}, err
	case ch.State != "open" && ch.State != "stopped":
		return Channel{}, fmt.Errorf("client: %w: the state of the channel is %q", ErrGone, ch.State)
	}
	return ch, p.keep(s, &ch)
}

// look returns the state's channel or, if it has none, the one that the options name. It may be
// closed.
func (p *Payer) look(ctx context.Context, s *payerState) (Channel, error) {
	if err := p.checkNamed(s); err != nil {
		return Channel{}, err
	}
	id := p.o.ChannelID
	if s.Channel != nil && s.Channel.ID != "" {
		id = s.Channel.ID
	}
	ch, err := p.present(ctx, s, id)
	if err != nil {
		return Channel{}, err
	}
	if s.Channel == nil || s.Channel.ID == "" {
		// The accepted amount that the service reports is not believed: see adopt.
		s.Channel = &channelRecord{PaymentChannelID: cmp.Or(p.o.PaymentChannelID, ch.PaymentChannelID)}
	}
	return ch, p.checkChannel(&ch, s)
}

// present returns a channel. If the service has lost the state's channel, because it was set back,
// present opens it again under its number: the amount that was signed for it can still be
// collected.
func (p *Payer) present(ctx context.Context, s *payerState, id string) (Channel, error) {
	ch, err := p.c.Channel(ctx, id)
	c := s.Channel
	if e, _ := errors.AsType[*Error](err); e == nil || e.Code != wire.CodeLostInRollback || c == nil || c.ID != id {
		return ch, err
	}
	if c.OpenKey == "" {
		c.OpenKey = rand.Text()
		if err := p.file.save(s); err != nil {
			return Channel{}, err
		}
	}
	ch, openErr := p.c.OpenChannel(ctx, OpenChannelOptions{
		Sender: s.Account, Asset: s.Terms.Asset, Deposit: c.Deposit, PaymentChannelID: c.PaymentChannelID, IdempotencyKey: c.OpenKey,
	})
	if openErr != nil {
		return Channel{}, fmt.Errorf("client: the service has lost the channel, and does not open it again: %w: %w", openErr, err)
	}
	c.ID = ch.ID
	return ch, p.file.save(s)
}

// keep writes the channel's id if the state does not have it.
func (p *Payer) keep(s *payerState, ch *Channel) error {
	if s.Channel.ID != "" {
		return nil
	}
	s.Channel.ID = ch.ID
	return p.file.save(s)
}

// checkChannel returns an error unless the channel is the payer's.
func (p *Payer) checkChannel(ch *Channel, s *payerState) error {
	switch {
	case ch.ID == "" || ch.PaymentChannelID != s.Channel.PaymentChannelID:
		return fmt.Errorf("client: %w: the service returned another channel than requested: number %d, not %d", ErrTermsChanged, ch.PaymentChannelID, s.Channel.PaymentChannelID)
	case ch.Sender != "" && ch.Sender != p.Address():
		return fmt.Errorf("client: %w: the channel belongs to %s, and the key to %s", ErrTermsChanged, ch.Sender, p.Address())
	case ch.Receiver != s.Terms.Receiver || ch.Asset != s.Terms.Asset:
		return fmt.Errorf("client: %w: the channel pays %s in %s", ErrTermsChanged, ch.Receiver, ch.Asset)
	}
	return nil
}

// open opens a channel. The payer writes its number before it sends the request, so that the same
// channel is found if the response is lost. On a chain the channel must exist, so that its number
// must be known.
func (p *Payer) open(ctx context.Context, s *payerState, of offer) (Channel, error) {
	number := p.o.PaymentChannelID
	fresh := s.Channel == nil || number != 0 && number != s.Channel.PaymentChannelID
	if fresh {
		switch {
		case of.chain && number == 0:
			return Channel{}, fmt.Errorf("client: %w: open one there for the receiver %s and the asset %s, and name its number in PayerOptions.PaymentChannelID", ErrNoChannel, s.Terms.Receiver, s.Terms.Asset)
		case of.chain && p.o.Deposit != 0:
			return Channel{}, fmt.Errorf("client: %w: PayerOptions.Deposit is %d, and the service reads the deposit from the chain", ErrInvalid, p.o.Deposit)
		case number == 0:
			number = 1 + mathrand.Uint64N(1<<53-1)
		}
		s.Channel = &channelRecord{PaymentChannelID: number, OpenKey: rand.Text(), Deposit: p.o.Deposit}
		if err := p.file.save(s); err != nil {
			return Channel{}, err
		}
	}
	ch, err := p.c.OpenChannel(ctx, OpenChannelOptions{
		Sender: s.Account, Asset: s.Terms.Asset, Deposit: s.Channel.Deposit,
		PaymentChannelID: s.Channel.PaymentChannelID, IdempotencyKey: s.Channel.OpenKey,
	})
	if err == nil || errors.Is(err, ErrOutcomeUnknown) || !fresh && !isRefusal(err) {
		return ch, err
	}
	if !fresh && errors.Is(err, ErrConflict) && !of.chain { // a response was lost more than 24 hours ago
		return Channel{}, fmt.Errorf("client: a channel with number %d exists, and its id is not known: its deposit is refunded when it expires; remove the state file %s to open another: %w",
			s.Channel.PaymentChannelID, p.file.path, err)
	}
	if errors.Is(err, ErrConflict) && of.chain {
		err = fmt.Errorf("client: the channel with number %d is known to the service already: name its id in PayerOptions.ChannelID, which was returned to whoever opened it there: %w", s.Channel.PaymentChannelID, err)
	}
	s.Channel = nil // refused: the next attempt may have other options
	return Channel{}, errors.Join(err, p.file.save(s))
}
