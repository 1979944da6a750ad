package collect

import (
	"errors"
	"fmt"
	"time"

	"sluice/chain"
	"sluice/ledger"
)

// The statuses with which fullnodes refuse a transaction because of the account that pays its gas:
// error codes of the virtual machine.
const noGas = 5 // INSUFFICIENT_BALANCE_FOR_TRANSACTION_FEE

// attempt is a submission that this process follows.
type attempt struct {
	ledger.Submission
	began    bool         // by this process
	version  uint64       // a version of the chain from before this process began it; 0: none is known
	taken    bool         // a fullnode has accepted it
	refusal  *chain.Error // because of the payment itself, by the fullnode that was asked last; nil: none
	compared bool         // its channel was read since this process follows it
	stopped  bool         // its channel has stopped selling, because of a refusal
	executed time.Time    // when this process has learnt that it is; zero if it has not
}

// submitted notes how a submission was answered.
func (a *attempt) submitted(err error) {
	a.taken = a.taken || err == nil
	if a.refusal, _ = errors.AsType[*chain.Error](err); a.refusal != nil && !aboutPayment(a.refusal) {
		a.refusal = nil
	}
}

// doubted reports whether the channel is to be read before the submission is sent again.
func (a *attempt) doubted() bool {
	return a.refusal != nil && !a.stopped || !a.began && !a.compared
}

// ofAnother reports whether a transaction was executed before this process began its submission.
func (a *attempt) ofAnother(t chain.Transaction) bool {
	return a.began && t.State == chain.StateExecuted && t.Version > 0 && t.Version <= a.version
}

// aboutPayment reports whether a fullnode refuses a transaction for the payer's signed part, which
// does not change: the virtual machine refuses it, but not because the receiver cannot pay the gas.
func aboutPayment(e *chain.Error) bool { return e.Code == "vm_error" && e.VMCode != noGas }

// expired returns the error to report for a submission that has expired.
func (a *attempt) expired() error {
	switch {
	case a.taken:
		return errors.New("it was submitted, and expired without being executed")
	case a.began:
		return errors.New("it expired before a fullnode took it")
	default:
		return errors.New("it expired without being executed")
	}
}

// ofPayment returns err with the payment to which it has happened.
func ofPayment(channel string, sequence int64, err error) error {
	return fmt.Errorf("collecting payment %d of channel %.6s: %w", sequence, channel, err)
}
