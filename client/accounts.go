package client

import (
	"cmp"
	"context"
	"iter"
	"math"

	"sluice/wire"
)

// Account is an account with the number and size of its blobs.
type Account struct {
	Account string
	Blobs   int64
	Bytes   int64 // the sum of their sizes

	Versions     int64 // kept ones that are not current, deletions' marks included
	VersionBytes int64 // the sum of their sizes
}

// Accounts returns the accounts that have blobs or kept versions, sorted by name. The key needs the
// scope admin on all accounts. The sequence ends with the first error.
func (c *Client) Accounts(ctx context.Context) iter.Seq2[Account, error] {
	list := orderedList[wire.AccountPage, wire.Account]{
		name: "accounts", path: "/v1/accounts", limit: wire.MaxPageSize, of: func(p *wire.AccountPage) ([]wire.Account, string) { return p.Accounts, p.Next },
		at: func(a *wire.Account) string { return a.Account },
		check: func(a *wire.Account) error {
			return cmp.Or(checkName("account", a.Account), checkSize("blobs", a.Blobs, math.MaxInt64), checkSize("bytes", a.Bytes, math.MaxInt64),
				checkSize("versions", a.Versions, math.MaxInt64), checkSize("versionBytes", a.VersionBytes, math.MaxInt64))
		},
	}
	return converted(list.all(ctx, c), func(a wire.Account) Account { return Account(a) })
}

// converted returns a list's entries in another form.
func converted[From, To any](list iter.Seq2[From, error], to func(From) To) iter.Seq2[To, error] {
	return func(yield func(To, error) bool) {
		for e, err := range list {
			if !yield(to(e), err) {
				return
			}
		}
	}
}
