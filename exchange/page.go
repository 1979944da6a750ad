package exchange

import (
	"errors"
	"time"

	"sluice/access"
)

// The bounds on pages of lists.
const (
	// PageBytes bounds a page's texts, with database.EntryCharge for each entry. In JSON they are
	// at most twice as long, because names have no control characters.
	PageBytes = 512 << 10
	// pageMemory is a page's memory while it is made: its rows, the values that are encoded, and
	// their encoding, which grows. entryMemory is the same for a page with few entries.
	pageMemory  = 6 * PageBytes
	entryMemory = 32 << 10
	// EntriesOfRequest is how many entries cost their caller as much as a request.
	EntriesOfRequest = 100
	// stillEvery is the longest pause before PacePage calls still.
	stillEvery = 3 * time.Second
)

// HoldPage waits until a page of at most limit entries may be made; see HoldReply.
func (x *Exchange) HoldPage(limit int) error {
	return x.HoldReply(min(pageMemory, int64(limit)*entryMemory))
}

// PacePage waits until the caller's request rate permits a page with this number of entries, which
// it counts, or until ended is closed. While it waits it calls still every few seconds, and returns
// its error. It is for exchanges that send several pages.
func (x *Exchange) PacePage(ended <-chan struct{}, entries int, still func() error) error {
	ctx := x.Request.Context()
	for {
		err := x.Allowance.Take(ctx, 1+max(0, entries-1)/EntriesOfRequest)
		var rate *access.RateError
		if !errors.As(err, &rate) {
			return err
		}
		select {
		case <-time.After(min(rate.RetryAfter, stillEvery)):
			if err := still(); err != nil {
				return err
			}
		case <-ended:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// SpendPage counts a page with this number of entries against the caller's request rate: a page of
// many entries costs as much as several requests.
func (x *Exchange) SpendPage(entries int) {
	x.Allowance.Spend(int64(max(0, entries-1) / EntriesOfRequest))
}
