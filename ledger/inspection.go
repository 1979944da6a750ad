package ledger

import (
	"context"
	"time"
)

// Sale is an entry of the ledger of a channel: a purchase, or a return to its credit.
type Sale struct {
	ID       string // in the order in which sales were made
	Payment  bool   // whether it was a purchase by a payment, and no return
	Sequence int64  // of that payment
	Session  string // id of the session that was bought; empty: chunksets were read directly, or returned
	Count    int64  // chunksets; negative: returned
	Price    int64  // of a chunkset
	Time     time.Time
}

// Statement is what is recorded about the money of a channel, apart from its sales.
type Statement struct {
	Channel Channel
	Folded  int64       // the sum of count times price of the sales that are not retained
	Pending *Settlement // the payment that waits to be collected; nil: there is none
	// Booked is the last payout into the embedded ledger, of which Sequence and Amount are set;
	// nil: there is none.
	Booked   *Settlement
	BookedAt time.Time // when Paid was recorded
}

// Inspection lists sessions and channels for the operator of a local instance. Nothing else may
// list them, because their ids are capabilities.
type Inspection interface {
	// ListSessions returns up to limit retained sessions, those that expire last first, and by
	// descending id, starting after the session with the id after, or with the first if it is
	// empty, and whether there are more. It returns ErrNotFound if there is no such session. The
	// user identities have at most the given bytes, with EntryCharge for each session; 0 is no
	// bound, and the first session is always returned.
	ListSessions(ctx context.Context, after string, limit int, bytes int64) (list []Session, more bool, err error)

	// ListChannels returns up to limit channels with an id greater than after, sorted by id.
	ListChannels(ctx context.Context, after string, limit int) ([]Channel, error)

	// Statement returns the ledger of a channel, or ErrNotFound.
	Statement(ctx context.Context, channel string) (Statement, error)

	// Sales returns up to limit retained sales of a channel with an id less than before, the
	// newest first; an empty before is the start. Its cost grows with the number of retained
	// sales of the channel.
	Sales(ctx context.Context, channel, before string, limit int) ([]Sale, error)
}
