package chain

import (
	"context"
	"errors"
	"net/http"
	"time"
)

// Ledger is the state of a node's ledger.
type Ledger struct {
	ChainID uint8
	Version uint64    // of the newest transaction
	Time    time.Time // of the newest block
}

// Ledger returns the state of the ledger of the first node that answers. It returns ErrUnavailable,
// with ErrWrongChain if that is why.
func (c *Client) Ledger(ctx context.Context) (Ledger, error) {
	var l Ledger
	err := c.call(ctx, request{method: http.MethodGet, path: "/"}, func(a *answer) error {
		var body struct {
			ChainID uint8  `json:"chain_id"`
			Version number `json:"ledger_version"`
			Micros  number `json:"ledger_timestamp"`
		}
		if err := a.decodeJSON(http.StatusOK, &body); err != nil {
			return err
		}
		if body.ChainID != c.chainID {
			return a.garbage(ErrWrongChain)
		}
		l = Ledger{ChainID: body.ChainID, Version: uint64(body.Version), Time: body.Micros.time()}
		return nil
	})
	return l, err
}

// GasPrice returns the lowest price of a unit of gas at which the first node that answers expects a
// transaction to be executed. It returns ErrUnavailable or an *Error.
func (c *Client) GasPrice(ctx context.Context) (uint64, error) {
	var price uint64
	err := c.call(ctx, request{method: http.MethodGet, path: "/estimate_gas_price"}, func(a *answer) error {
		var body struct {
			Usual  uint64 `json:"gas_estimate"`
			Lowest uint64 `json:"deprioritized_gas_estimate"`
		}
		if err := a.decodeJSON(http.StatusOK, &body); err != nil {
			return err
		}
		if body.Usual == 0 {
			return a.garbage(errors.New("there is no gas_estimate"))
		}
		price = body.Usual
		if body.Lowest > 0 {
			price = min(price, body.Lowest)
		}
		return nil
	})
	return price, err
}
