package meta

import (
	"time"

	"sluice/database/sqlstore/internal/engine"
	"sluice/metastore"
)

// Within this package a lock's Until is by the clock of locks, and a locked version's Until is when
// it would go without the lock.

// expired reports whether a blob or session has expired. The zero time means never.
func expired(expires, now time.Time) bool {
	return !expires.IsZero() && !now.Before(expires)
}

// lagging is a transaction, or the database.
type lagging interface{ LockLag() time.Duration }

// shown returns a stored blob as callers see it: a version with the blob's account and name, and
// times by the database's clock. A lock's end is a whole second, not before the lock ends.
func shown(b metastore.Blob, of lagging) metastore.Blob {
	if of, _, ok := metastore.KeptBlob(b.Account, b.Name); ok {
		b.Account, b.Name = of.Account, of.Name
	}
	b.Lock = shownLock(b.Lock, of)
	switch {
	case b.Lock.Hold:
		b.Until = time.Time{}
	case b.Lock.Mode != metastore.LockNone && !b.Until.IsZero():
		b.Until = engine.Latest(b.Until, b.Lock.Until)
	}
	return b
}

func shownLock(l metastore.Lock, of lagging) metastore.Lock {
	if l.Mode != metastore.LockNone {
		l.Until = l.Until.Add(of.LockLag() + time.Second - 1).Truncate(time.Second)
	}
	return l
}

// stored returns a lock with an Until by the database's clock as it is stored.
func (t tx) stored(l metastore.Lock) metastore.Lock {
	if l.Mode != metastore.LockNone {
		l.Until = engine.Truncate(l.Until.Add(-t.LockLag()))
	}
	return l
}

// holds reports whether a version must stay.
func (t tx) holds(l metastore.Lock) bool { return l.Holds(t.Now.Add(-t.LockLag())) }

// due reports whether the time to be kept of a version that is not current has ended.
func (t tx) due(b *metastore.Blob) bool {
	return b.Lock == metastore.Lock{} && expired(b.Until, t.Now)
}

func (t tx) locked(l metastore.Lock) error { return &metastore.LockedError{Lock: shownLock(l, t)} }

// lockedUntil and a retention's end by the clock of locks are the column expires for a version that
// is not current. So lists have the version, and PurgeVersions does not see it.
const lockedUntil = 1 << 62
