package paychan

import (
	"context"
	"errors"
	"fmt"
	"math"

	"sluice/metastore"
	"sluice/micropay"
)

// Verify reads a micropayment as it stands in a header or a JSON body, in
// base64, and checks all that needs no state: its shape, signature and signer,
// receiver, module, chain, asset and expiry. A *micropay.Error tells what is
// wrong; metastore.ErrAmountOverflow that a number in it is above 2^63-1.
func (s *Service) Verify(encoded string) (metastore.Payment, error) {
	m, err := micropay.Receive(encoded, s.policy, s.meta.Now())
	if err != nil {
		return metastore.Payment{}, err
	}
	if max(m.Amount, m.PaymentChannelID, m.Sequence) > math.MaxInt64 {
		return metastore.Payment{}, fmt.Errorf("a number in the micropayment: %w", metastore.ErrAmountOverflow)
	}
	return metastore.Payment{
		Sender:           m.Sender.String(),
		Receiver:         m.Receiver.String(),
		Asset:            m.Asset.String(),
		PaymentChannelID: int64(m.PaymentChannelID),
		Sequence:         int64(m.Sequence),
		Amount:           int64(m.Amount),
		Proof:            m.Bytes(),
		Expires:          m.Expires(),
		UnsettledLimit:   s.opt.UnsettledLimit,
	}, nil
}

// Live reports why a payment has no open channel: metastore.ErrNoChannel,
// ErrChannelClosed, ErrChannelExpired.
func (s *Service) Live(ctx context.Context, p metastore.Payment) error {
	c, err := s.meta.FindChannel(ctx, p.Sender, p.Receiver, p.Asset, p.PaymentChannelID)
	if err != nil {
		return err
	}
	switch s.State(c) {
	case metastore.ChannelClosed:
		return metastore.ErrChannelClosed
	case metastore.ChannelExpired:
		return metastore.ErrChannelExpired
	default:
		return nil
	}
}

// Buy asks for chunksets.
type BuyOptions struct {
	Payment      metastore.Payment // as Verify gave it
	UserIdentity string            // of a session that is made
	SessionID    string            // the session to add to; empty: a fresh one
}

// Buy accepts a payment and sells as many chunksets as it covers; the rest stays
// as the channel's credit. It returns the session, or, when idem was seen
// before, the session as it was first returned. A refusal changes nothing; see
// metastore.Channels for them. idem may be nil. Beside
// metastore.ErrUnknownOutcome without an idem the session has the ID that it has
// if it was sold, or will be, and nothing else.
func (s *Service) Buy(ctx context.Context, b BuyOptions, idem *metastore.Idempotency) (metastore.Session, error) {
	p := metastore.Purchase{Payment: b.Payment, Price: s.opt.Price}
	if b.SessionID == "" {
		p.Session = metastore.Session{ID: newID(), UserIdentity: b.UserIdentity, Expires: s.meta.Now().Add(s.opt.SessionTTL)}
	} else {
		p.Session, p.Refill = metastore.Session{ID: b.SessionID}, true
	}
	if err := s.opt.Space(0); err != nil {
		return metastore.Session{}, err
	}
	bought, err := s.meta.Buy(ctx, p, idem)
	if err == nil {
		s.wake()
	}
	if idem == nil && errors.Is(err, metastore.ErrUnknownOutcome) {
		bought = metastore.Session{ID: p.Session.ID}
	}
	return bought, err
}

// PayRead accepts a payment and sells count chunksets, to be read at once; what
// is over stays as credit. A refusal changes nothing; see metastore.Channels.
// charge is a fresh, unguessable name by which ReturnRead finds the sale, should
// its outcome be metastore.ErrUnknownOutcome.
func (s *Service) PayRead(ctx context.Context, p metastore.Payment, count int64, charge string) (metastore.Channel, error) {
	if err := s.opt.Space(0); err != nil {
		return metastore.Channel{}, err
	}
	c, err := s.meta.PayRead(ctx, metastore.ReadPurchase{Payment: p, Price: s.opt.Price, Count: count, Charge: charge})
	if err == nil {
		s.wake()
	}
	return c, err
}

// ReturnRead gives back what PayRead sold under this name, if it did; see
// metastore.Channels.
func (s *Service) ReturnRead(ctx context.Context, p metastore.Payment, charge string) (metastore.Channel, error) {
	return s.meta.ReturnRead(ctx, p, charge)
}

// Return gives chunksets back to the channel's credit that were sold by PayRead
// at this price and of which nothing was served. request names this return:
// repeated, it has no effect.
func (s *Service) Return(ctx context.Context, channelID string, count, price int64, request string) (metastore.Channel, error) {
	return s.meta.ReturnCredit(ctx, channelID, count, price, request)
}
