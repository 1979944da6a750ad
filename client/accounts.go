package client

import (
	"context"
	"iter"
	"net/http"

	"sluice/wire"
)

// Account is an account with the number and size of its blobs.
type Account struct {
	Account string
	Blobs   int64
	Bytes   int64 // the sum of their sizes
}

// Accounts returns the accounts that have blobs, sorted by name. The key needs the scope admin on
// all accounts. The sequence ends with the first error.
func (c *Client) Accounts(ctx context.Context) iter.Seq2[Account, error] {
	first := func() (*request, func(*wire.AccountPage) error) {
		r := newRequest("list accounts", http.MethodGet, "/v1/accounts", readOnly)
		r.maxJSON = maxPageJSON
		return r, new(accountListing).check
	}
	return pages(ctx, c, first, accountsOf, func(page *wire.AccountPage) string { return page.Next })
}

// accountsOf returns a page's accounts.
func accountsOf(page *wire.AccountPage) iter.Seq[Account] {
	return func(yield func(Account) bool) {
		for _, a := range page.Accounts {
			if !yield(Account(a)) {
				return
			}
		}
	}
}

// accountListing checks pages with accounts, which are ordered by name.
type accountListing struct{ last string }

func (l *accountListing) check(page *wire.AccountPage) error {
	if n := len(page.Accounts); n > wire.MaxPageSize {
		return invalid("accounts", "has %d entries, more than %d", n, wire.MaxPageSize)
	}
	for _, a := range page.Accounts {
		if a.Account <= l.last || a.Blobs < 0 || a.Bytes < 0 {
			return invalid("accounts", "has %s after %s, or a negative number", shown(a.Account), shown(l.last))
		}
		if err := checkName("account", a.Account); err != nil {
			return err
		}
		l.last = a.Account
	}
	if page.Next != "" && (len(page.Accounts) == 0 || page.Next != l.last) {
		return invalid("next", "is %s, and not the last account of the page", shown(page.Next))
	}
	return nil
}
