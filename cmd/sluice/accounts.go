package main

import (
	"context"
	"errors"
	"fmt"

	"sluice/client"
	"sluice/cmd/sluice/internal/operand"
)

// eachAccount calls fn with an operand, or with each account on the server if there is none. It
// remarks on a server without blobs.
func (f outputFlags) eachAccount(ctx context.Context, console *console, on *client.Client, of operand.Remote, fn func(operand.Remote, *client.Account) error) error {
	if of.Account != "" {
		return fn(of, nil)
	}
	empty := true
	for a, err := range on.Accounts(ctx) {
		if errors.Is(err, client.ErrForbidden) || errors.Is(err, client.ErrUnauthorized) {
			err = fmt.Errorf("%w; only a key with admin for all accounts lists them: name an ACCOUNT", err)
		}
		if err == nil {
			err = fn(operand.Remote{Account: a.Account}, &a)
		}
		if err != nil {
			return err
		}
		empty = false
	}
	if empty {
		return f.remark(console, "there are no blobs in any account")
	}
	return nil
}
