// Package ledger is the contract for money: the sessions that were bought or granted, the channels
// over which payments are accepted, the sales, and the payments' settlement. Package database has
// the rules about transactions, waiting and time. Package sqlstore implements it; package
// ledgertest is the conformance suite that an implementation must pass.
package ledger

import (
	"errors"
	"fmt"
	"time"
)

// Errors in addition to package database's. They are wrapped; compare them with errors.Is.
var (
	// ErrExhausted means that the session has fewer chunksets left than requested.
	ErrExhausted = errors.New("ledger: session exhausted")
	// ErrNoChannel means that there is no channel for a payment's Sender, Receiver, Asset and
	// PaymentChannelID.
	ErrNoChannel = errors.New("ledger: no such channel")
	// ErrChannelClosed means that the channel was closed.
	ErrChannelClosed = errors.New("ledger: channel closed")
	// ErrChannelExpired means that the channel has expired.
	ErrChannelExpired = errors.New("ledger: channel expired")
	// ErrChannelStopped means that nothing is sold over the channel for now. The error is a
	// *StoppedError.
	ErrChannelStopped = errors.New("ledger: channel stopped")
	// ErrOutdated means that the channel must be read from the chain again.
	ErrOutdated = errors.New("ledger: the channel was read too long ago")
	// ErrStalePayment means that a payment's sequence or amount is not above the accepted one. The
	// error is a *StaleError.
	ErrStalePayment = errors.New("ledger: payment is stale")
	// ErrInsufficientFunds means that a payment exceeds the deposit, or does not cover its
	// purpose. The error is an *InsufficientFundsError.
	ErrInsufficientFunds = errors.New("ledger: insufficient funds")
	// ErrUnsettledLimit means that the payment would make the accepted but unsettled amount
	// too large. The error is an *UnsettledLimitError.
	ErrUnsettledLimit = errors.New("ledger: unsettled limit reached")
	// ErrPriceChanged means that a chunkset costs more than the payer permits. The error is a
	// *PriceChangedError.
	ErrPriceChanged = errors.New("ledger: price changed")
	// ErrNothingExpired means that there is no expired payment to renew.
	ErrNothingExpired = errors.New("ledger: no payment over the channel has expired")
	// ErrAmountOverflow means that an amount would exceed 2^63-1.
	ErrAmountOverflow = errors.New("ledger: amount too large")
)

// StaleError is ErrStalePayment with the accepted micropayment's bytes.
type StaleError struct{ Stored []byte }

// Error returns the text of ErrStalePayment.
func (*StaleError) Error() string { return ErrStalePayment.Error() }

// Unwrap returns ErrStalePayment.
func (*StaleError) Unwrap() error { return ErrStalePayment }

// StoppedError is ErrChannelStopped with the reason.
type StoppedError struct{ Reason string }

// Error returns a sentence with the reason.
func (e *StoppedError) Error() string { return "nothing is sold over the channel now: " + e.Reason }

// Unwrap returns ErrChannelStopped.
func (*StoppedError) Unwrap() error { return ErrChannelStopped }

// UnsettledLimitError is ErrUnsettledLimit with the channel's selling limit, the amount unsettled
// before the payment, and how much of it can be collected only after a renewal (see
// Channel.Expired), in asset units.
type UnsettledLimitError struct{ Limit, Unsettled, Expired int64 }

// Error returns a sentence with the amounts.
func (e *UnsettledLimitError) Error() string {
	return fmt.Sprintf("%s: the limit is %d, and %d are unsettled, of which %d have expired", ErrUnsettledLimit, e.Limit, e.Unsettled, e.Expired)
}

// Unwrap returns ErrUnsettledLimit.
func (*UnsettledLimitError) Unwrap() error { return ErrUnsettledLimit }

// PriceChangedError is ErrPriceChanged with a chunkset's price and the greatest one that the payer
// permits, in asset units.
type PriceChangedError struct{ Price, Max int64 }

// Error returns a sentence with both prices.
func (e *PriceChangedError) Error() string {
	return fmt.Sprintf("a chunkset costs %d now, and the request permits at most %d", e.Price, e.Max)
}

// Unwrap returns ErrPriceChanged.
func (*PriceChangedError) Unwrap() error { return ErrPriceChanged }

// InsufficientFundsError is ErrInsufficientFunds with the amounts, in asset units.
type InsufficientFundsError struct{ Required, Available int64 }

// Error returns a sentence with both amounts.
func (e *InsufficientFundsError) Error() string {
	return fmt.Sprintf("%s: %d required, %d available", ErrInsufficientFunds, e.Required, e.Available)
}

// Unwrap returns ErrInsufficientFunds.
func (*InsufficientFundsError) Unwrap() error { return ErrInsufficientFunds }

const (
	// MaxChainAhead is by how much the chain's time, as a fullnode shows it, may be ahead of the
	// store's clock. A time further ahead is wrong.
	MaxChainAhead = time.Minute
	// SessionRetention is how long a session is retained after it expired.
	SessionRetention = 30 * 24 * time.Hour
	// SaleRetention is how long a sale is retained that was not made to a session; then it becomes
	// part of a sum in its channel. It is at least as long as anything can be returned.
	SaleRetention = 30 * 24 * time.Hour
)

// Store is the whole contract.
type Store interface {
	Sessions
	Channels
	Payments
	Settlements
	Submissions
	Inspection
}
