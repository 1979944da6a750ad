package ledger

import (
	"context"
	"math"
	"time"

	"sluice/database"
)

// ChannelState is a channel's state.
type ChannelState string

// A channel's states. A closed channel stays closed after its expiry. A stopped one is neither
// closed nor expired, but sells nothing.
const (
	ChannelOpen    ChannelState = "open"
	ChannelClosed  ChannelState = "closed"
	ChannelExpired ChannelState = "expired"
	ChannelStopped ChannelState = "stopped"
)

// Channel is a payment channel. Amounts are in asset units, from 0 to 2^63-1. The store guarantees
// that Accepted is the sum of count times price over the channel's sales, less the returned
// chunksets' price, plus Credit, and that Settled is at most the greater one of Accepted and
// Withdrawn. Accepted <= Deposit holds unless the chain has shown a smaller deposit; then the
// channel has stopped.
type Channel struct {
	ID               string // unguessable, created by the caller
	PaymentChannelID int64
	Sender           string // empty: not bound to a sender yet
	Receiver         string
	Asset            string
	Deposit          int64
	Owner            string // the owner who is charged for it, permanently; empty: none

	// Maintained by the store.
	Accepted int64     // highest accepted cumulative amount: never more than Proof proves
	Sequence int64     // the sequence of the micropayment that proves it
	Proof    []byte    // that micropayment's bytes; nil if none was accepted
	Credit   int64     // the part of Accepted for which nothing was sold
	Settled  int64     // amount that was collected, booked, or withdrawn by third parties
	Closed   time.Time // when it was closed; zero if it was not

	Submitted int64  // the amount in flight as a submission, or 0
	Stopped   string // why it sells nothing; empty if it has not stopped

	Created time.Time // set by the store
	Expires time.Time

	// As the chain showed them last, like Deposit and Expires; zero without a chain.
	Withdrawn    int64     // by the receiver
	NextSequence int64     // the least sequence number that the chain accepts
	ChainTime    time.Time // the chain's time at the last reading
	Read         time.Time // when it was last read; set by the store
	ChainCreated time.Time // when it was opened on the chain

	Collected int64  // the part of Settled that submissions of this service have withdrawn
	Elsewhere int64  // the other withdrawn part: by third parties for the receiver, or in a past that was lost
	Form      string // the form of the last payment that was simulated or collected; empty after one that failed

	// Expired is the part of Accepted that can be collected only after a renewal: it is neither
	// settled nor in flight, and the payment that proves it has expired or was refused. Only
	// Channel and Renew set it.
	Expired int64
}

// SellingLimit returns the greatest Accepted - Settled to which a payment with this form may lead:
//
//   - ceiling, if start is 0;
//   - start, but at most ceiling, unless the last payment that was simulated or collected had this
//     form;
//   - else start plus the amount collected over the channel, but at most ceiling.
//
// So, unless start is 0, a payer never owes more than start beyond the amount that it has paid.
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
	Gone         bool // there is no such channel; then only ChainTime has a meaning
	Deposit      int64
	Withdrawn    int64 // ever, by the receiver
	NextSequence int64
	Expires      time.Time
	Created      time.Time // when it was opened on the chain
	ChainTime    time.Time // the chain's time, as the fullnode shows it

	// Corrects means that an operator has compared the reading with the chain: it also has an
	// effect if an earlier one showed more withdrawn, or a later time.
	Corrects bool
}

// State returns the channel's state at a time.
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

