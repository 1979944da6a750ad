package paychan

import (
	"sluice/ledger"
)

// SetGasPrices sets the least gas price at which the chain executes a transaction, and the usual
// one. Micropayments with a lower one than the least, or with one that is far above the usual one,
// are refused.
func (s *Service) SetGasPrices(least, usual uint64) {
	if s.chain != nil {
		s.chain.minGasPrice.Store(least)
		s.chain.maxGasPrice.Store(max(least, usual) * maxGasPriceFactor)
	}
}

// Terms are the bounds of payments that a Service with a chain accepts. Gas prices are 0 until they
// are known.
type Terms struct {
	StartingLimit            int64
	MinGas                   uint64 // the least maximum gas in a micropayment
	MinGasPrice, MaxGasPrice uint64
	MaxFee                   uint64 // 0: any
}

// Terms returns the present terms, and false without a chain.
func (s *Service) Terms() (Terms, bool) {
	if s.chain == nil {
		return Terms{}, false
	}
	o := s.chain
	return Terms{
		StartingLimit: o.opt.StartingLimit, MinGas: o.minGas.Load(),
		MinGasPrice: o.minGasPrice.Load(), MaxGasPrice: o.maxGasPrice.Load(), MaxFee: o.opt.MaxFee,
	}, true
}

// SellingLimit returns the greatest unsettled amount that a payment over a channel may lead to now.
func (s *Service) SellingLimit(c ledger.Channel) int64 {
	p := s.offerPolicy()
	return c.SellingLimit(p.StartingLimit, p.UnsettledLimit, c.Form)
}

// offerPolicy returns the policy for a payment that was not simulated. It has no Ahead and MaxAge.
func (s *Service) offerPolicy() ledger.Policy {
	if s.chain == nil {
		return ledger.Policy{UnsettledLimit: s.opt.UnsettledLimit}
	}
	o := s.chain.opt
	return ledger.Policy{UnsettledLimit: s.opt.UnsettledLimit, StartingLimit: o.StartingLimit, SettleAt: o.SettleAt, SettleWithin: o.SettleWithin}
}

// ClockAgrees returns nil without a chain, or if the chain is not too far ahead of the store's
// clock, and ErrClock otherwise.
func (s *Service) ClockAgrees() error {
	if s.chain == nil {
		return nil
	}
	_, err := s.chain.ahead()
	return err
}
