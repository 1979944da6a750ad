package metastore

import "context"

// Account counts an account's blobs.
type Account struct {
	Account string
	Blobs   int64 // number of its blobs, expired ones included until they are purged
	Bytes   int64 // their total size
	// Kept and KeptBytes are the same of its versions that are not current, marks included.
	Kept, KeptBytes int64
}

// Accounts lists the accounts that have blobs or kept versions. Every method that adds, replaces or
// removes a blob, by any handle, changes the account's counts in its own transaction. So the counts
// are always exact, and concurrent writers to one account do not wait for each other. An account
// that has lost its last blob and version is not listed.
type Accounts interface {
	// ListAccounts returns up to limit accounts greater than after, sorted by name (bytewise), also
	// those that have nothing but versions that are not current.
	// Their counts belong to one state. Its cost grows with the number of accounts
	// that it returns and with the writes to them since the last Purge, not with the number of
	// blobs.
	ListAccounts(ctx context.Context, after string, limit int) ([]Account, error)

	// TotalStored returns the sums of all accounts' counts, which belong to one state.
	// Its cost grows with the number of accounts and with the writes since the last Purge, not with
	// the number of blobs.
	TotalStored(ctx context.Context) (blobs, bytes int64, err error)
}
