package chain

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"sluice/micropay"
)

// Submit submits a transaction. With nil a node has accepted it, which is no more than a promise to
// try: [Client.Transaction] returns its outcome. Submitting a transaction again is harmless.
//
// Submit returns an *Error if a node refused the transaction, and ErrUnavailable if no node
// answered, in which case the transaction may be executed all the same.
func (c *Client) Submit(ctx context.Context, t *micropay.Transaction) error {
	r := request{method: http.MethodPost, path: "/transactions", contentType: "application/x.aptos.signed_transaction+bcs", body: t.Body}
	return c.call(ctx, r, func(a *answer) error {
		var body struct {
			Hash string `json:"hash"`
		}
		if err := a.decodeJSON(http.StatusAccepted, &body); err != nil {
			return err
		}
		if body.Hash != t.Hash.String() {
			return a.malformed(fmt.Errorf("the hash is %q", body.Hash))
		}
		return nil
	})
}

// State is a transaction's state as a node knows it.
type State int

// The states.
const (
	StateUnknown  State = iota // never seen, or dropped
	StatePending               // accepted, and not executed
	StateExecuted              // executed, with success or not, for good
)

// Transaction is a transaction as a node knows it.
type Transaction struct {
	State State
	// At is the chain's time when the node answered. A transaction that is unknown then, and has
	// expired by that time, will never be executed.
	At time.Time
	// Success reports whether the executed transaction had its effect. VMStatus is the reason if
	// not.
	Success  bool
	VMStatus string
	GasUsed  uint64 // units of gas that the fee payer paid for
	GasPrice uint64 // that it paid for each, in the chain's smallest coin
	Version  uint64 // the chain's, after it executed the transaction; 0: the node does not state it
}

// Transaction returns the transaction with this hash as the first node that answers knows it. It
// returns ErrUnavailable, or an *Error if the node refuses the request.
func (c *Client) Transaction(ctx context.Context, hash micropay.Hash) (Transaction, error) {
	var t Transaction
	err := c.call(ctx, request{method: http.MethodGet, path: "/transactions/by_hash/" + hash.String()}, func(a *answer) error {
		if a.at.IsZero() {
			return a.malformed(errNoTime)
		}
		var body struct {
			Type     string `json:"type"`
			Hash     string `json:"hash"`
			Success  *bool  `json:"success"`
			VMStatus string `json:"vm_status"`
			GasUsed  number `json:"gas_used"`
			GasPrice number `json:"gas_unit_price"`
			Version  number `json:"version"`
		}
		err := a.decodeJSON(http.StatusOK, &body)
		if refusal, ok := errors.AsType[*Error](err); ok && refusal.Status == http.StatusNotFound && refusal.Code == "transaction_not_found" {
			t = Transaction{State: StateUnknown, At: a.at}
			return nil
		}
		switch {
		case err != nil:
			return err
		case body.Hash != hash.String():
			return a.malformed(fmt.Errorf("the hash is %q", body.Hash))
		case body.Type == "pending_transaction":
			t = Transaction{State: StatePending, At: a.at}
		case body.Type == "user_transaction" && body.Success != nil:
			t = Transaction{
				State: StateExecuted, At: a.at,
				Success: *body.Success, VMStatus: body.VMStatus[:min(maxMessage, len(body.VMStatus))], GasUsed: uint64(body.GasUsed),
				GasPrice: uint64(body.GasPrice), Version: uint64(body.Version),
			}
		default:
			return a.malformed(fmt.Errorf("the type is %q", body.Type))
		}
		return nil
	})
	return t, err
}
