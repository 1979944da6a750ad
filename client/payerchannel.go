package client

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"strconv"
)

// price checks the terms of the service and returns its price of a chunkset. It sets the terms of the
// state if there are none.
func (p *Payer) price(ctx context.Context, s *payerState) (uint64, error) {
	info, err := p.c.Info(ctx)
	if err != nil {
		return 0, err
	}
	offered := Terms{Receiver: info.Payment.Receiver, Asset: info.Payment.Asset, Module: info.Payment.Module, ChainID: uint8(info.Payment.ChainID)}
	offered, err = offered.canonical()
	if err != nil || info.Payment.ChainID != int(offered.ChainID) {
		return 0, fmt.Errorf("client: %w: the terms of the service are invalid: %+v", ErrTermsChanged, info.Payment)
	}
	if s.Terms == nil {
		s.Terms = &offered
	}
	if *s.Terms != offered {
		err := fmt.Errorf("client: %w: %s", ErrTermsChanged, offered.changes(*s.Terms))
		if p.o.Terms == nil {
			err = fmt.Errorf("%w; if another instance is at %s now, it requires another state file than %s", err, p.c.URL(), p.file.path)
		}
		return 0, err
	}
	price, err := strconv.ParseUint(info.Payment.ChunksetPrice, 10, 63)
	if err != nil || price == 0 {
		return 0, fmt.Errorf("client: %w: the price of a chunkset is %q", ErrTermsChanged, info.Payment.ChunksetPrice)
	}
	if price > p.o.MaxPrice {
		return 0, fmt.Errorf("client: %w: the price of a chunkset is %d, and MaxPrice is %d", ErrBudget, price, p.o.MaxPrice)
	}
	return price, nil
}

// channel returns the channel, which must be open. It opens one, or looks at that of the options, if
// the state has none.
func (p *Payer) channel(ctx context.Context, s *payerState) (Channel, error) {
	var ch Channel
	var err error
	switch {
	case s.Channel != nil && s.Channel.ID != "" && p.o.ChannelID != "" && s.Channel.ID != p.o.ChannelID:
		return Channel{}, fmt.Errorf("client: %w: the state file %s has another channel than PayerOptions.ChannelID; CloseChannel forgets it", ErrInvalid, p.file.path)
	case s.Channel != nil && s.Channel.ID != "":
		ch, err = p.c.Channel(ctx, s.Channel.ID)
	case p.o.ChannelID != "":
		ch, err = p.c.Channel(ctx, p.o.ChannelID)
		if err == nil {
			// The accepted amount that the service reports is not believed: see adopt.
			s.Channel = &channelRecord{PaymentChannelID: ch.PaymentChannelID}
		}
	default:
		ch, err = p.open(ctx, s)
	}
	if err != nil {
		return Channel{}, err
	}
	if err := p.checkChannel(&ch, s); err != nil {
		return Channel{}, err
	}
	if s.Channel.ID == "" {
		s.Channel.ID = ch.ID
		return ch, p.file.save(s)
	}
	return ch, nil
}

// checkChannel returns an error unless the payer can pay over the channel.
func (p *Payer) checkChannel(ch *Channel, s *payerState) error {
	switch {
	case ch.ID == "" || ch.PaymentChannelID != s.Channel.PaymentChannelID:
		return fmt.Errorf("client: %w: the service returned another channel than requested: number %d, not %d", ErrTermsChanged, ch.PaymentChannelID, s.Channel.PaymentChannelID)
	case ch.Sender != "" && ch.Sender != p.Address():
		return fmt.Errorf("client: %w: the channel is that of %s, and the key is that of %s", ErrTermsChanged, ch.Sender, p.Address())
	case ch.Receiver != s.Terms.Receiver || ch.Asset != s.Terms.Asset:
		return fmt.Errorf("client: %w: the channel pays %s in %s", ErrTermsChanged, ch.Receiver, ch.Asset)
	case ch.State != "open":
		return fmt.Errorf("client: %w: the state of the channel is %q", ErrGone, ch.State)
	}
	return nil
}

// open opens a channel. The payer chooses its number and writes it before it sends the request, so that
// the same channel is found if the response is lost.
func (p *Payer) open(ctx context.Context, s *payerState) (Channel, error) {
	fresh := s.Channel == nil
	if fresh {
		s.Channel = &channelRecord{PaymentChannelID: 1 + mathrand.Uint64N(1<<53-1), OpenKey: rand.Text(), Deposit: p.o.Deposit}
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
	if !fresh && errors.Is(err, ErrConflict) { // the response of a request was lost more than 24 hours ago
		return Channel{}, fmt.Errorf("client: a channel with number %d exists, and its id is not known: its deposit is refunded when it expires; remove the state file %s to open another: %w",
			s.Channel.PaymentChannelID, p.file.path, err)
	}
	s.Channel = nil // refused: the next attempt may have other options
	return Channel{}, errors.Join(err, p.file.save(s))
}
