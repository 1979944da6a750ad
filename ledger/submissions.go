package ledger

import (
	"context"
	"time"
)

// SubmissionState is a submission's state.
type SubmissionState int

// A submission's states. All except InFlight are final.
const (
	InFlight  SubmissionState = iota // it may have been sent, and its outcome is not known
	Collected                        // the chain has executed it
	Failed                           // the chain has executed it without effect, for the reason in Status
	Expired                          // the chain has not executed it, and never will
)

// Submission is the transaction that we send to the chain for a settlement.
type Submission struct {
	Channel  string // id
	Sequence int64
	Amount   int64     // cumulative
	Hash     [32]byte  // by which the chain knows the transaction
	Body     []byte    // the transaction; empty unless it is in flight
	Expires  time.Time // from when on the chain refuses it
	Form     string    // the payment's; see Payment

	// Maintained by the store.
	State  SubmissionState
	Status string    // the chain's reason why it failed
	Begun  time.Time // when it was recorded
	Ended  time.Time // when its outcome was recorded; zero if it is in flight
}

// Outcome is a submission's outcome.
type Outcome struct {
	State   SubmissionState // not InFlight
	Status  string          // why it failed
	Reading Reading         // the channel after that; if ChainTime is zero, it was not read
	// Withdrawn is, if State is Collected, the withdrawn amount directly after the transaction. If
	// Reading.Withdrawn is more, that counts instead. Withdrawn is needed because the channel may
	// have been ended since, and opened again, before it was read.
	Withdrawn int64
	// Stop is why the channel sells nothing from now on, or "".
	Stop string
	// Halt is why the reading contradicts our assumptions about the contract, or "". It halts
	// settling until Resume.
	Halt string
}

// Submissions stores the fates of settlements on a chain. BeginSubmission turns a pending
// settlement into a submission, which is in flight until EndSubmission records its outcome;
// meanwhile the newest payment over the channel waits as the pending settlement. Each channel's
// newest submission is retained forever, without its body after it has ended.
type Submissions interface {
	// DueSettlements returns up to limit pending settlements that are due at the time ahead from
	// now, expired ones included. It leaves out channels with a submission in flight. The list is
	// sorted by Expires and Channel and starts after the settlement after; only these two fields of
	// after are used.
	DueSettlements(ctx context.Context, ahead time.Duration, after Settlement, limit int) ([]Settlement, error)

	// BeginSubmission makes the channel's pending settlement the submission in flight. It
	// returns ErrNotFound if the pending settlement does not have this sequence and amount,
	// ErrExists if the channel has a submission in flight, and a *StoppedError if settling has
	// halted.
	BeginSubmission(ctx context.Context, s Submission) error

	// SubmissionsInFlight returns up to limit submissions in flight, sorted by Channel, starting
	// after a channel.
	SubmissionsInFlight(ctx context.Context, after string, limit int) ([]Submission, error)

	// EndSubmission records the outcome of the channel's submission with this sequence, and then
	// the reading like RecordReading.
	//
	// If the submission was Collected,
	//
	//   - Settled becomes at least its amount, but not more than was withdrawn, and Collected grows
	//     by as much as Settled;
	//   - the channel's Form becomes the submission's, if it has one;
	//   - a stopped channel sells again, if its deposit covers Accepted.
	//
	// If it Failed or Expired, a pending settlement that would be due later becomes due now. Unless
	// third parties have withdrawn the amount, the channel stops selling: if it Failed, because of
	// Status, and the channel forgets its Form; if it Expired, because a payment has expired.
	//
	// Repeated, it has no effect. It returns ErrNotFound if the channel's newest submission does
	// not have this sequence, and another error if that submission has ended differently.
	EndSubmission(ctx context.Context, channel string, sequence int64, o Outcome) error

	// StopSelling stops the channel for a reason while the submission with this sequence is in
	// flight, because a fullnode refuses it. The channel sells again when a submission is
	// Collected, and not when its deposit grows. StopSelling has no effect if there is no such
	// submission in flight.
	StopSelling(ctx context.Context, channel string, sequence int64, reason string) error

	// Postpone makes the pending settlement with this sequence due at a time, if there is one; the
	// zero time means never.
	Postpone(ctx context.Context, channel string, sequence int64, due time.Time) error

	// Submission returns a channel's newest submission, or ErrNotFound.
	Submission(ctx context.Context, channel string) (Submission, error)

	// FailedSubmissions returns up to limit channels' newest submissions that have Failed, sorted
	// by Channel.
	FailedSubmissions(ctx context.Context, limit int) ([]Submission, error)

	// Halted returns why settling has halted, or "" if it has not. While it has, every node refuses
	// BeginSubmission and payments with SettleAt.
	Halted(ctx context.Context) (reason string, err error)

	// Resume lets settling continue. It returns ErrNotFound if settling has not halted for this
	// reason.
	Resume(ctx context.Context, reason string) error
}
