package ledger

import (
	"context"
	"math"
	"time"
)

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

	// UnsettledLimit is the greatest Accepted - Settled that the payment may lead to, and
	// StartingLimit what it may lead to as long as nothing was collected over the channel; see
	// Channel.SellingLimit. A StartingLimit of 0 is that of a service without a chain:
	// UnsettledLimit applies.
	UnsettledLimit, StartingLimit int64

	// Form identifies how the payment is encoded and signed and what gas it offers, of payments
	// that are collected on a chain. Simulated reports that the chain would have executed the
	// payment.
	Form      string
	Simulated bool

	// SettleAt is the accepted amount that is neither settled nor submitted at which the pending
	// settlement is due. If it is 0, the settlement is never due, because there is no chain.
	// Otherwise it is also due when half of the selling limit is unsettled, and at the latest after
	// half of the time until Expires, or until the channel expires if that is earlier, or after
	// SettleWithin if that is not 0, and never later than the settlement that it replaces.
	SettleAt     int64
	SettleWithin time.Duration

	// Ahead is by how much the ledger is ahead of the clock of the store. Renew takes it into
	// account.
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

// Payments sells over channels.
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
// pending settlement of the channel, in place of an earlier one, and if it was Simulated its Form.
// A refusal has no effect.
type Payments interface {
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

	// Renew replaces the payment that proves what is accepted, and that can no longer be collected,
	// by one of the same Amount and a higher Sequence, and makes it the pending settlement, which
	// is due at once if SettleAt is not 0. It sells nothing. The channel may be closed or have
	// stopped, and settling may have halted. Repeated with the same payment, it has no effect.
	//
	// It returns the channel after that, or ErrNoChannel; ErrChannelExpired if it has expired at
	// the time of the ledger; a *StaleError unless the amount is the accepted one and the sequence
	// acceptable; ErrNothingExpired if Expired is 0; or an *InsufficientFundsError if the deposit
	// does not cover it.
	Renew(ctx context.Context, p Payment) (Channel, error)
}
