package metastore

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"sluice/access/actions"
)

// KeepState is whether an account keeps the blobs that are replaced or deleted.
type KeepState int

// The states of an account. There is no way back to KeepNever.
const (
	KeepNever KeepState = iota // nothing is kept, nor ever was
	KeepOn                     // everything is kept
	KeepOff                    // only the blobs that were committed while it was KeepOn
)

// MaxKept is the greatest Keeping.Most.
const MaxKept = 100

// Keeping is an account's setting: which versions it keeps.
type Keeping struct {
	State KeepState
	For   time.Duration // how long a version is kept after it ceased to be current; 0: for ever
	Most  int           // versions of one name besides the current one, marks not counted; 0: any number

	Locks    bool          // versions can have locks; it needs KeepOn, and both stay for ever
	LockMode LockMode      // a new version's lock, unless its writer states one; LockNone: it has none
	LockFor  time.Duration // how long it lasts
	LockMost time.Duration // the longest time for which a writer may lock a version; 0: MaxLock

	// Set by the store.

	Changed time.Time // zero: never
	Pending bool      // older versions are yet to be treated by the setting
	Handled int64     // how many versions were treated since it was changed
}

// AccountKeeping is an account with its Keeping.
type AccountKeeping struct {
	Account string
	Keeping
}

// VersionQuery selects a page of an account's versions.
type VersionQuery struct {
	ListQuery // After is a name or a group
	// AfterVersion is a version of After, behind which the page begins; zero: behind all.
	AfterVersion Version
}

// VersionPage is a page of versions, sorted by name and, within a name, the newest first.
type VersionPage struct {
	Versions    []Blob   // marks too; only the current one has no Since
	Prefixes    []string // groups, as in Page
	Next        string   // After for the next page; empty on the last page
	NextVersion Version  // AfterVersion for the next page
}

// Removal describes a blob's removal.
type Removal struct {
	BlobName
	By           string       // who removes it; stored with the mark
	Owner        string       // who is charged for the mark if there is no blob; otherwise the blob's owner is
	Mark         bool         // whether a mark is also set if there is no blob
	Precondition Precondition // may be nil
}

// Removed is a removal's result.
type Removed struct {
	Existed bool      // whether there was a blob or version, expired or not
	Blob    Blob      // that was removed; zero if there was none
	Mark    Blob      // the mark that was set; zero if none was
	Garbage ContentID // the content that has become garbage; zero: none has, for it is kept or shared
}

// MaxLock returns the longest time for which a version may be locked.
func (k *Keeping) MaxLock() time.Duration { return cmp.Or(k.LockMost, MaxLock) }

// CheckLocks returns an ErrLock for a setting of locks that no account can have.
func (k *Keeping) CheckLocks() error {
	switch {
	case !k.Locks && (k.LockMode != LockNone || k.LockFor != 0 || k.LockMost != 0):
		return fmt.Errorf("%w: the account has no locks", ErrLock)
	case k.LockMode != LockNone && k.LockMode != LockGovernance && k.LockMode != LockCompliance:
		return fmt.Errorf("%w: its mode is %s or %s", ErrLock, LockGovernance, LockCompliance)
	case (k.LockFor != 0) != (k.LockMode != LockNone):
		return fmt.Errorf("%w: a new version's lock has a mode and a time", ErrLock)
	case k.LockMost < 0 || k.LockMost > MaxLock:
		return fmt.Errorf("%w: the longest time is above 0 and at most %.5g days", ErrLock, MaxLock.Hours()/24)
	case k.LockFor < 0 || k.LockFor > k.MaxLock():
		return fmt.Errorf("%w: it would last longer than the account's locks may, %.5g days", ErrLock, k.MaxLock().Hours()/24)
	}
	return nil
}

