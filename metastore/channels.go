package metastore

import (
	"context"
	"math"
	"time"
)

// ChannelState is where a channel stands.
type ChannelState string

// The states of a channel. A closed channel stays closed when its time is over.
const (
	ChannelOpen    ChannelState = "open"
	ChannelClosed  ChannelState = "closed"
	ChannelExpired ChannelState = "expired"
)

// Channel is a payment channel. Amounts are in units of the asset, from 0 to
// 2^63-1. Ledger: the sum over its sales of count times price, less what was
// returned, plus Credit, is Accepted; Settled <= Accepted <= Deposit.
type Channel struct {
	ID               string // unguessable, made by the caller
	PaymentChannelID int64
	Sender           string // empty: not bound yet
	Receiver         string
	Asset            string
	Deposit          int64
	Owner            string // whom it counts for in Usage, for ever; empty: nobody

	// Kept by the store.
	Accepted int64     // the highest accepted cumulative amount
	Sequence int64     // of the micropayment that proves it
	Proof    []byte    // its bytes; nil: nothing was accepted yet
	Credit   int64     // of Accepted, not sold for
	Settled  int64     // of Accepted, collected
	Closed   time.Time // when it was closed; zero: it was not

	Created time.Time // set by the store
	Expires time.Time
}

// State tells where the channel stands at a time.
func (c *Channel) State(now time.Time) ChannelState {
	switch {
	case !c.Closed.IsZero():
		return ChannelClosed
	case !now.Before(c.Expires):
		return ChannelExpired
	default:
		return ChannelOpen
	}
}

// Payment is a verified micropayment: signature, signer and policy are right.
// Its channel is found by Sender, Receiver, Asset and PaymentChannelID.
type Payment struct {
	Sender           string // canonical addresses
	Receiver         string
	Asset            string
	PaymentChannelID int64
	Sequence         int64
	Amount           int64     // cumulative
	Proof            []byte    // the bytes as received
	Expires          time.Time // when the chain refuses it

	// UnsettledLimit is the greatest Accepted - Settled that it may lead to.
	UnsettledLimit int64
}

// Purchase buys chunksets for a session.
type Purchase struct {
	Payment Payment
	Price   int64 // of a chunkset, at least 1
	// Session is the fresh session to be made (ID, UserIdentity and Expires
	// count), or, with Refill, the one to add to (only ID counts).
	Session Session
	Refill  bool
}

