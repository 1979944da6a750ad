package metastore

import (
	"context"
	"strconv"
	"strings"
	"time"
)

// ChangeKind is a change's kind.
type ChangeKind uint8

// The kinds of changes. After a kind up to ChangeRestored the name has this blob, and after a kind
// from ChangeDeleted to ChangeRuleExpired it has none. Every other kind keeps the current bytes.
const (
	ChangeStored   ChangeKind = iota + 1 // by a commit or an upload, under a name without a blob
	ChangeReplaced                       // by a commit or an upload, under a name with a blob
	ChangeCopied                         // from another blob or version, or from itself
	ChangeMovedTo
	ChangeRestored // a version became current again, or a copy restored it

	ChangeDeleted // for good
	ChangeMarked  // removed; the change names the mark, and the name's versions are kept
	ChangeMovedFrom
	ChangeExpired     // purged after its expiry
	ChangeRuleExpired // removed by a rule of its account

	ChangeVersionDeleted // a version or mark that was not current, for good
	ChangeLocked         // a version's lock, current or not, has changed
	ChangeProperties     // a version's ContentType, Metadata, Expires or owner, current or not

	changeKinds // one more than the last kind
)

var changeNames = [changeKinds]string{
	ChangeStored: "stored", ChangeReplaced: "replaced", ChangeCopied: "copied", ChangeMovedTo: "moved-to", ChangeRestored: "restored",
	ChangeDeleted: "deleted", ChangeMarked: "marked", ChangeMovedFrom: "moved-from", ChangeExpired: "expired", ChangeRuleExpired: "rule-expired",
	ChangeVersionDeleted: "version-deleted", ChangeLocked: "locked", ChangeProperties: "properties-changed",
}

// AllChangeKinds returns all kinds.
func AllChangeKinds() []ChangeKind {
	var list []ChangeKind
	for k := ChangeStored; k < changeKinds; k++ {
		list = append(list, k)
	}
	return list
}

// IsValid reports whether there is such a kind.
func (k ChangeKind) IsValid() bool { return k >= ChangeStored && k < changeKinds }

// String returns the kind's name in the interface.
func (k ChangeKind) String() string {
	if !k.IsValid() {
		return "unknown"
	}
	return changeNames[k]
}

// ParseChangeKind is the inverse of String. It reports whether there is such a kind.
func ParseChangeKind(s string) (ChangeKind, bool) {
	for k := ChangeStored; k < changeKinds; k++ {
		if changeNames[k] == s {
			return k, true
		}
	}
	return 0, false
}

// ChangeKinds is a set of kinds. The empty set selects all.
type ChangeKinds uint32

// Add returns the set with another kind.
func (s ChangeKinds) Add(k ChangeKind) ChangeKinds { return s | 1<<k }

// Selects reports whether the set has a kind, or is empty.
func (s ChangeKinds) Selects(k ChangeKind) bool { return s == 0 || s>>k&1 == 1 }

// Change is a commit's change to a blob or to one of its versions. A commit that changes several
// leaves a change for each: a move one at each of its ends.
type Change struct {
	Position    FeedPosition
	Time        time.Time
	Kind        ChangeKind
	Account     string
	Name        string
	Version     Version // as it was stored, or is removed
	Size        int64
	CRC64       uint64 // with Size it makes the ETag
	ContentType string
	Expires     time.Time // zero: never
}

// FeedPosition is a place in the feed: behind a change, or before all. Positions in
// one generation ascend in the order of commits. The zero value is in no generation.
type FeedPosition struct{ Generation, Number int64 }

// String returns the position as a text for callers, who must not look into it.
func (p FeedPosition) String() string {
	return strconv.FormatInt(p.Generation, 36) + "-" + strconv.FormatInt(p.Number, 36)
}

// ParseFeedPosition is the inverse of String. It reports whether s is such a text.
func ParseFeedPosition(s string) (p FeedPosition, ok bool) {
	generation, number, _ := strings.Cut(s, "-")
	var errs [2]error
	p.Generation, errs[0] = strconv.ParseInt(generation, 36, 64)
	p.Number, errs[1] = strconv.ParseInt(number, 36, 64)
	return p, errs == [2]error{} && p.Generation > 0 && p.Number >= 0 && p.String() == s
}

// ChangesGoneError means that changes behind a position are not known: it is in another generation,
// none such was ever returned, or changes behind it are no longer kept. A listing that begins after
// the call, followed by the changes from Restart on, misses nothing.
type ChangesGoneError struct{ Restart FeedPosition }

func (e *ChangesGoneError) Error() string {
	return "metastore: the changes behind the position are gone; list the blobs, and go on from " + e.Restart.String()
}

// ChangeQuery selects a page of changes.
type ChangeQuery struct {
	After   FeedPosition // only changes behind it
	Account string       // only the account's, unless All is set
	All     bool
	Prefix  string // that names have
	Kinds   ChangeKinds
	Limit   int   // greatest number of changes; at least 1
	Bytes   int64 // the page's greatest size, see database.EntryCharge; 0: no bound
}

// ChangePage is a page of changes, in order.
type ChangePage struct {
	Changes []Change     // may be empty though Next is behind After
	Next    FeedPosition // After for the next page
	More    bool         // whether there were changes behind Next, selected or not
}

// ChangeBounds are the feed's bounds.
type ChangeBounds struct {
	Keep           time.Duration // how long a change is kept
	Changes, Bytes int64         // of each owner
}

// MaxExamined is the greatest number of changes that a call of ListChanges looks at.
const MaxExamined = 10_000

// ChangeTotals count the feed's changes.
type ChangeTotals struct {
	Changes, Bytes int64     // those that PurgeChanges has counted
	Oldest         time.Time // when the oldest one was committed; zero: there is none
	Evicted        int64     // removed as their owner had too many, ever
}

// Changes is the feed: it records each change to a blob, in the transaction that makes it. An
// owner's changes, see Blob, are bounded: an owner with more loses the oldest. That
// concerns readers of these accounts, and of all accounts. Accounts that IsHidden reports have no
// changes: a kept version's name the blob's account, and markers have none.
//
// A name's changes are in the order of its commits. A change becomes visible only when none before
// it can be added any more, so a reader that continues from Next misses none.
type Changes interface {
	// ListChanges returns one page. It looks at a limited number of changes. All changes that were
	// acknowledged before the call are visible. It returns a ChangesGoneError if there may be
	// changes behind q.After that are not known.
	ListChanges(ctx context.Context, q ChangeQuery) (ChangePage, error)

	// FeedEnd returns the position behind all changes that were committed before the call.
	FeedEnd(ctx context.Context) (FeedPosition, error)

	// FeedStart returns the position before an account's oldest known change, or before the oldest
	// for all accounts: ListChanges returns no ChangesGoneError for it until that is removed.
	FeedStart(ctx context.Context, account string, all bool) (FeedPosition, error)

	// PurgeChanges counts changes and removes those beyond the bounds, in a step that handles up to
	// limit rows. It returns how many changes it has removed, and whether it must be called again.
	// It returns database.ErrClock while DeletionErr is not nil, and has then removed nothing
	// because of its age. The newest change always stays.
	PurgeChanges(ctx context.Context, bounds ChangeBounds, limit int) (removed int64, more bool, err error)

	// ChangeTotals returns the counts.
	ChangeTotals(ctx context.Context) (ChangeTotals, error)
}
