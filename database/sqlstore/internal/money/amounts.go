package money

import (
	"errors"
	"math"
	"math/big"
)

// errNegative is the error of arguments that are out of range.
var errNegative = errors.New("sqlstore: amounts must not be negative, counts and prices must be at least 1")

// wrapped returns the int64 that equals n modulo 2^64.
func wrapped(n *big.Int) int64 {
	low := new(big.Int).And(n, new(big.Int).SetUint64(math.MaxUint64)) // as of two's complement
	return int64(low.Uint64())
}

// worth returns a sale's value.
func worth(count, price int64) *big.Int {
	return new(big.Int).Mul(big.NewInt(count), big.NewInt(price))
}
