package httpapi

import (
	"net/http"

	"sluice/wire"
)

func (s *Server) listAccounts(x *exchange) error {
	q, err := readQuery(x.r)
	if err != nil {
		return err
	}
	limit, err := q.limit()
	if err != nil {
		return err
	}
	accounts, err := s.blobs.Accounts(x.r.Context(), q.text("after"), limit+1)
	if err != nil {
		return err
	}
	var out wire.AccountPage
	if len(accounts) > limit {
		accounts = accounts[:limit]
		out.Next = accounts[limit-1].Account
	}
	for _, a := range accounts {
		out.Accounts = append(out.Accounts, wire.Account{Account: a.Account, Blobs: a.Blobs, Bytes: a.Bytes})
	}
	return writeJSON(x, http.StatusOK, out)
}
