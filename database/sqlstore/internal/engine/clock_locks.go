package engine

import (
	"fmt"
	"time"

	"sluice/database"
)

// A lock ends by its own clock. Between two times that were kept it goes on with the time, but
// stands still if the time was in doubt and is not any more, or if the two are further apart than
// restartGap. So a stop, a jump that is adopted and a later restore end no lock early.

// stands reports whether the clock of locks stands still from k to a later time. The time of an
// injected clock never jumps.
func (k *keptTime) stands(steady bool, step time.Duration, doubtEnds bool) bool {
	return k.Known.IsZero() || !steady && (step.Abs() > restartGap || doubtEnds)
}

// locksAt returns the time by the clock of locks for a keptTime that follows k.
func (k *keptTime) locksAt(next *keptTime, steady bool) time.Time {
	step := next.Known.Sub(k.Known)
	switch {
	case k.Locks.IsZero():
		return next.Known // there were no locks
	case k.stands(steady, step, !k.Shown.IsZero() && next.Shown.IsZero()):
		return k.Locks
	}
	return k.Locks.Add(step)
}

// lag returns by how much the clock of locks is behind now, at or after k.
func (k *keptTime) lag(now time.Time, steady, inDoubt bool) time.Duration {
	switch {
	case k.Locks.IsZero():
		return 0
	case k.stands(steady, now.Sub(k.Known), inDoubt || !k.Shown.IsZero()):
		return now.Sub(k.Locks)
	}
	return k.Known.Sub(k.Locks)
}

// LockLag is Tx.LockLag for Now.
func (db *DB) LockLag() time.Duration {
	return db.kept.Load().lag(db.Now(), db.steady(), db.clock.inDoubt())
}

// steady reports whether the clock is correct by definition.
func (db *DB) steady() bool {
	_, injected := db.clock.(injectedClock)
	return injected
}

// parseLocks sets k.Locks from the property database.LocksProperty.
func (k *keptTime) parseLocks(text []byte) (err error) {
	if k.Locks, err = time.Parse(time.RFC3339Nano, string(text)); err != nil {
		err = fmt.Errorf("sqlstore: the property %s is %q, which is not a time: %w", database.LocksProperty, text, err)
	}
	return err
}
