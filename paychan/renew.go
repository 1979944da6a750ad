package paychan

import (
	"context"

	"sluice/ledger"
)

// Renew accepts a payment from Verify in place of the one that proves this channel's accepted
// amount, if that one can no longer be collected. It sells nothing. Repeated with the same payment,
// it has no effect. It returns the channel after that, or database.ErrNotFound, ErrOtherChannel, a
// *micropay.Error if the chain would not execute the payment, or the errors of
// ledger.Payments.Renew.
func (s *Service) Renew(ctx context.Context, id string, p ledger.Payment) (ledger.Channel, error) {
	c, err := s.meta.Channel(ctx, id)
	if err != nil {
		return ledger.Channel{}, err
	}
	if c.Sender != "" && c.Sender != p.Sender || c.Receiver != p.Receiver || c.Asset != p.Asset || c.PaymentChannelID != p.PaymentChannelID {
		return ledger.Channel{}, ErrOtherChannel
	}
	if err := s.opt.Space(0); err != nil {
		return ledger.Channel{}, err
	}
	var renewed ledger.Channel
	accept := func(o ledger.Offer) (err error) {
		renewed, err = s.meta.Renew(ctx, o)
		return err
	}
	offer := ledger.Offer{Payment: p, Policy: s.offerPolicy()}
	if s.chain == nil {
		err = accept(offer)
	} else {
		err = s.acceptOnChain(ctx, &attempt{offer: offer, renews: true, accept: accept})
	}
	if err == nil {
		s.wake()
	}
	return renewed, err
}
