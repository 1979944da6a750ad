package chain

import (
	"context"
	"encoding/hex"
	"errors"
	"net/http"

	"sluice/micropay"
)

// AccountSequence returns an account's sequence number: how many transactions without a nonce it
// has sent. A transaction with a lower sequence number is never executed again. It is 0 for an
// account that does not exist, because the chain creates an account with its first transaction.
// AccountSequence returns ErrUnavailable or an *Error.
func (c *Client) AccountSequence(ctx context.Context, account micropay.Address) (uint64, error) {
	var sequence uint64
	err := c.call(ctx, request{method: http.MethodGet, path: "/accounts/0x" + hex.EncodeToString(account[:])}, func(a *answer) (err error) {
		sequence, err = decodeAccountSequence(a)
		return err
	})
	return sequence, err
}

func decodeAccountSequence(a *answer) (uint64, error) {
	var body struct {
		Sequence *number `json:"sequence_number"`
	}
	err := a.decodeJSON(http.StatusOK, &body)
	if refusal, ok := errors.AsType[*Error](err); ok && refusal.Status == http.StatusNotFound && refusal.Code == "account_not_found" {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if body.Sequence == nil {
		return 0, a.malformed(errors.New("there is no sequence_number"))
	}
	return uint64(*body.Sequence), nil
}
