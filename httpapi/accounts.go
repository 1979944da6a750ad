package httpapi

import (
	"sluice/metastore"
	"sluice/wire"
)

func (s *Server) listAccounts(x *call) error {
	q, limit, err := pageOf(x)
	if err != nil {
		return err
	}
	accounts, err := s.blobs.Accounts(x.Request.Context(), q.text("after"), limit+1)
	if err != nil {
		return err
	}
	var out wire.AccountPage
	accounts, out.Next = cutPage(accounts, limit, func(a metastore.Account) string { return a.Account })
	for _, a := range accounts {
		out.Accounts = append(out.Accounts, wire.Account{Account: a.Account, Blobs: a.Blobs, Bytes: a.Bytes, Versions: a.Kept, VersionBytes: a.KeptBytes})
	}
	return writePage(x, out, len(out.Accounts))
}
