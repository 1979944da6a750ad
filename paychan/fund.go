package paychan

import (
	"context"
	"errors"
	"fmt"

	"sluice/database"
	"sluice/ledger"
)

// maxFunded bounds how many channels Fund looks at.
const maxFunded = 1_000

// Fund adds an amount to the deposit of a sender's open channel, or opens one with the amount as
// its deposit, and reports whether it opened one. The sender's address must be canonical. The
// channel is the one with this PaymentChannelID or, if it is 0, the first from 1 that is open or
// was never opened. Fund returns Deposit's error if the channel with a PaymentChannelID is not
// open. It is for instances where money is worth nothing.
func (s *Service) Fund(ctx context.Context, sender string, amount, paymentChannelID int64) (c ledger.Channel, opened bool, err error) {
	if paymentChannelID != 0 {
		return s.fund(ctx, sender, amount, paymentChannelID)
	}
	for number := int64(1); number <= maxFunded; number++ {
		c, opened, err = s.fund(ctx, sender, amount, number)
		if !taken(err) {
			return c, opened, err
		}
	}
	return ledger.Channel{}, false, fmt.Errorf("the channels 1 to %d of the sender are closed: %w", maxFunded, err)
}

// taken reports whether err means that another channel can be used: this one is closed, has
// expired, or may be another sender's.
func taken(err error) bool {
	return errors.Is(err, ledger.ErrChannelClosed) || errors.Is(err, ledger.ErrChannelExpired) || errors.Is(err, database.ErrExists)
}

// fund is Fund of one channel. It returns database.ErrExists if a channel with this number is not
// bound to the sender.
func (s *Service) fund(ctx context.Context, sender string, amount, number int64) (c ledger.Channel, opened bool, err error) {
	c, err = s.Open(ctx, OpenOptions{Sender: sender, Deposit: &amount, PaymentChannelID: &number}, nil)
	if !errors.Is(err, database.ErrExists) {
		return c, err == nil, err
	}
	c, found := s.meta.FindChannel(ctx, sender, s.opt.Receiver, s.opt.Asset, number)
	if found != nil || c.Sender != sender {
		return ledger.Channel{}, false, errors.Join(err, found)
	}
	c, err = s.Deposit(ctx, c.ID, amount, nil)
	return c, false, err
}
