package database

import "context"

// TimeProperty is the property in which KeepTime records the time.
const TimeProperty = "clock"

// LocksProperty is the property in which KeepTime records the time by the clock of locks, see
// metastore.Lock. It belongs to the instance: a restored database goes on from there.
const LocksProperty = "locks"

// Maintenance are the operations that keep a store in order. They serve no request: the server
// calls Purge, KeepTime and Census in the background, and an operator calls Audit.
type Maintenance interface {
	// Purge handles up to about limit rows of each kind that is due, and returns how many it
	// handled, or 0 if nothing is left to do now. It runs several transactions: after an error,
	// those before it have taken effect. It
	//
	//   - aborts idle uploads;
	//   - removes the parts of ended uploads, and ended uploads past their retention;
	//   - removes expired blobs past metastore.ExpiredBlobGrace;
	//   - removes expired sessions and idempotency keys past their retention;
	//   - makes garbage of extents that were stored ahead of a commit that never happened;
	//   - adds up old sales (see ledger.Channels);
	//   - adds up the records behind metastore.Usage and metastore.Accounts.
	//
	// It counts rows of the last kind only if limit kept it from adding up more. Its cost grows
	// with the rows to be handled, not with the rows that are stored. It returns ErrClock, without
	// effect, while DeletionErr is not nil.
	Purge(ctx context.Context, limit int) (int, error)

	// KeepTime records the time, or that it is in doubt and for how long, durably. A store that is
	// opened later and whose clock shows an earlier time, or one that is more than five minutes
	// later, doubts it: see Clock. So each process that deletes by age must call KeepTime at least
	// every minute, and when it ends.
	KeepTime(ctx context.Context) error

	// Census counts stored things. It reads the tables a page at a time: if a row is written,
	// changed or deleted during the call, Census counts its state before or after that. Its cost
	// grows with the number of sessions, channels and extents.
	Census(ctx context.Context) (Census, error)

	// Audit checks each channel's and each session's entries in the ledger, and compares the counts
	// of metastore.Accounts with the blobs. It returns a sentence for each inconsistency, and none
	// if everything is consistent. If there are more than MaxFindings, it returns MaxFindings
	// sentences, and the last one reports how many inconsistencies there are in all. Its memory is
	// bounded, however many channels, sales, sessions and blobs there are. Purge does not change
	// its result.
	Audit(ctx context.Context) ([]string, error)
}
