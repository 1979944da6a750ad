package ledger

import (
	"context"
	"time"
)

// Settlement is a channel's newest accepted micropayment, to be collected before it expires, or to
// be booked if there is no chain.
type Settlement struct {
	Channel  string // id
	Sequence int64
	Amount   int64 // cumulative
	Proof    []byte
	Expires  time.Time // it must be collected before
}

// UnsettledSum is a number of channels, and the sum of their unsettled amounts, at most 2^63-1.
type UnsettledSum struct{ Channels, Amount int64 }

// Unsettled counts the channels with an accepted payment that is not settled, by the payment's
// fate.
type Unsettled struct {
	Waiting UnsettledSum // it is pending or in flight
	Expired UnsettledSum // it expired before it was collected
	Failed  UnsettledSum // the chain refused to collect it

	// Elsewhere are the channels with a Channel.Elsewhere above 0, and the sum of these amounts.
	Elsewhere UnsettledSum

	// Overdue is for how long a payment has waited for the chain: the longest such time, or 0 if
	// none waits. A pending payment waits from when it is due, even after it has expired. One in
	// flight waits from when its submission began.
	Overdue time.Duration
}

// Settlements stores the channels' pending settlements, and the last settlement that was booked for
// each channel.
type Settlements interface {
	// Settlements returns up to limit pending settlements, expired ones included, sorted by Expires
	// and Channel, starting after the settlement after; only these two fields of after are used.
	// The zero Settlement is the start.
	Settlements(ctx context.Context, after Settlement, limit int) ([]Settlement, error)

	// Book is for an instance without a chain. In one transaction it records in the ledger that
	// these settlements are settled; no money moves. Each must belong to a different channel, which
	// may be closed or have expired. For each settlement
	//
	//   - the ledger records it, once for its channel and sequence;
	//   - the channel's Settled becomes at least its amount;
	//   - the channel's pending settlement is removed, if Settled now covers it.
	//
	// Calls may book a channel's settlements in any order. Repeated, Book has no effect. It returns
	// ErrNotFound if there is no such channel, or another error if an amount was not accepted, and
	// then has no effect on any channel.
	Book(ctx context.Context, list []Settlement) error

	// Unsettled returns the amounts that are accepted and not settled.
	Unsettled(ctx context.Context) (Unsettled, error)
}
