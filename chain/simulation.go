package chain

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// Simulation is the effect that a transaction would have if the chain executed it now.
type Simulation struct {
	// Success reports whether the transaction would have its effect. VMStatus is the reason why
	// not: the failed transaction's own, or the check that the chain makes before it executes a
	// transaction, such as SEQUENCE_NUMBER_TOO_OLD or INVALID_AUTH_KEY.
	Success  bool
	VMStatus string    // at most 300 bytes
	GasUsed  uint64    // units of gas that the fee payer would pay for
	At       time.Time // the chain's time when it was simulated
}

// Simulate lets the first node that answers execute a transaction without effect. body is from
// [micropay.Micropayment.Simulation]: nodes refuse one with valid signatures. Simulate returns
// ErrUnavailable, or an *Error if the node refuses to simulate the transaction.
func (c *Client) Simulate(ctx context.Context, body []byte) (Simulation, error) {
	r := request{method: http.MethodPost, path: "/transactions/simulate", contentType: "application/x.aptos.signed_transaction+bcs", body: body}
	var s Simulation
	err := c.call(ctx, r, func(a *answer) (err error) {
		s, err = decodeSimulation(a)
		return err
	})
	return s, err
}

// decodeSimulation decodes a list with one transaction.
func decodeSimulation(a *answer) (Simulation, error) {
	if a.at.IsZero() {
		return Simulation{}, a.malformed(errNoTime)
	}
	var body []struct {
		Success  *bool   `json:"success"`
		VMStatus string  `json:"vm_status"`
		GasUsed  *number `json:"gas_used"`
	}
	if err := a.decodeJSON(http.StatusOK, &body); err != nil {
		return Simulation{}, err
	}
	if len(body) != 1 {
		return Simulation{}, a.malformed(fmt.Errorf("%d transactions, want one", len(body)))
	}
	t := body[0]
	if t.Success == nil || t.GasUsed == nil {
		return Simulation{}, a.malformed(errors.New("the transaction has no success or gas_used"))
	}
	return Simulation{
		Success: *t.Success, VMStatus: t.VMStatus[:min(maxMessage, len(t.VMStatus))], GasUsed: uint64(*t.GasUsed), At: a.at,
	}, nil
}