// Channels stores the payment channels, which are retained forever. A channel's
// sales are not. database.Maintenance.Purge replaces them by a sum in the channel:
//
//   - sales to a session when it removes the session;
//   - all further sales when they are older than SaleRetention.
type Channels interface {
	// OpenChannel stores a new channel and returns it as stored, or, if idem was recorded before,
	// as it was first returned. It returns ErrExists if a channel with the same Receiver, Asset and
	// PaymentChannelID was ever opened, and both channels have the same Sender, or at least one of
	// them has none. idem may be nil. If ChainTime is set, the channel was read from the chain:
	// Withdrawn counts as settled. If ChainTime is more than MaxChainAhead ahead
	// of the clock, it returns ErrOutdated.
	OpenChannel(ctx context.Context, c Channel, idem *database.Idempotency) (Channel, error)

	// RecordedChannel returns the channel that OpenChannel or AddDeposit returned with this idem,
	// as it was first returned. If such a call is running, it waits for the call. It returns
	// ErrNotFound if there was none, or database.ErrIdempotencyReuse.
	RecordedChannel(ctx context.Context, idem database.Idempotency) (Channel, error)

	// Channel returns a channel, or ErrNotFound.
	Channel(ctx context.Context, id string) (Channel, error)

	// FindChannel returns the channel for a payment between these parties: the sender's, or else
	// the one that is not bound to a sender. It returns ErrNoChannel if there is neither.
	FindChannel(ctx context.Context, sender, receiver, asset string, paymentChannelID int64) (Channel, error)

	// ChannelSessions returns up to limit of the retained sessions that were bought over the
	// channel, newest first.
	ChannelSessions(ctx context.Context, id string, limit int) ([]Session, error)

	// AddDeposit adds to an open channel's deposit and returns the channel after that without its
	// Proof, or, if idem was recorded before, as it was first returned. It returns ErrNotFound,
	// ErrChannelClosed, ErrChannelExpired or ErrAmountOverflow. idem may be nil.
	AddDeposit(ctx context.Context, id string, amount int64, idem *database.Idempotency) (Channel, error)

	// RecordReading records a channel's reading, and returns the channel after that. The reading
	// has no effect if
	//
	//   - its ChainTime is zero, or more than MaxChainAhead ahead of the clock;
	//   - its ChainTime is before the recorded one, unless that is itself more than MaxChainAhead
	//     ahead of the clock;
	//   - it shows the channel created earlier than recorded, or created at the recorded time but
	//     with less withdrawn than recorded: whatever its ChainTime, it is older than the recorded
	//     one.
	//
	// The channel stops selling if
	//
	//   - it is gone, and then Deposit is 0;
	//   - it was ended and opened again, and then Deposit is 0: it was created later than recorded
	//     or, if a time of creation is not known, less was withdrawn than recorded;
	//   - its deposit has shrunk.
	//
	// If none of this holds, a stopped channel sells again if
	//
	//   - its deposit has grown and covers Accepted, unless its newest submission's amount is not
	//     settled: a deposit does not replace a debt;
	//   - Withdrawn is above Accepted and Settled, and at most Deposit;
	//   - Withdrawn covers its newest submission, which had failed or expired, and Deposit covers
	//     Accepted.
	//
	// A pending settlement is removed if at least its amount was withdrawn. An amount that was
	// withdrawn, but not by a submission, is added to Settled and Elsewhere: at once, or, if a
	// submission is in flight, when it ends. Accepted does not grow, because a fullnode proves
	// nothing: the next payment must be above Withdrawn, and the difference then counts as sold, so
	// that it never becomes credit. RecordReading returns ErrNotFound if there is no such channel.
	//
	// A reading that Corrects an earlier one lowers Withdrawn, and Settled, Collected and Elsewhere
	// with it. The part of Accepted that is then not settled has expired until it is renewed. An
	// accepted amount without Proof, which an earlier version took from a reading, is lowered as
	// well. Corrections lists these corrections.
	RecordReading(ctx context.Context, id string, r Reading) (Channel, error)

	// CloseChannel closes an open or expired channel and returns it. A pending settlement that
	// would be due later becomes due now. Repeated, it returns the channel in its present state. It
	// returns ErrNotFound if there is no such channel.
	CloseChannel(ctx context.Context, id string) (Channel, error)
}
