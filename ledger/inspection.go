package ledger

import (
	"context"
	"time"
)

// Sale is an entry in the ledger: a purchase over a channel, or a return to the channel's credit.
type Sale struct {
	ID       string // in the order in which sales were made
	Payment  bool   // whether it is a purchase by a payment, not a return
	Sequence int64  // that payment's
	Session  string // id of the session that was bought; empty: chunksets were read directly, or returned
	Count    int64  // chunksets; negative: returned
	Price    int64  // for each chunkset
	Time     time.Time
}

// Statement has the ledger's records about a channel's money, apart from its sales.
type Statement struct {
	Channel Channel
	Folded  int64       // the sum of count times price over the sales that are no longer retained
	Pending *Settlement // the settlement that waits to be collected or booked; nil: there is none
	// Booked is the last settlement that an instance without a chain has booked: its Channel,
	// Sequence and Amount. It is nil if there is none.
	Booked   *Settlement
	BookedAt time.Time // when it was booked
}

// Inspection lists sessions and channels for operators. Nothing else may list them, because their
// ids are capabilities.
type Inspection interface {
	// ListSessions returns up to limit retained sessions, sorted by descending Expires and then by
	// descending id, starting after the session with the id after, or with the first if after is
	// empty, and whether there are more. It returns ErrNotFound if there is no such session. The
	// user identities, with database.EntryCharge for each session, have at most the given bytes; 0
	// is no bound, and the first session is always returned.
	ListSessions(ctx context.Context, after string, limit int, bytes int64) (list []Session, more bool, err error)

	// ListChannels returns up to limit channels with an id greater than after, sorted by id.
	ListChannels(ctx context.Context, after string, limit int) ([]Channel, error)

	// Corrections returns the first 1,000 corrections by RecordReading in their order: the time,
	// and the channel's amounts after and before it.
	Corrections(ctx context.Context) ([]string, error)

	// Statement returns a channel's statement, or ErrNotFound.
	Statement(ctx context.Context, channel string) (Statement, error)

	// Sales returns up to limit of a channel's retained sales with an id less than before, the
	// newest first; an empty before is the start. Its cost grows with the channel's number of
	// retained sales.
	Sales(ctx context.Context, channel, before string, limit int) ([]Sale, error)
}
