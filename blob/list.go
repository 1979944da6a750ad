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
// the account after.
func (s *Service) Accounts(ctx context.Context, after string, limit int) ([]metastore.Account, error) {
	return s.meta.ListAccounts(ctx, after, limit)
}
