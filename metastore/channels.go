package metastore

import (
	"context"
	"math"
	"time"
)

// ChannelState is the state of a channel.
type ChannelState string

// The states of a channel. A closed channel stays closed after its expiry. One that has stopped is neither
// closed nor expired, but sells nothing.
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
	Ledger       time.Time // the time of the ledger of the fullnode that was read
	Read         time.Time // when it was read; set by the store
	ChainCreated time.Time // when it was opened on the chain

	Collected int64  // the part of Settled that submissions of this service have withdrawn
	Elsewhere int64  // the part of it that others have withdrawn in the name of the receiver, or a past that was lost
	Form      string // of the last payment that was simulated or collected; empty after one that failed

	// Expired is the part of Accepted that can be collected only after a renewal, because the payment that proves it has
	// expired or was refused: what is neither settled nor in flight. It is set by Channel and Renew only.
	Expired int64
}

// SellingLimit returns the greatest Accepted - Settled that a payment of this form may lead to: start and what was
// collected over the channel, at most ceiling, and start as long as no payment of this form was simulated or
// collected. So a payer never owes more than start beyond what it has paid.
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
	Ledger       time.Time // the time of the ledger of the fullnode
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

// Payment is a micropayment whose signature, signer and terms were verified. Its channel is
// identified by Sender, Receiver, Asset and PaymentChannelID.
type Payment struct {
	Sender           string // canonical addresses
	Receiver         string
	Asset            string
	PaymentChannelID int64
	Sequence         int64
	Amount           int64     // cumulative
	Proof            []byte    // the bytes as received
	Expires          time.Time // from when on the chain refuses it

	// UnsettledLimit is the greatest Accepted - Settled that the payment may lead to, and StartingLimit
	// what it may lead to as long as nothing was collected over the channel; see Channel.SellingLimit. A
	// StartingLimit of 0 is that of a service without a chain: UnsettledLimit applies.
	UnsettledLimit, StartingLimit int64

	// Form identifies how the payment is encoded and signed and what gas it offers, of payments that are
	// collected on a chain. Simulated reports that the chain would have executed the payment.
	Form      string
	Simulated bool

	// SettleAt is the accepted amount that is neither settled nor submitted at which the pending
	// settlement is due. If it is 0, the settlement is never due, because there is no chain.
	// Otherwise it is also due when half of the selling limit is unsettled, and at the latest after half
	// of the time until Expires, or until the channel expires if that is earlier, or after SettleWithin
	// if that is not 0, and never later than the settlement that it replaces.
	SettleAt     int64
	SettleWithin time.Duration

	// Ahead is by how much the ledger is ahead of the clock of the store. Renew takes it into account.
	Ahead time.Duration

	// MaxAge is how long ago the channel was read from the chain at most. 0: no limit.
	MaxAge time.Duration
}

// Purchase buys chunksets for a session.
type Purchase struct {
	Payment Payment
	Price   int64 // of a chunkset, at least 1
	// Session is the new session, of which ID, UserIdentity and Expires are used, or, if
	// Refill is set, the existing session to add to, of which only ID is used.
	Session Session
	Refill  bool
}

// ReadPurchase buys chunksets that are read immediately.
type ReadPurchase struct {
	Payment Payment
	Price   int64 // of a chunkset, at least 1
	Count   int64 // chunksets, at least 1
	// Charge is a new, unguessable name by which ReturnRead finds the sale. If it is empty,
	// ReturnRead cannot find it.
	Charge string
}

// Cost returns the price of count chunksets, at most 2^63-1. The price must be at least 1
// and the count not negative.
func Cost(count, price int64) int64 {
	if count > math.MaxInt64/price {
		return math.MaxInt64
	}
	return count * price
}

// Settlement is the newest accepted micropayment of a channel, to be collected before it
// expires.
type Settlement struct {
	Channel  string // id
	Sequence int64
	Amount   int64 // cumulative
	Proof    []byte
	Expires  time.Time // it must be collected before
}

