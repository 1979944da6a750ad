package collect

import (
	"math"
	"math/big"
	"sync/atomic"
)

// coin is how many of the chain's smallest coins are a coin.
const coin = 100_000_000

// typicalGas is the gas that a submission is expected to use before one was measured: more than a
// transfer between accounts that have the asset takes.
const typicalGas = 1_000

// greatestGas is the most gas that a transaction may use.
const greatestGas = 2_000_000

// FeeUnits returns the cost of gas at a price in the asset's units, rounded up, and at most 2^63-1.
// gasPrice is in the chain's smallest coin, and coinPrice in units for a coin, that is, 10^8 of
// them; it must not be negative. For example, 1,000 gas at 100, with a coin at 5,000,000 units,
// costs 5,000 units.
func FeeUnits(gas, gasPrice uint64, coinPrice int64) int64 {
	fee := new(big.Int).SetUint64(gas)
	fee.Mul(fee, new(big.Int).SetUint64(gasPrice))
	fee.Mul(fee, big.NewInt(coinPrice))
	fee.Add(fee, big.NewInt(coin-1))
	if fee.Div(fee, big.NewInt(coin)); fee.IsInt64() {
		return fee.Int64()
	}
	return math.MaxInt64
}

// gasMeter measures the gas that submissions use.
type gasMeter struct {
	usual atomic.Int64 // moving average of units of gas; 0: none was measured
	spent atomic.Int64 // smallest coins
}

// pay counts gas at a price. The sum stops growing at 2^63-1.
func (g *gasMeter) pay(gas, price uint64) { saturate(&g.spent, FeeUnits(gas, price, coin)) }

// measure notes the gas that a submission used. Recent ones have the greatest weight, so that no
// payer or fullnode decides for long how much is expected.
func (g *gasMeter) measure(gas uint64) {
	used := min(amount(gas), greatestGas)
	for {
		old := g.usual.Load()
		usual := used
		if old > 0 {
			usual = (3*old + used) / 4
		}
		if g.usual.CompareAndSwap(old, usual) {
			return
		}
	}
}

// expected returns the gas that a submission is expected to use.
func (g *gasMeter) expected() uint64 {
	if usual := g.usual.Load(); usual > 0 {
		return uint64(usual)
	}
	return typicalGas
}

// saturate adds n, which must not be negative, to a sum that stops growing at 2^63-1.
func saturate(sum *atomic.Int64, n int64) {
	for {
		old := sum.Load()
		if sum.CompareAndSwap(old, old+min(n, math.MaxInt64-old)) {
			return
		}
	}
}
