package collect

import (
	"context"
	"fmt"
	"math"

	"sluice/chain"
	"sluice/ledger"
	"sluice/micropay"
)

// The public client does not state the contract's rules. The functions below are our assumptions,
// one for each rule. After every submission that was collected, contradiction compares them with
// the chain.

// deposited returns the sum of all deposits into a channel: withdrawals reduce its balance.
func deposited(c chain.Channel) uint64 {
	if c.Withdrawn > math.MaxUint64-c.Balance {
		return math.MaxUint64
	}
	return c.Balance + c.Withdrawn
}

// withdrawnAfter returns the withdrawn sum after a micropayment was collected: its amount is
// cumulative.
func withdrawnAfter(amount int64) int64 { return amount }

// nextAfter returns the least sequence number that the contract accepts after a micropayment was
// collected, as a Reader returns it.
func nextAfter(sequence int64) int64 { return amount(uint64(sequence) + 1) }

// contradiction returns how a channel contradicts the rules after a submission was collected, or
// "". before is the channel before that; nothing else may have happened to it.
func contradiction(s ledger.Submission, before, after ledger.Reading) string {
	withdrawn := withdrawnAfter(s.Amount)
	grown := after.Deposit - before.Deposit
	switch {
	case after.Gone:
		return "the channel does not exist"
	case after.Withdrawn != withdrawn:
		return fmt.Sprintf("%d units are withdrawn, not %d", after.Withdrawn, withdrawn)
	case after.NextSequence != nextAfter(s.Sequence):
		return fmt.Sprintf("the next sequence number is %d, not %d", after.NextSequence, nextAfter(s.Sequence))
	case grown > 0 && grown == withdrawn-before.Withdrawn:
		return fmt.Sprintf("the withdrawal of %d units has not reduced the balance", grown)
	case grown < 0:
		return fmt.Sprintf("%d units were deposited, not %d", after.Deposit, before.Deposit)
	}
	return ""
}

// unexplained returns how a channel contradicts the rules some time after a submission was
// collected, or "" if a third party's deposit or withdrawal, or the channel's end, explains the
// difference. before is an earlier reading, without ChainTime if there was none. A deposit of the
// withdrawn amount looks like a withdrawal that did not reduce the balance.
func unexplained(s ledger.Submission, before, now ledger.Reading) string {
	switch {
	case now.Gone, openedAgain(before, now):
		return ""
	case now.Withdrawn > withdrawnAfter(s.Amount) && now.NextSequence > nextAfter(s.Sequence):
		return ""
	case before.ChainTime.IsZero():
		before.Deposit = now.Deposit
	}
	return contradiction(s, before, now)
}

// conclusive reports whether a channel shows a collected submission's effect alone: nothing else
// has happened since before.
func conclusive(s ledger.Submission, before, now ledger.Reading) bool {
	return before.Withdrawn < withdrawnAfter(s.Amount) && before.Deposit == now.Deposit && !openedAgain(before, now) && contradiction(s, before, now) == ""
}

// isBefore reports whether a channel can be as it was before the submission was collected.
func isBefore(s ledger.Submission, r ledger.Reading) bool {
	return !r.Gone && r.Withdrawn < withdrawnAfter(s.Amount) && r.NextSequence <= s.Sequence
}

// alreadyCollected reports whether a channel shows that a submission's amount was withdrawn, by its
// transaction or by another: fullnodes forget old transactions. before is an earlier reading.
func alreadyCollected(s ledger.Submission, before, now ledger.Reading) bool {
	return !now.Gone && !openedAgain(before, now) && now.Withdrawn >= withdrawnAfter(s.Amount) && now.NextSequence >= nextAfter(s.Sequence)
}

// openedAgain reports whether the channel was ended between two readings, and opened again under
// its number.
func openedAgain(before, now ledger.Reading) bool {
	return !before.Created.IsZero() && now.Created.After(before.Created)
}

// Reader reads channels from the chain.
type Reader struct {
	Chain    *chain.Client
	Receiver micropay.Address
}

// Read returns the channel with this number, between the sender and the receiver. The addresses
// must be valid. It returns the errors of chain.Client.Channels.
func (r Reader) Read(ctx context.Context, sender, asset string, paymentChannelID int64) (ledger.Reading, error) {
	return first(r.ReadAll(ctx, ledger.Channel{Sender: sender, Asset: asset, PaymentChannelID: paymentChannelID}))
}

// ReadAt is Read at a version of the chain. It returns the errors of chain.Client.ChannelsAt.
func (r Reader) ReadAt(ctx context.Context, sender, asset string, paymentChannelID int64, version uint64) (ledger.Reading, error) {
	at := func(ctx context.Context, sender, receiver micropay.Address, names ...chain.ChannelName) (chain.Channels, error) {
		return r.Chain.ChannelsAt(ctx, version, sender, receiver, names...)
	}
	return first(r.read(ctx, []ledger.Channel{{Sender: sender, Asset: asset, PaymentChannelID: paymentChannelID}}, at))
}

// ReadAll is Read of one or more channels of one sender, in one call. The readings are in the order
// of the channels.
func (r Reader) ReadAll(ctx context.Context, of ...ledger.Channel) ([]ledger.Reading, error) {
	return r.read(ctx, of, r.Chain.Channels)
}

func (r Reader) read(ctx context.Context, of []ledger.Channel, channels func(ctx context.Context, sender, receiver micropay.Address, names ...chain.ChannelName) (chain.Channels, error)) ([]ledger.Reading, error) {
	sender, err := micropay.ParseAddress(of[0].Sender)
	if err != nil {
		return nil, err
	}
	names := make([]chain.ChannelName, len(of))
	for i, c := range of {
		asset, err := micropay.ParseAddress(c.Asset)
		if err != nil {
			return nil, err
		}
		names[i] = chain.ChannelName{Asset: asset, PaymentChannelID: uint64(c.PaymentChannelID)}
	}
	all, err := channels(ctx, sender, r.Receiver, names...)
	if err != nil {
		return nil, err
	}
	readings := make([]ledger.Reading, len(of))
	for i, name := range names {
		if c, exists := all.ByName[name]; exists {
			readings[i] = ledger.Reading{
				Deposit: amount(deposited(c)), Withdrawn: amount(c.Withdrawn), NextSequence: amount(c.NextSequence),
				Expires: c.Expires, Created: c.Created, ChainTime: all.At,
			}
		} else {
			readings[i] = ledger.Reading{Gone: true, ChainTime: all.At}
		}
	}
	return readings, nil
}

// first returns the only reading.
func first(readings []ledger.Reading, err error) (ledger.Reading, error) {
	if err != nil {
		return ledger.Reading{}, err
	}
	return readings[0], nil
}

// amount returns n, at most 2^63-1.
func amount(n uint64) int64 { return int64(min(n, math.MaxInt64)) }
