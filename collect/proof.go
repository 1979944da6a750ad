package collect

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"sluice/chain"
	"sluice/ledger"
)

// proofPatience is for how long we ask fullnodes for the proof while they fail or are behind.
const proofPatience = 10 * time.Minute

// verdict is our knowledge about a collected submission beside its success.
type verdict struct {
	withdrawn int64  // ever, directly after the transaction
	halt      string // how the chain proves that the contract has other rules, or ""
	stop      string // a difference that is not proven and that no third party explains, or ""
}

// judge compares a channel with the rules for a collected submission. of is the channel as it was
// recorded before, and now the channel afterwards.
//
// Their difference proves nothing, because third parties change the channel too. A payer may
// deposit as much as is collected, or end the channel, as often and over as many channels as it
// likes, and must not halt settling by that. Only the channel directly before and directly after
// the transaction is a proof. Where no fullnode shows these, an unexplained difference stops the
// channel alone.
func (c *Collector) judge(ctx context.Context, a *attempt, t chain.Transaction, of ledger.Channel, now ledger.Reading) (verdict, error) {
	s := a.Submission
	v := verdict{withdrawn: withdrawnAfter(s.Amount)}
	if conclusive(s, recorded(of), now) {
		return v, nil
	}
	before, after, err := c.around(ctx, s, of, t.Version)
	if err != nil && ctx.Err() == nil && c.store.Now().Sub(a.executed) > proofPatience {
		err = &unprovenError{err}
	}
	difference := unexplained(s, recorded(of), now)
	switch unproven, ok := errors.AsType[*unprovenError](err); {
	case ok && difference != "":
		v.stop = fmt.Sprintf("%s, and %s%s: compare the channel with the chain", submissionOf(s), difference, unproven)
	case ok:
	case err != nil:
		return v, fmt.Errorf("reading the channel at the transaction: %w", err)
	default:
		v.withdrawn = after.Withdrawn
		if difference := contradiction(s, before, after); difference != "" {
			v.halt = fmt.Sprintf("%s, and %s", submissionOf(s), difference)
		}
	}
	return v, nil
}

// recorded returns a channel's recorded reading.
func recorded(of ledger.Channel) ledger.Reading {
	return ledger.Reading{
		Deposit: of.Deposit, Withdrawn: of.Withdrawn, NextSequence: of.NextSequence, Expires: of.Expires, Created: of.ChainCreated, ChainTime: of.ChainTime,
	}
}

func submissionOf(s ledger.Submission) string {
	return fmt.Sprintf("%d units were collected at sequence number %d (transaction 0x%x)", s.Amount, s.Sequence, s.Hash)
}

// unprovenError means that no fullnode shows a transaction's effect on its channel.
type unprovenError struct{ why error }

func (e *unprovenError) Error() string {
	return fmt.Sprintf(" (no fullnode shows the state at the transaction: %v)", e.why)
}

// around returns the channel directly before and directly after a transaction, which has this
// version. It returns an *unprovenError if the fullnodes have forgotten the transaction or the
// states, or show different ones.
func (c *Collector) around(ctx context.Context, s ledger.Submission, of ledger.Channel, version uint64) (before, after ledger.Reading, err error) {
	if version == 0 {
		return before, after, &unprovenError{errors.New("the transaction is forgotten")}
	}
	before, err = c.readAt(ctx, of, version-1)
	if err == nil {
		after, err = c.readAt(ctx, of, version)
	}
	// 404 means that the fullnode is behind.
	if refusal, ok := errors.AsType[*chain.Error](err); ok && refusal.Status != http.StatusNotFound {
		err = &unprovenError{refusal}
	}
	if err == nil && !isBefore(s, before) {
		err = &unprovenError{errors.New("the fullnode shows a later one")}
	}
	return before, after, err
}
