package blob

import (
	"context"

	"sluice/metastore"
)

// List returns a page of an account's blobs.
func (s *Service) List(ctx context.Context, q metastore.ListQuery) (metastore.Page, error) {
	return s.meta.ListBlobs(ctx, q)
}

// Accounts returns up to limit accounts that have blobs, sorted by name (bytewise), beginning after
// the account after. Accounts of markers and of kept versions are not listed.
func (s *Service) Accounts(ctx context.Context, after string, limit int) ([]metastore.Account, error) {
	list, err := s.meta.ListAccounts(ctx, after, limit)
	for i := range list {
		if metastore.IsHidden(list[i].Account) { // the rest is, too
			return list[:i], err
		}
	}
	return list, err
}
