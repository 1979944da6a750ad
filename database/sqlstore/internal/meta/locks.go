package meta

import (
	"context"
	"fmt"
	"time"

	"sluice/database"
	"sluice/database/sqlstore/internal/engine"
	"sluice/metastore"
)

// SetLock implements metastore.Versions.
func (s *Metastore) SetLock(ctx context.Context, c metastore.LockChange) (metastore.Blob, error) {
	return engine.ResultOf(ctx, s.in.WriteLocked, func(t tx) (metastore.Blob, error) {
		current, found, err := t.lockBlob(c.Account, c.Name)
		if err != nil {
			return metastore.Blob{}, err
		}
		b := current
		if c.Version != (metastore.Version{}) || c.Null {
			b, found, err = t.version(current, found, c.VersionName)
		} else {
			found = found && !expired(b.Expires, t.Now)
		}
		was := shown(b.Blob, t)
		if err == nil {
			err = evaluate(c.Precondition, was, found && !b.Mark)
		}
		if err == nil && (!found || b.Mark) {
			err = fmt.Errorf("version: %w", database.ErrNotFound)
		}
		if err == nil {
			b.Lock, err = t.changeLock(&was, b.Lock, c)
		}
		if err == nil {
			t.changed(metastore.ChangeLocked, &b.Blob)
			err = t.updateBlob(&b)
		}
		return shown(b.Blob, t), err
	})
}

// changeLock returns the changed lock of a version that has a stored lock.
func (t tx) changeLock(b *metastore.Blob, lock metastore.Lock, c metastore.LockChange) (metastore.Lock, error) {
	k, err := t.accountLocks(b.Account, b.Name)
	if err != nil {
		return lock, err
	}
	was := lock
	if c.Hold != nil {
		lock.Hold = *c.Hold
	}
	if r := c.Retention; r != nil {
		to := t.stored(*r)
		if lock.Mode, lock.Until = to.Mode, to.Until; lock.Mode == metastore.LockNone {
			lock.Until = time.Time{}
		}
		if err := t.checkLock(*r, &k); err != nil {
			return lock, err
		}
	}
	weaker := lock.Until.Before(was.Until) || was.Mode == metastore.LockCompliance && lock.Mode != was.Mode
	if was.Hold = false; weaker && t.holds(was) {
		err = t.breaks(b, was, lock, c.Bypass)
	}
	return lock, err
}

// endLocks forgets the retentions that have ended of versions that are not current. These then go
// when their time to be kept has ended.
func (t tx) endLocks(limit int) (int, error) {
	var list []metastore.BlobName
	var of metastore.BlobName
	var head, tail string
	err := t.Each(`SELECT account, name_head, name_tail FROM blobs WHERE expires >= $1 AND expires <= $2 AND account >= `+t.literal("~~")+` ORDER BY expires LIMIT $3`,
		engine.Args{int64(lockedUntil), lockedUntil + t.Now.Add(-t.LockLag()).UnixMicro(), int64(limit)}, engine.Args{&of.Account, &head, &tail}, func() error {
			of.Name = head + tail
			list = append(list, of)
			return nil
		})
	ended := 0
	for i := 0; i < len(list) && err == nil; i++ {
		var written bool
		if written, err = t.relock(list[i].Account, list[i].Name); written {
			ended++
		}
	}
	return ended, err
}

// relock writes a version's row anew, without a retention that has ended, unless it is damaged. It
// reports whether it has.
func (t tx) relock(account, name string) (bool, error) {
	b, found, err := t.blob(account, name)
	if found, err = undamaged(found, err); err != nil || !found {
		return false, err
	}
	if !t.holds(metastore.Lock{Mode: b.Lock.Mode, Until: b.Lock.Until}) {
		b.Lock = metastore.Lock{Hold: b.Lock.Hold}
	}
	return true, t.updateBlob(&b)
}
