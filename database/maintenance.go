package database

import "context"

// Maintenance are the operations that keep a store in order. They serve no request: the server
// calls Purge, Unreferenced and Census in the background, and an operator calls Audit.
type Maintenance interface {
	// Purge removes up to about limit rows of each kind whose time is over, and returns how
	// many it handled: it aborts idle uploads, removes expired blobs past ExpiredBlobGrace,
	// the parts of ended uploads, and ended uploads, expired sessions and idempotency keys past
	// their retention, and makes garbage of extents that were stored ahead of a commit that never
	// happened. It returns 0 if nothing is left to do now. It also adds up old sales (see
	// Channels), and the records behind Usage and Accounts, which it counts only if limit cut
	// that short. Its cost grows with the rows to be handled, not with those stored. It returns
	// ErrClock, without effect, while DeletionErr is not nil.
	Purge(ctx context.Context, limit int) (int, error)

	// Census counts what is stored. It reads the tables a page at a time, so that a row that is
	// written, changed or deleted during the call may or may not be counted as it is then. Its
	// cost grows with the number of sessions, channels and extents.
	Census(ctx context.Context) (Census, error)

	// Audit checks the ledgers of all channels and sessions, and compares the counts of
	// Accounts with the blobs. It returns a sentence for each inconsistency, but at most
	// MaxFindings sentences, of which the last then reports how many there were in all; none
	// if everything is consistent. Its memory is bounded, whatever the number of channels,
	// sales, sessions and blobs. Purge does not change its result.
	Audit(ctx context.Context) ([]string, error)
}
