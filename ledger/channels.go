package ledger

import (
	"context"
	"math"
	"time"
)

// ChannelState is the state of a channel.
type ChannelState string

// The states of a channel. A closed channel stays closed after its expiry. One that has stopped is
// neither closed nor expired, but sells nothing.
const (
	ChannelOpen    ChannelState = "open"
	ChannelClosed  ChannelState = "closed"
	ChannelExpired ChannelState = "expired"
	ChannelStopped ChannelState = "stopped"
)

// Channel is a payment channel. Amounts are in units of the asset, from 0 to 2^63-1. It is
// guaranteed that Accepted is the sum over the channel's sales of count times price, less what
// was returned, plus Credit, and that Settled <= Accepted <= Deposit.
type Channel struct {
	ID               string // unguessable, created by the caller
	PaymentChannelID int64
	Sender           string // empty: not bound to a sender yet
	Receiver         string
	Asset            string
	Deposit          int64
	Owner            string // to whose Usage it counts, permanently; empty: to none

	// Maintained by the store.
	Accepted int64     // highest accepted cumulative amount
	Sequence int64     // of the micropayment that proves it
	Proof    []byte    // bytes of that micropayment; nil if none was accepted
	Credit   int64     // the part of Accepted for which nothing was sold
	Settled  int64     // the part of Accepted that was collected
	Closed   time.Time // when it was closed; zero if it was not

	Submitted int64  // the amount of the submission in flight, or 0
	Stopped   string // why nothing is sold over it; empty if something can be

	Created time.Time // set by the store
	Expires time.Time

	// Of a channel that was read from the chain, like Deposit and Expires; else zero.
	Withdrawn    int64     // what the receiver has withdrawn
	NextSequence int64     // the least sequence number that the chain accepts
	ChainTime    time.Time // the time of the ledger of the fullnode that was read
	Read         time.Time // when it was read; set by the store
	ChainCreated time.Time // when it was opened on the chain

	Collected int64  // the part of Settled that submissions of this service have withdrawn
	Elsewhere int64  // the part of it that others have withdrawn in the name of the receiver, or a past that was lost
	Form      string // of the last payment that was simulated or collected; empty after one that failed

	// Expired is the part of Accepted that can be collected only after a renewal, because the
	// payment that proves it has expired or was refused: what is neither settled nor in flight. It
	// is set by Channel and Renew only.
	Expired int64
}

// SellingLimit returns the greatest Accepted - Settled that a payment of this form may lead to:
// start and what was collected over the channel, at most ceiling, and start as long as no payment
// of this form was simulated or collected. So a payer never owes more than start beyond what it has
// paid.
func (c *Channel) SellingLimit(start, ceiling int64, form string) int64 {
	if start == 0 {
		return ceiling
	}
	if form != c.Form {
		return min(start, ceiling)
	}
	return min(ceiling, start+min(c.Collected, math.MaxInt64-start))
}

// Reading is a channel as a fullnode shows it.
type Reading struct {
	Gone         bool // there is no such channel; then only Ledger has a meaning
	Deposit      int64
	Withdrawn    int64 // by the receiver, ever
	NextSequence int64
	Expires      time.Time
	Created      time.Time // when it was opened on the chain
	ChainTime    time.Time // the time of the ledger of the fullnode
}

// State returns the state of the channel at a time.
func (c *Channel) State(now time.Time) ChannelState {
	switch {
	case !c.Closed.IsZero():
		return ChannelClosed
	case !now.Before(c.Expires):
		return ChannelExpired
	case c.Stopped != "":
		return ChannelStopped
	default:
		return ChannelOpen
	}
}

// Channels stores the payment channels, which are retained forever. Their sales are not: Purge
// adds sales older than SaleRetention that were not made to a session to a sum of their
// channel, and sales to a session when the session is removed.
type Channels interface {
	// OpenChannel stores a new channel and returns it as stored, or, if idem was recorded
	// before, as it was first returned. It returns ErrExists if a channel with the same
	// Sender, Receiver, Asset and PaymentChannelID was ever opened, or one with the same last
	// three of these where one of the two channels has no sender. idem may be nil. If Ledger is
	// set, the channel was read from the chain: Withdrawn counts as accepted, sold and settled. If
	// Ledger is more than MaxChainAhead ahead of the clock, it returns ErrOutdated.
	OpenChannel(ctx context.Context, c Channel, idem *Idempotency) (Channel, error)

	// RecordedChannel returns the channel that OpenChannel or AddDeposit returned with this
	// idem, as it was first returned. It waits for a concurrent call of these. It returns
	// ErrNotFound if there was none, or ErrIdempotencyReuse.
	RecordedChannel(ctx context.Context, idem Idempotency) (Channel, error)

	// Channel returns a channel, or ErrNotFound.
	Channel(ctx context.Context, id string) (Channel, error)

	// FindChannel returns the channel for a payment of these parties: the one of the sender,
	// or else the one that is not bound to a sender. It returns ErrNoChannel if there is
	// neither.
	FindChannel(ctx context.Context, sender, receiver, asset string, paymentChannelID int64) (Channel, error)

	// ChannelSessions returns up to limit retained sessions that were bought over the
	// channel, newest first.
	ChannelSessions(ctx context.Context, id string, limit int) ([]Session, error)

	// AddDeposit adds to the deposit of an open channel and returns the channel after that
	// without its Proof, or, if idem was recorded before, as it was first returned. It returns
	// ErrNotFound, ErrChannelClosed, ErrChannelExpired or ErrAmountOverflow. idem may be nil.
	AddDeposit(ctx context.Context, id string, amount int64, idem *Idempotency) (Channel, error)

	// RecordReading records what was read of a channel on the chain, and returns the channel after
	// that. It has no effect if its ledger is older than the recorded one, or more than
	// MaxChainAhead ahead of the clock; such a recorded one counts as none. It has none either if
	// it shows less withdrawn than the recorded one of the same channel, whatever its ledger.
	//
	// The channel stops selling if it is gone or was ended and opened again (then Deposit is 0), or
	// if its deposit has shrunk. It was opened again if it was created later or, if that is not
	// known, if less was withdrawn. It sells again when its deposit has grown and covers what is
	// accepted, unless the amount of its newest submission is not settled: a deposit does not
	// replace what is owed. It also sells again when what was withdrawn is more than what is
	// accepted, or covers the last submission, which had failed or expired.
	//
	// A pending settlement of no more than what was withdrawn is removed. What was withdrawn and
	// not accepted counts as accepted and sold, so that it never becomes credit; then there is no
	// Proof. What was withdrawn and not collected by a submission is added to Settled and
	// Elsewhere, while a submission is in flight when that ends. It returns ErrNotFound if there is
	// no such channel.
	RecordReading(ctx context.Context, id string, r Reading) (Channel, error)

	// CloseChannel closes an open or expired channel and returns it. A pending settlement that
	// would be due later is due now. Repeated, it returns the channel in its present state. It
	// returns ErrNotFound if there is no such channel.
	CloseChannel(ctx context.Context, id string) (Channel, error)
}
