package paychan

import (
	"context"

	"sluice/metastore"
)

// Renew accepts a payment from Verify in place of the one that proves what was accepted over the
// channel with this id, if that one can no longer be collected. It sells nothing. Repeated with the
// same payment, it has no effect. It returns the channel after that, or metastore.ErrNotFound,
// ErrOtherChannel, a *micropay.Error if the chain would not execute the payment, or the errors of
// metastore.Channels.Renew.
func (s *Service) Renew(ctx context.Context, id string, p metastore.Payment) (metastore.Channel, error) {
	c, err := s.meta.Channel(ctx, id)
	if err != nil {
		return metastore.Channel{}, err
	}
	if c.Sender != "" && c.Sender != p.Sender || c.Receiver != p.Receiver || c.Asset != p.Asset || c.PaymentChannelID != p.PaymentChannelID {
		return metastore.Channel{}, ErrOtherChannel
	}
	if err := s.opt.Space(0); err != nil {
		return metastore.Channel{}, err
	}
	var renewed metastore.Channel
	accept := func(p metastore.Payment) (err error) {
		renewed, err = s.meta.Renew(ctx, p)
		return err
	}
	if s.chain == nil {
		err = accept(p)
	} else {
		err = s.acceptOnChain(ctx, &attempt{payment: p, renews: true, accept: accept})
	}
	if err == nil {
		s.wake()
	}
	return renewed, err
}