// UnsettledSum is a number of channels and the sum of their accepted and unsettled amounts, at most 2^63-1.
type UnsettledSum struct{ Channels, Amount int64 }

// Unsettled are the channels with an accepted payment that is not collected, by what becomes of it.
type Unsettled struct {
	Waiting UnsettledSum // it is pending or in flight
	Expired UnsettledSum // it expired before it was collected
	Failed  UnsettledSum // the chain refused to collect it

	// Elsewhere are the channels of which something was withdrawn elsewhere, and how much.
	Elsewhere UnsettledSum

	// Overdue is how long the payment that has waited longest for the chain has waited: since it was due if it is
	// pending, also if it has expired, and since its submission began if it is in flight. It is 0 if none waits.
	Overdue time.Duration
}

// Channels stores the payment channels, which are retained forever. Their sales are not: Purge
// adds sales older than SaleRetention that were not made to a session to a sum of their
// channel, and sales to a session when the session is removed. Of the payouts that PayOut
// records, the last one of each channel is retained.
//
// Buy and PayRead accept a payment in the transaction that sells. The checks are, in this
// order:
//
//   - the channel is found, and bound to the sender if it was not bound; else ErrNoChannel;
//   - it is open; else ErrChannelClosed or ErrChannelExpired;
//   - with SettleAt, settling has not halted (see Submissions); else a *StoppedError;
//   - with MaxAge, the channel was read recently enough; else ErrOutdated;
//   - it has not stopped; else a *StoppedError;
//   - sequence and amount are both above the accepted ones, and, of a channel that was read from
//     the chain, acceptable there; else a *StaleError;
//   - the amount is within the deposit; else an *InsufficientFundsError with Required the
//     amount and Available the deposit;
//   - Amount - Settled is within the selling limit (see Channel.SellingLimit); else an
//     *UnsettledLimitError.
//
// Then Amount - Accepted + Credit can be spent. The transaction also stores the payment as the
// pending settlement of the channel, in place of an earlier one, and if it was Simulated its Form. A
// refusal has no effect.
type Channels interface {
	// OpenChannel stores a new channel and returns it as stored, or, if idem was recorded
	// before, as it was first returned. It returns ErrExists if a channel with the same
	// Sender, Receiver, Asset and PaymentChannelID was ever opened, or one with the same last
	// three of these where one of the two channels has no sender. idem may be nil. If Ledger is
	// set, the channel was read from the chain: Withdrawn counts as accepted, sold and settled. If
	// Ledger is more than MaxLedgerAhead ahead of the clock, it returns ErrOutdated.
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

	// Buy accepts the payment and sells as many chunksets to a session as it covers together
	// with the channel's credit; the rest becomes the credit. It returns the session after
	// that, or, if idem was recorded before, as it was first returned. idem may be nil.
	//
	// In addition to the errors of accepting a payment, it returns an
	// *InsufficientFundsError with Required the price and Available what could be spent if
	// that does not cover one chunkset, ErrNotFound or ErrExpired if Refill is set and the
	// session does not exist or has expired, and ErrAmountOverflow if the session would hold
	// more than 2^63-1 chunksets.
	Buy(ctx context.Context, p Purchase, idem *Idempotency) (Session, error)

	// PayRead accepts the payment and sells exactly Count chunksets; the rest becomes the
	// credit. It returns the channel after that. In addition to the errors of accepting a
	// payment, it returns an *InsufficientFundsError with Required Cost(Count, Price) and
	// Available what could be spent if that does not cover them.
	PayRead(ctx context.Context, r ReadPurchase) (Channel, error)

	// ReturnCredit adds the price of count chunksets that were sold at price to the
	// channel's credit, in any state of the channel, and returns the channel after that.
	// request identifies the return: repeated with the same request, it has no effect. It
	// returns ErrNotFound if there is no such channel.
	ReturnCredit(ctx context.Context, id string, count, price int64, request string) (Channel, error)

	// ReturnRead adds the price of all chunksets that PayRead sold for this payment under
	// the name charge, if it did, to the channel's credit, in any state of the channel, and
	// returns the channel after that. Of p only the parties and the Sequence are used. Once
	// it has returned nil, such a PayRead has sold nothing and never will. Repeated, it has
	// no effect. It is meant for a PayRead whose outcome was ErrUnknownOutcome, until
	// SaleRetention after it; later, nil says only that nothing was returned. It returns
	// ErrNoChannel if there is no such channel.
	ReturnRead(ctx context.Context, p Payment, charge string) (Channel, error)

	// AddDeposit adds to the deposit of an open channel and returns the channel after that
	// without its Proof, or, if idem was recorded before, as it was first returned. It returns
	// ErrNotFound, ErrChannelClosed, ErrChannelExpired or ErrAmountOverflow. idem may be nil.
	AddDeposit(ctx context.Context, id string, amount int64, idem *Idempotency) (Channel, error)

	// RecordReading records what was read of a channel on the chain, and returns the channel after
	// that. It has no effect if its ledger is older than the recorded one, or more than MaxLedgerAhead
	// ahead of the clock; such a recorded one counts as none. It has none either if it shows less
	// withdrawn than the recorded one of the same channel, whatever its ledger.
	//
	// The channel stops selling if it is gone or was ended and opened again (then Deposit is 0), or if
	// its deposit has shrunk. It was opened again if it was created later or, if that is not known, if
	// less was withdrawn. It sells again when its deposit has grown and covers what is accepted, unless
	// the amount of its newest submission is not settled: a deposit does not replace what is owed. It
	// also sells again when what was withdrawn is more than what is accepted, or covers the last
	// submission, which had failed or expired.
	//
	// A pending settlement of no more than what was withdrawn is removed. What was withdrawn and not
	// accepted counts as accepted and sold, so that it never becomes credit; then there is no Proof.
	// What was withdrawn and not collected by a submission is added to Settled and Elsewhere, while a
	// submission is in flight when that ends. It returns ErrNotFound if there is no such channel.
	RecordReading(ctx context.Context, id string, r Reading) (Channel, error)

	// Renew replaces the payment that proves what is accepted, and that can no longer be collected, by
	// one of the same Amount and a higher Sequence, and makes it the pending settlement, which is due at
	// once if SettleAt is not 0. It sells nothing. The channel may be closed or have stopped, and settling
	// may have halted. Repeated with the same payment, it has no effect.
	//
	// It returns the channel after that, or ErrNoChannel; ErrChannelExpired if it has expired at the
	// time of the ledger; a *StaleError unless the amount is the accepted one and the sequence acceptable;
	// ErrNothingExpired if Expired is 0; or an *InsufficientFundsError if the deposit does not cover it.
	Renew(ctx context.Context, p Payment) (Channel, error)

	// CloseChannel closes an open or expired channel and returns it. A pending settlement that would
	// be due later is due now. Repeated, it returns
	// the channel in its present state. It returns ErrNotFound if there is no such channel.
	CloseChannel(ctx context.Context, id string) (Channel, error)

	// Settlements returns up to limit pending settlements, also those that have expired, sorted by
	// Expires and Channel, starting after the settlement after, of which only these two
	// fields are used. The zero Settlement stands for the start.
	Settlements(ctx context.Context, after Settlement, limit int) ([]Settlement, error)

	// PayOut pays the settlements of the list out into the embedded ledger of an instance
	// without a chain, in one transaction. Each must be of another channel, which may be closed
	// or have expired. A payout is recorded once for each channel and sequence, Settled becomes
	// at least the amount, and a pending settlement up to the sequence is removed. Settlements
	// of a channel may be paid out in any order. Repeated, it has no effect. It returns
	// ErrNotFound if there is no such channel, or another error if an amount was not accepted,
	// and then has no effect on any channel.
	PayOut(ctx context.Context, list []Settlement) error

	// Unsettled returns what is accepted and not settled.
	Unsettled(ctx context.Context) (Unsettled, error)
}