// Versions keeps replaced and deleted blobs in the accounts that have such a Keeping. The account's
// setting is read in the transaction of each write, so a write that begins after SetKeeping has
// returned obeys it. Names that begin with U+0000 are never kept, and no other name may have
// U+0000. An account's markers (see MarkersOf) are kept as its blobs are.
//
// A blob ceases to be current when it is replaced, removed, moved away or, if it has expired,
// purged. It then stays as a version until its Until, unless more than Keeping.Most newer ones are
// kept. A removal, a move and a purge leave a mark as the newest version: a Blob with Mark and
// without bytes. A name's versions have strictly ascending Modified.
//
// In the state KeepOff a commit is not Versioned, and replaces its name's version that is not
// Versioned for good, be it current or kept: a name has at most one. A removal then sets a mark
// that is not Versioned, if the name has other versions.
//
// A version with a lock that has not ended, see Lock, is removed by no method, whatever the setting
// is. It stays where it is or becomes a version that is not current, and goes when both its lock
// and its time to be kept have ended. Marks have no locks.
type Versions interface {
	DueVersions

	// Keeping returns an account's setting, zero if there is none.
	Keeping(ctx context.Context, account string) (Keeping, error)

	// SetKeeping changes an account's setting and returns it as stored. It calls change within the
	// transaction, possibly several times, and records the act that it returns, which may be nil.
	// With an error of change nothing is changed, and SetKeeping returns it. KeepNever after
	// another state is stored as KeepOff. It returns ErrLocksStay if an account with Locks would
	// lose them, or CheckLocks's error.
	SetKeeping(ctx context.Context, account string, change func(*Keeping) (*actions.Act, error)) (Keeping, error)

	// ListKeeping returns up to limit accounts with settings, sorted, beginning after after.
	ListKeeping(ctx context.Context, after string, limit int) ([]AccountKeeping, error)

	// OpenVersion is OpenBlob for a version, current or not. A mark is returned as a Blob with
	// Mark. It returns ErrNotFound if there is no such version.
	OpenVersion(ctx context.Context, v VersionName) (Blob, []Extent, error)

	// RemoveBlob removes a blob, expired or not, or returns the precondition's error.
	// Removed.Garbage is zero if other blobs have the same content.
	RemoveBlob(ctx context.Context, r Removal) (Removed, error)

	// DeleteVersion removes a version for good. If it was its name's newest, and the next one is
	// neither a mark nor expired, that becomes current again, with its Modified. It returns a
	// LockedError while the version has a lock, unless that is a retention in LockGovernance alone
	// and v has a Bypass.
	DeleteVersion(ctx context.Context, v Deletion) (Removed, error)

	// SetLock changes a version's lock and returns the version. A retention that has not ended is
	// only extended, and LockGovernance also changed to LockCompliance; with a Bypass
	// LockGovernance is changed in every way. Otherwise SetLock returns a LockedError. It returns
	// ErrLock for a retention that has ended or exceeds Keeping.MaxLock, ErrNoLocks, ErrNotFound if
	// there is no such version or it is a mark, or the precondition's error.
	SetLock(ctx context.Context, c LockChange) (Blob, error)

	// ListVersions returns one page. Its cost grows with the entries that it returns. In an account
	// without versions it returns the blobs. An expired blob is listed as a version until it is
	// purged.
	ListVersions(ctx context.Context, q VersionQuery) (VersionPage, error)
}

// DueVersions deletes the versions that need not be kept any more. It deletes none while its task
// is paused; see database.Tasks.
type DueVersions interface {
	// ApplyKeeping treats up to limit older versions by the settings that have changed, at least a
	// minute after the change, and returns how many it has treated: 0 if there are no more.
	ApplyKeeping(ctx context.Context, limit int) (int, error)

	// PurgeVersions deletes up to limit versions that are due, and returns how many: 0 if there are
	// no more. It returns database.ErrClock, without effect, while DeletionErr is not nil.
	PurgeVersions(ctx context.Context, limit int) (int, error)

	// CountDue counts the versions that PurgeVersions would delete now, and their bytes; at most
	// limit.
	CountDue(ctx context.Context, limit int) (versions, bytes int64, err error)
}

// kept begins the accounts that KeptOf returns, behind all accounts of markers.
const kept = "~~"

// KeptOf returns the account under which the versions of an account, or of its account of markers,
// are stored that are not current. There they are treated as all blobs are.
func KeptOf(account string) string { return kept + account }

// IsKept reports whether an account is one that KeptOf returns.
func IsKept(account string) bool { return strings.HasPrefix(account, kept) }

// digits is the number of bytes for a time in KeptName, with three bits each.
const digits = 22

// KeptName returns the name under which a version is stored that is not current. In byte order
// such names are as the blobs' names, and a blob's versions the newest first. The end consists of
// bytes that no UTF-8 text has, so that no delimiter matches there.
func KeptName(name string, modified time.Time) string {
	v := ^(uint64(modified.UnixMicro()) ^ 1<<63)
	b := append(append(make([]byte, 0, len(name)+1+digits), name...), 0)
	for i := range digits {
		b = append(b, 0xf8|byte(v>>(3*(digits-1-i)))&7)
	}
	return string(b)
}

// KeptBlob returns the blob for which KeptOf and KeptName return this account and name, with its
// time, and reports whether there is one.
func KeptBlob(account, name string) (blob BlobName, modified time.Time, ok bool) {
	of, ok := strings.CutPrefix(account, kept)
	at := len(name) - digits
	if !ok || at < 1 || name[at-1] != 0 {
		return BlobName{}, time.Time{}, false
	}
	var v uint64
	for _, c := range []byte(name[at:]) {
		v = v<<3 | uint64(c&7)
	}
	modified = time.UnixMicro(int64(^v ^ 1<<63)).UTC()
	blob = BlobName{Account: of, Name: name[:at-1]}
	return blob, modified, KeptName(blob.Name, modified) == name
}

// Path returns a stored blob's account and name for operators, with a slash between them, and the
// version's id if it is not current.
func (b *Blob) Path() string {
	of, modified, kept := KeptBlob(b.Account, b.Name)
	if !kept {
		return b.Account + "/" + b.Name
	}
	return of.Account + "/" + of.Name + ", version " + VersionOf(&Blob{Modified: modified, Content: b.Content}).String()
}
