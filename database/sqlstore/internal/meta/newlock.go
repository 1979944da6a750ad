package meta

import (
	"fmt"

	"sluice/database/sqlstore/internal/acts"
	"sluice/internal/units"
	"sluice/metastore"
)

// checkLock returns why no version may get a lock now, or nil.
func (t tx) checkLock(l metastore.Lock, k *metastore.Keeping) error {
	switch {
	case l.Mode == metastore.LockNone:
		return nil
	case l.Mode != metastore.LockGovernance && l.Mode != metastore.LockCompliance:
		return fmt.Errorf("%w: its mode is %s or %s", metastore.ErrLock, metastore.LockGovernance, metastore.LockCompliance)
	case !l.Until.After(t.Now):
		return fmt.Errorf("%w: its end must be in the future", metastore.ErrLock)
	case l.Until.Sub(t.Now) > k.MaxLock():
		return fmt.Errorf("%w: the account's locks end at most %s from now", metastore.ErrLock, units.FormatDuration(k.MaxLock()))
	}
	return nil
}

// accountLocks returns the setting of a blob's account, or ErrNoLocks.
func (t tx) accountLocks(account, name string) (metastore.Keeping, error) {
	k, err := t.keeping(ruledBy(account, name, []byte(account)))
	if err == nil && !k.Locks {
		err = metastore.ErrNoLocks
	}
	return k, err
}

// lockNew sets the stored lock of a blob that is committed, in an account with a rule, from the one
// that its writer wants.
func (t tx) lockNew(b *storedBlob, of rule) error {
	if !of.locks() {
		if b.Lock != (metastore.Lock{}) {
			return metastore.ErrNoLocks
		}
		return nil
	}
	k, err := t.accountLocks(b.Account, b.Name)
	switch {
	case err != nil:
		return err
	case b.Lock.Mode != metastore.LockNone && b.lockStored:
		return nil
	case b.Lock.Mode == metastore.LockNone && k.LockMode != metastore.LockNone:
		b.Lock.Mode, b.Lock.Until = k.LockMode, t.Now.Add(k.LockFor)
	default:
		err = t.checkLock(b.Lock, &k)
	}
	b.Lock = t.stored(b.Lock)
	return err
}

// lockUpload returns the stored lock of an upload that begins.
func (t tx) lockUpload(u *metastore.Upload) (metastore.Lock, error) {
	if u.Lock == (metastore.Lock{}) {
		return u.Lock, nil
	}
	k, err := t.accountLocks(u.Account, u.Name)
	if err == nil {
		err = t.checkLock(u.Lock, &k)
	}
	return t.stored(u.Lock), err
}

// breaks records the act with which a retention that has not ended is broken, or returns a
// LockedError.
func (t tx) breaks(b *metastore.Blob, was, lock metastore.Lock, bypass metastore.Bypass) error {
	if was.Hold || was.Mode != metastore.LockGovernance || bypass == nil {
		return t.locked(was)
	}
	act, err := bypass(b, shownLock(lock, t))
	if err != nil {
		return err
	}
	return acts.Record(t.Tx, act)
}
