package ledger

import (
	"context"
	"math"
	"time"

	"sluice/database"
)

// Payment is a micropayment as its payer sent it; the caller has verified its signature and signer.
// Sender, Receiver, Asset and PaymentChannelID identify its channel.
type Payment struct {
	Sender           string // canonical addresses
	Receiver         string
	Asset            string
	PaymentChannelID int64
	Sequence         int64
	Amount           int64     // cumulative
	Proof            []byte    // the micropayment's bytes as received
	Expires          time.Time // from when on the chain refuses it
	Form             string    // how it is encoded and signed, and the gas that it offers; empty without a chain

	// MaxPrice is the greatest price of a chunkset at which the payer buys; 0: any. It is a part of
	// the request and is not signed.
	MaxPrice int64
}

// Policy is the seller's policy for one payment.
type Policy struct {
	// UnsettledLimit is the greatest Accepted - Settled to which the payment may lead, and
	// StartingLimit the greatest as long as nothing was collected over the channel; see
	// Channel.SellingLimit. Without a chain StartingLimit is 0, and UnsettledLimit applies.
	UnsettledLimit, StartingLimit int64

	// SettleAt is the amount from which on the pending settlement is due at once. If it is 0, there
	// is no chain, and the pending settlement is never due. Otherwise it is due at the earliest of
	// these deadlines:
	//
	//   - now, if at least SettleAt, or at least half the selling limit, is accepted and neither
	//     settled nor submitted;
	//   - after half the time until Expires;
	//   - after half the time until the channel expires;
	//   - after SettleWithin, if that is not 0;
	//   - when the settlement that it replaces was due, if ever.
	//
	// For example, if a small payment expires in an hour and its channel in 20 minutes, the
	// settlement is due after 10 minutes, or with a SettleWithin of one minute after that minute.
	SettleAt     int64
	SettleWithin time.Duration

	// Simulated reports that the chain would have executed the payment.
	Simulated bool

	// Ahead is how far the chain's time is ahead. Renew, and the Expired in an
	// *UnsettledLimitError, judge expiry by the chain's time.
	Ahead time.Duration

	// MaxAge is the greatest permitted age of the channel's last reading; 0: no limit.
	MaxAge time.Duration
}

// Offer is a payment, and the policy by which the seller accepts or refuses it.
type Offer struct {
	Payment
	Policy
}

// Purchase buys chunksets for a session.
type Purchase struct {
	Offer Offer
	Price int64 // for each chunkset, at least 1
	// Session is the new session: its ID, UserIdentity and Expires are used. Or, if Refill is set,
	// it is the existing session to add to, and only its ID is used.
	Session Session
	Refill  bool
}

// ReadPurchase buys chunksets that are read immediately.
type ReadPurchase struct {
	Offer Offer
	Price int64 // for each chunkset, at least 1
	Count int64 // chunksets, at least 1
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
//   - the channel is open; else ErrChannelClosed or ErrChannelExpired;
//   - with SettleAt, settling has not halted (see Submissions); else a *StoppedError;
//   - with MaxAge, the channel was read recently enough; else ErrOutdated;
//   - the channel has not stopped; else a *StoppedError;
//   - sequence and amount are both above the accepted ones and, if the channel was read from the
//     chain, acceptable there; else a *StaleError;
//   - the price is at most MaxPrice, if that is not 0; else a *PriceChangedError;
//   - the amount is within the deposit; else an *InsufficientFundsError with Required the
//     amount and Available the deposit;
//   - Amount - Settled is within the selling limit (see Channel.SellingLimit); else an
//     *UnsettledLimitError.
//
// Then Amount + Credit less Accepted, or less Withdrawn if that is more, can be spent. The
// transaction also stores the payment as the channel's pending settlement, in place of an earlier
// one, and its Form if it was Simulated. A refusal has no effect.
type Payments interface {
	// Buy accepts the payment and sells as many chunksets to a session as it covers together
	// with the channel's credit; the rest becomes the credit. It returns the session after
	// that, or, if idem was recorded before, as it was first returned. idem may be nil.
	//
	// In addition to a refused payment's errors, it returns
	//
	//   - an *InsufficientFundsError with Required the price and Available the amount that could be
	//     spent, if that does not cover one chunkset;
	//   - ErrNotFound or ErrExpired, if Refill is set and the session does not exist or has
	//     expired;
	//   - ErrAmountOverflow, if the session would hold more than 2^63-1 chunksets.
	Buy(ctx context.Context, p Purchase, idem *database.Idempotency) (Session, error)

	// PayRead accepts the payment and sells exactly Count chunksets; the rest becomes the credit.
	// It returns the channel after that. In addition to a refused payment's errors, it returns an
	// *InsufficientFundsError with Required Cost(Count, Price) and Available the amount that could
	// be spent, if that does not cover them.
	PayRead(ctx context.Context, r ReadPurchase) (Channel, error)

	// ReturnCredit adds the price of count chunksets that were sold at price to the channel's
	// credit, whatever the channel's state is, and returns the channel after that. request
	// identifies the return: repeated with the same request, it has no effect. It returns
	// ErrNotFound if there is no such channel.
	ReturnCredit(ctx context.Context, id string, count, price int64, request string) (Channel, error)

	// ReturnRead adds the price of all chunksets that PayRead sold for this payment under the name
	// charge, if it did, to the channel's credit, whatever the channel's state is, and returns the
	// channel after that. It uses only p's parties and Sequence. Once it has returned nil, such a
	// PayRead has sold nothing and never will. Repeated, it has no effect. It is meant for a
	// PayRead that returned ErrUnknownOutcome, until SaleRetention after it; later, nil means only
	// that nothing was returned. It returns ErrNoChannel if there is no such channel.
	ReturnRead(ctx context.Context, p Payment, charge string) (Channel, error)

	// Renew is for a channel whose accepted amount can no longer be collected, because the payment
	// that proves it has expired or was refused. It replaces that payment by o, which has the same
	// Amount and a higher Sequence, and makes o the pending settlement, due at once if SettleAt is
	// not 0. It sells nothing. The channel may be closed or have stopped, and settling may have
	// halted. Repeated with the same payment, it has no effect.
	//
	// It returns the channel after that, or
	//
	//   - ErrNoChannel;
	//   - ErrChannelExpired, if the channel has expired by the chain's time;
	//   - a *StaleError, unless the amount is the accepted one and the sequence is acceptable;
	//   - ErrNothingExpired, if Channel.Expired is 0;
	//   - an *InsufficientFundsError, if the deposit does not cover the amount.
	Renew(ctx context.Context, o Offer) (Channel, error)
}
