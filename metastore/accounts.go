package metastore

import "context"

// Account is what an account stores.
type Account struct {
	Account string
	Blobs   int64 // number of its blobs, expired ones included until they are purged
	Bytes   int64 // of the contents of the same blobs
}

// Accounts lists the accounts that have blobs. Every method that adds, replaces or removes a
// blob, by whatever handle, changes the counts of its account in its own transaction, so they
// are always exact, and concurrent writers of one account do not wait for each other. An
// account whose last blob was removed is not listed.
type Accounts interface {
	// ListAccounts returns up to limit accounts greater than after, in the order of their
	// bytes. Their counts belong to one state of the store. Its cost grows with the accounts
	// that it returns and with what was written to them since the last Purge, not with the
	// number of blobs.
	ListAccounts(ctx context.Context, after string, limit int) ([]Account, error)

	// TotalStored returns the sums of the counts of all accounts, of one state of the store. Its
	// cost grows with the number of accounts and with what was written since the last Purge, not
	// with the number of blobs.
	TotalStored(ctx context.Context) (blobs, bytes int64, err error)
}