// Read buys chunksets that are read at once.
type ReadPurchase struct {
	Payment Payment
	Price   int64 // of a chunkset, at least 1
	Count   int64 // chunksets, at least 1
	// Charge is a fresh, unguessable name by which ReturnRead finds what was
	// sold; empty: none.
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

// Settlement is the newest accepted micropayment of a channel that has not been
// collected yet.
type Settlement struct {
	Channel  string // id
	Sequence int64
	Amount   int64 // cumulative
	Proof    []byte
	Expires  time.Time // it must be collected before
}

// Channels are the payment channels. They are remembered for ever. Their sales are
// not: Purge adds those that were not made to a session to a sum of the channel
// once they are older than SaleRetention, and those to a session once that is
// forgotten. Of what PayOut and Collect note, the last of each channel is kept.
//
// A payment is accepted by Buy and PayRead, in the transaction that sells: the
// channel is found (an unbound one is bound to the sender), it must be open,
// sequence and amount must both be above the accepted ones, the amount within
// the deposit, and Amount - Settled within the unsettled limit, in this order:
// ErrNoChannel, ErrChannelClosed or ErrChannelExpired, *StaleError, *InsufficientFundsError
// with Required the amount and Available the deposit, ErrUnsettledLimit. Then
// Amount - Accepted + Credit is there to be spent. The transaction also writes
// the settlement, in place of a pending one. A refusal changes nothing.
type Channels interface {
	// OpenChannel stores a fresh channel and returns it as stored, or, when
	// idem was seen before, the channel as it was first returned. ErrExists
	// when a channel of the same sender, receiver, asset and PaymentChannelID
	// was ever opened, and when either that one or this one has no sender and
	// the other three are the same. idem may be nil.
	OpenChannel(ctx context.Context, c Channel, idem *Idempotency) (Channel, error)

	// OpenedChannel returns the channel that an OpenChannel with this idem opened,
	// as it was first returned, and opens none. It waits for one that is at work.
	// ErrNotFound when none did, ErrIdempotencyReuse.
	OpenedChannel(ctx context.Context, idem Idempotency) (Channel, error)

	// Channel gives a channel.
	Channel(ctx context.Context, id string) (Channel, error)

	// FindChannel gives the channel that a payment of these parties is for:
	// that of the sender, or else the one that is not bound. ErrNoChannel.
	FindChannel(ctx context.Context, sender, receiver, asset string, paymentChannelID int64) (Channel, error)

	// ChannelSessions gives up to limit sessions that were bought over the
	// channel and are remembered, the newest first.
	ChannelSessions(ctx context.Context, id string, limit int) ([]Session, error)

	// Buy accepts the payment and sells as many chunksets as it covers, with
	// what the channel has in credit; the rest becomes the credit. It returns
	// the session as it then is, or, when idem was seen before, as it was first
	// returned. When not one chunkset is covered it is a *InsufficientFundsError with
	// Required the price and Available what was there to be spent. With Refill:
	// ErrNotFound and ErrExpired of the session. ErrAmountOverflow when the session
	// would hold more than 2^63-1. idem may be nil.
	Buy(ctx context.Context, p Purchase, idem *Idempotency) (Session, error)

	// PayRead accepts the payment and sells Count chunksets; what is over
	// becomes the credit. It returns the channel as it then is. When they are
	// not covered it is a *InsufficientFundsError with Required Count times Price and
	// Available what was there to be spent.
	PayRead(ctx context.Context, r ReadPurchase) (Channel, error)

	// ReturnCredit gives count chunksets, sold at price, back to the channel's
	// credit, whatever its state, and returns the channel as it then is.
	// request names this return: repeated, it has no effect. ErrNotFound.
	ReturnCredit(ctx context.Context, id string, count, price int64, request string) (Channel, error)

	// ReturnRead gives all chunksets back to the channel's credit that PayRead
	// sold for the payment (of which the parties and the Sequence count) under
	// the name charge, if it did, and returns the channel as it then is, whatever
	// its state. Once it has returned nil, such a PayRead has sold nothing and
	// never will: it is for one whose outcome was ErrUnknownOutcome. Repeated, it
	// has no effect. ErrNoChannel. A sale is found for SaleRetention: later, nil says
	// only that nothing was returned.
	ReturnRead(ctx context.Context, p Payment, charge string) (Channel, error)

	// AddDeposit adds to the deposit of an open channel and returns it as it
	// then is, or, when idem was seen before, as it was first returned.
	// ErrNotFound, ErrChannelClosed, ErrChannelExpired, ErrAmountOverflow. idem may be
	// nil.
	AddDeposit(ctx context.Context, id string, amount int64, idem *Idempotency) (Channel, error)

	// CloseChannel ends an open or expired channel and returns it. Repeated, it
	// returns the channel as it then is. ErrNotFound.
	CloseChannel(ctx context.Context, id string) (Channel, error)

	// Settlements gives up to limit settlements that are pending and have not
	// expired at now, those that expire first at the front, beginning behind
	// after, of which Expires and Channel count (zero: at the first).
	Settlements(ctx context.Context, after Settlement, limit int) ([]Settlement, error)

	// Settle notes that a channel's payment of this sequence and cumulative
	// amount was collected: Settled becomes at least amount, and a pending
	// settlement up to that sequence is gone. Repeated, it has no effect.
	// ErrNotFound; an error when amount is above Accepted.
	Settle(ctx context.Context, channel string, sequence, amount int64) error

	// Collect is the embedded ledger of an instance without a chain: it notes
	// the settlement as paid out, once for each channel and sequence, in
	// whatever order they come.
	Collect(ctx context.Context, s Settlement) error

	// PayOut is Collect and Settle of all of these, each of another channel, in
	// one transaction: the embedded ledger notes each as paid out, once, and none
	// is pending any more. Repeated, it has no effect. As Settle does, it refuses
	// what was not accepted, then with no effect on any.
	PayOut(ctx context.Context, list []Settlement) error

	// Uncollected returns how many channels have a settlement that is pending and
	// has expired, and the sum of what these channels have accepted and not
	// settled, at most 2^63-1.
	Uncollected(ctx context.Context) (channels, amount int64, err error)
}
