package chain

import (
	"context"
	"errors"
	"net/http"
	"time"
)

// Head is the newest state of the chain that a node knows.
type Head struct {
	ChainID uint8
	Version uint64    // the newest transaction's
	Time    time.Time // the newest block's
}

// Head returns the head from the first node that answers. It returns ErrUnavailable, with
// ErrWrongChain or ErrClock if that is why.
func (c *Client) Head(ctx context.Context) (Head, error) {
	var h Head
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
			return a.malformed(ErrWrongChain)
		}
		h = Head{ChainID: body.ChainID, Version: uint64(body.Version), Time: body.Micros.time()}
		_, err := c.aheadOf(h.Time)
		return err
	})
	return h, err
}

// GasPrices are estimated prices for a unit of gas, in the chain's smallest coin: the lowest price
// at which the chain executes a transaction, the usual one, and the one at which a transaction
// overtakes most.
type GasPrices struct{ Lowest, Usual, Highest uint64 }

// GasPrices returns the estimates from the first node that answers. Lowest is at most Usual, which
// is at most Highest. It returns ErrUnavailable or an *Error.
func (c *Client) GasPrices(ctx context.Context) (GasPrices, error) {
	var prices GasPrices
	err := c.call(ctx, request{method: http.MethodGet, path: "/estimate_gas_price"}, func(a *answer) (err error) {
		prices, err = decodeGasPrices(a)
		return err
	})
	return prices, err
}

func decodeGasPrices(a *answer) (GasPrices, error) {
	var body struct {
		Lowest  uint64 `json:"deprioritized_gas_estimate"`
		Usual   uint64 `json:"gas_estimate"`
		Highest uint64 `json:"prioritized_gas_estimate"`
	}
	if err := a.decodeJSON(http.StatusOK, &body); err != nil {
		return GasPrices{}, err
	}
	if body.Usual == 0 {
		return GasPrices{}, a.malformed(errors.New("there is no gas_estimate"))
	}
	lowest := body.Usual
	if body.Lowest > 0 {
		lowest = min(lowest, body.Lowest)
	}
	return GasPrices{Lowest: lowest, Usual: body.Usual, Highest: max(body.Usual, body.Highest)}, nil
}
