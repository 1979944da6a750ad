package ledger

import (
	"context"
	"time"
)

// SubmissionState is the state of a submission.
type SubmissionState int

// The states of a submission. All except InFlight are final.
const (
	InFlight  SubmissionState = iota // it may have been sent, and its outcome is not known
	Collected                        // the chain has executed it
	Failed                           // the chain has executed it without effect, as Status says
	Expired                          // the chain has not executed it, and never will
)

// Submission is a settlement that its receiver submits to the chain.
type Submission struct {
	Channel  string // id
	Sequence int64
	Amount   int64     // cumulative
	Hash     [32]byte  // by which the chain knows the transaction
	Body     []byte    // the transaction; empty unless it is in flight
	Expires  time.Time // from when on the chain refuses it
	Form     string    // of the payment; see Payment

	// Maintained by the store.
	State  SubmissionState
	Status string    // why it failed, as the chain says
	Begun  time.Time // when it was recorded
	Ended  time.Time // when its outcome was recorded; zero if it is in flight
}

// Outcome is the outcome of a submission.
type Outcome struct {
	State   SubmissionState // not InFlight
	Status  string          // why it failed
	Reading Reading         // of the channel after that; without a Ledger, it was not read
	// Withdrawn is what was withdrawn directly after the transaction, of one that was Collected;
	// less than Reading.Withdrawn stands for that. Reading may be of a channel that was ended
	// since, and opened again.
	Withdrawn int64
	// Stop is why the channel sells nothing from now on, or "".
	Stop string
	// Halt is why the reading contradicts what is known of the contract, or "". It halts settling
	// until Resume.
	Halt string
}

// Submissions stores what becomes of settlements on a chain. A pending settlement becomes a
// submission, and stays one until its outcome is known; newer payments over the channel wait as its
// pending settlement. The newest submission of each channel is retained forever, without its body
// after it has ended.
type Submissions interface {
	// DueSettlements returns up to limit pending settlements that are due at the time ahead from
	// now, of channels without a submission in flight, expired ones included. They are sorted by
	// Expires and Channel and start after the settlement after, of which only these two fields are
	// used.
	DueSettlements(ctx context.Context, ahead time.Duration, after Settlement, limit int) ([]Settlement, error)

	// BeginSubmission makes the pending settlement of the channel the submission in flight. It
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
	// If it is Collected, Settled becomes at least its amount, but not more than was withdrawn, and
	// what that adds to Settled is added to Collected. Form becomes that of the submission, if it
	// has one, and the channel sells again if it had stopped and its deposit covers what is
	// accepted. Otherwise a settlement that is pending becomes due now, and unless others have
	// withdrawn the amount, the channel stops selling: because of Status, and Form is forgotten, or
	// because a payment has expired.
	//
	// Repeated, it has no effect. It returns ErrNotFound if the newest submission of the channel
	// does not have this sequence, and another error if that has ended differently.
	EndSubmission(ctx context.Context, channel string, sequence int64, o Outcome) error

	// StopSelling stops the channel for a reason while the submission with this sequence is in
	// flight: a fullnode refuses it. It sells again when a submission is Collected, and not when
	// its deposit grows. It has no effect if there is no such submission in flight.
	StopSelling(ctx context.Context, channel string, sequence int64, reason string) error

	// Postpone makes the pending settlement with this sequence due at a time, if there is one. The
	// zero time is never.
	Postpone(ctx context.Context, channel string, sequence int64, due time.Time) error

	// Submission returns the newest submission of a channel, or ErrNotFound.
	Submission(ctx context.Context, channel string) (Submission, error)

	// FailedSubmissions returns up to limit newest submissions of channels that failed, sorted by
	// Channel.
	FailedSubmissions(ctx context.Context, limit int) ([]Submission, error)

	// Halted returns why settling has halted: then BeginSubmission is refused, and so are payments
	// with SettleAt, on every node. It returns "" if settling has not halted.
	Halted(ctx context.Context) (reason string, err error)

	// Resume ends the halt of settling. It returns ErrNotFound if settling has not halted.
	Resume(ctx context.Context) error
}
