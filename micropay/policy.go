package micropay

import (
	"fmt"
	"math/bits"
	"time"
)

// Policy bounds the micropayments that a receiver accepts.
type Policy struct {
	Receiver      Address
	Asset         Address
	ModuleAddress Address
	ChainID       uint8

	// MaxFee is the greatest fee, in the chain's smallest coin, that a micropayment may make the
	// receiver pay: its maximum gas times its gas price. 0: any.
	MaxFee uint64
	// MinGasPrice is the least gas price at which the chain executes a transaction, and MaxGasPrice
	// the greatest that the receiver pays, unless it is 0.
	MinGasPrice, MaxGasPrice uint64
	// MinGas is the least maximum gas with which a micropayment can be executed.
	MinGas uint64
}

// Check reports whether the policy accepts the micropayment at the time now: it returns nil or an
// *Error of ClassPolicy. As on the chain, the micropayment has expired from its expiration second
// on. Check does not verify signatures; see Verify.
func (m *Micropayment) Check(p Policy, now time.Time) error {
	switch {
	case m.Receiver != p.Receiver:
		return refuse(ClassPolicy, ReasonReceiver, "the receiver is %v, not %v", m.Receiver, p.Receiver)
	case m.ModuleAddress != p.ModuleAddress:
		return refuse(ClassPolicy, ReasonModuleAddress, "the module address is %v, not %v", m.ModuleAddress, p.ModuleAddress)
	case m.ChainID != p.ChainID:
		return refuse(ClassPolicy, ReasonChain, "the chain is %d, not %d", m.ChainID, p.ChainID)
	case m.Asset != p.Asset:
		return refuse(ClassPolicy, ReasonAsset, "the asset is %v, not %v", m.Asset, p.Asset)
	case now.Unix() < 0 || uint64(now.Unix()) >= m.Expiration:
		return refuse(ClassPolicy, ReasonExpired, "it expired at %d", m.Expiration)
	case m.GasPrice < p.MinGasPrice:
		return p.refuseGas("its gas price is %d, and the chain requires %d", m.GasPrice, p.MinGasPrice)
	case p.MaxGasPrice > 0 && m.GasPrice > p.MaxGasPrice:
		return p.refuseGas("its gas price is %d, and the receiver pays at most %d", m.GasPrice, p.MaxGasPrice)
	case m.MaxGas < p.MinGas:
		return p.refuseGas("its maximum gas is %d, and the chain requires %d", m.MaxGas, p.MinGas)
	case p.MaxFee > 0 && feeAbove(m.MaxGas, m.GasPrice, p.MaxFee):
		return p.refuseGas("its maximum gas of %d at a price of %d costs more than %d", m.MaxGas, m.GasPrice, p.MaxFee)
	}
	return nil
}

// refuseGas returns a refusal with ReasonGas and the policy's bounds.
func (p *Policy) refuseGas(format string, args ...any) error {
	return &Error{
		Class: ClassPolicy, Reason: ReasonGas, Detail: fmt.Sprintf(format, args...),
		MinGas: p.MinGas, MinGasPrice: p.MinGasPrice, MaxGasPrice: p.MaxGasPrice,
	}
}

// feeAbove reports whether gas times price is above limit. The product may have 128 bits.
func feeAbove(gas, price, limit uint64) bool {
	high, low := bits.Mul64(gas, price)
	return high > 0 || low > limit
}
