package ledger

import (
	"context"
	"time"
)

// Settlement is the newest accepted micropayment of a channel, to be collected before it
// expires.
type Settlement struct {
	Channel  string // id
	Sequence int64
	Amount   int64 // cumulative
	Proof    []byte
	Expires  time.Time // it must be collected before
}

// UnsettledSum is a number of channels and the sum of their accepted and unsettled amounts, at most
// 2^63-1.
type UnsettledSum struct{ Channels, Amount int64 }

// Unsettled are the channels with an accepted payment that is not collected, by what becomes of it.
type Unsettled struct {
	Waiting UnsettledSum // it is pending or in flight
	Expired UnsettledSum // it expired before it was collected
	Failed  UnsettledSum // the chain refused to collect it

	// Elsewhere are the channels of which something was withdrawn elsewhere, and how much.
	Elsewhere UnsettledSum

	// Overdue is how long the payment that has waited longest for the chain has waited: since it
	// was due if it is pending, also if it has expired, and since its submission began if it is in
	// flight. It is 0 if none waits.
	Overdue time.Duration
}

// Settlements stores what is accepted over channels and not collected yet. Of what PayOut books,
// the last settlement of each channel is retained.
type Settlements interface {
	// Settlements returns up to limit pending settlements, also those that have expired, sorted by
	// Expires and Channel, starting after the settlement after, of which only these two
	// fields are used. The zero Settlement stands for the start.
	Settlements(ctx context.Context, after Settlement, limit int) ([]Settlement, error)

	// Book pays the settlements of the list out into the embedded ledger of an instance
	// without a chain, in one transaction. Each must be of another channel, which may be closed
	// or have expired. A payout is recorded once for each channel and sequence, Settled becomes
	// at least the amount, and a pending settlement up to the sequence is removed. Settlements
	// of a channel may be paid out in any order. Repeated, it has no effect. It returns
	// ErrNotFound if there is no such channel, or another error if an amount was not accepted,
	// and then has no effect on any channel.
	Book(ctx context.Context, list []Settlement) error

	// Unsettled returns what is accepted and not settled.
	Unsettled(ctx context.Context) (Unsettled, error)
}
