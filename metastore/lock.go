package metastore

import (
	"errors"
	"fmt"
	"time"
)

// LockMode is how firmly a version is retained.
type LockMode string

// The modes.
const (
	LockNone       LockMode = ""
	LockGovernance LockMode = "governance" // a Bypass ends it early
	LockCompliance LockMode = "compliance" // nobody ends it early
)

// MaxLock is the longest time for which a version is retained unless an account has a
// Keeping.LockMost.
const MaxLock = 10 * 365 * 24 * time.Hour

// Errors about locks. They are wrapped; compare them with errors.Is.
var (
	// ErrLocked means that a version's lock forbids a removal or a change. The error is a
	// *LockedError.
	ErrLocked = errors.New("locked")
	// ErrNoLocks means that an account has no Keeping.Locks.
	ErrNoLocks = errors.New("the account has no locks: its administrator enables them with the setting of versions")
	// ErrLock means that a version cannot have such a lock.
	ErrLock = errors.New("the lock is not valid")
	// ErrLocksStay means that an account with locks cannot lose them, nor cease to keep versions.
	ErrLocksStay = errors.New("an account with locks keeps them and its versions for ever")
)

// Lock forbids to remove a version for good. It ends by a clock that stands still while the
// database's time is in doubt, while no process keeps the time, and when the time jumps: so nothing
// ends a lock early. All times that the store takes and returns are by the database's clock as it
// is now.
type Lock struct {
	Mode  LockMode
	Until time.Time // when the retention in the Mode ends; zero without a Mode
	Hold  bool      // a legal hold, which has no end
}

// Holds reports whether a version with the lock must stay at a time.
func (l Lock) Holds(now time.Time) bool {
	return l.Hold || l.Mode != LockNone && now.Before(l.Until)
}

// LockedError is ErrLocked with the lock.
type LockedError struct{ Lock Lock }

// Error returns a sentence with the time until which the version stays.
func (e *LockedError) Error() string {
	if e.Lock.Hold {
		return "the version has a legal hold, so it must stay"
	}
	return fmt.Sprintf("the version is locked in the mode %s until %s", e.Lock.Mode, e.Lock.Until.UTC().Format(time.RFC3339))
}

// Unwrap returns ErrLocked.
func (e *LockedError) Unwrap() error { return ErrLocked }
