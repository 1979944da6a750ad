package meta

import (
	"context"
	"fmt"
	"time"

	"sluice/database"
	"sluice/database/sqlstore/internal/engine"
	"sluice/database/sqlstore/internal/usage"
	"sluice/metastore"
)

// keep stores old as a version, if its account keeps it. If the account is metastore.KeepOff, it
// removes the kept version that is not Versioned. It adds the difference in usage to deltas. The
// caller must delete the row of old or, if it is replaced, call writeBlob.
func (t tx) keep(old storedBlob, found, replaced bool, deltas []usage.Delta) ([]usage.Delta, error) {
	if old.rule.state() == metastore.KeepOff && (!found || old.Versioned) {
		null, err := t.nullVersion(old.Account, old.Name)
		if err == nil && null != nil {
			_, deltas, err = t.removeVersion(*null, deltas)
		}
		if err != nil {
			return nil, err
		}
	}
	if !found || !old.rule.keeps(&old.Blob) {
		return deltas, nil
	}
	v := t.keptVersion(old)
	if !replaced || !t.keepsByUpdate(old) {
		if err := t.insertRow(v); err != nil {
			return nil, err
		}
	}
	return t.prune(old, append(deltas, blobUsage(old.Blob).Negated(), blobUsage(v.Blob)))
}

// keptVersion returns the version that is stored for a blob that ceases to be current.
func (t tx) keptVersion(old storedBlob) *storedBlob {
	v := old
	v.Account, v.Name = metastore.KeptOf(old.Account), metastore.KeptName(old.Name, old.Modified)
	v.Again = time.Time{}
	if v.Since = t.Now; expired(old.Expires, t.Now) {
		v.Since = engine.Latest(old.Expires, old.Modified)
	}
	v.Until = old.rule.until(v.Since)
	return &v
}

// keepsByUpdate reports whether writeBlob stores the version of a blob that it replaces: on
// PostgreSQL one statement costs less, unless prune must see the version before.
func (t tx) keepsByUpdate(old storedBlob) bool {
	return !t.Embedded() && old.rule.keeps(&old.Blob) && old.rule.most() == 0
}

// mark stores the mark that a name's blob was removed, with a time after all its versions'. If the
// account is metastore.KeepOff and the name has no other version, it stores none.
func (t tx) mark(old storedBlob, found bool, by, owner string, since time.Time, deltas []usage.Delta) (storedBlob, []usage.Delta, error) {
	v := storedBlob{Blob: metastore.Blob{
		Account: metastore.KeptOf(old.Account), Content: metastore.NewContentID(t.Now), Owner: owner,
		By: by, Mark: true, Since: since, Until: old.rule.until(since),
	}}
	others, err := t.order(&v, old, found)
	if err != nil || old.rule.state() == metastore.KeepOff && !others {
		return storedBlob{}, deltas, err
	}
	v.Name = metastore.KeptName(old.Name, v.Modified)
	if err := t.insertRow(&v); err != nil {
		return storedBlob{}, nil, err
	}
	deltas, err = t.prune(old, append(deltas, blobUsage(v.Blob)))
	return v, deltas, err
}

// order sets the members of b, a commit in an account with a rule, that depend on the name's
// versions. It reports whether there are some, old or kept ones.
func (t tx) order(b *storedBlob, old storedBlob, found bool) (bool, error) {
	b.Versioned = old.rule.state() == metastore.KeepOn
	b.Modified = t.Now
	newest := &old
	if !found || !old.rule.keeps(&old.Blob) {
		list, err := t.keptVersions(old.Account, old.Name, "", 1)
		if err != nil {
			return false, err
		}
		if len(list) > 0 && (!found || list[0].Modified.After(old.Modified)) {
			newest = &list[0]
		} else if !found {
			return false, nil
		}
		found = len(list) > 0
	}
	last := engine.Latest(newest.Modified, old.Again) // newer ones were removed until then
	b.Modified = engine.Latest(t.Now, last.Add(time.Microsecond))
	b.SharedSecond = !last.Before(b.Modified.Truncate(time.Second))
	return found, nil
}

// leave removes the row of a blob that is moved away, keeps it if its account does, and stores a
// mark then. It returns the difference in usage. Unless the blob is kept, its reference stays.
func (t tx) leave(b storedBlob, by string) (deltas []usage.Delta, err error) {
	if b.rule != 0 {
		if deltas, err = t.keep(b, true, false, deltas); err != nil {
			return nil, err
		}
	}
	if !b.rule.keeps(&b.Blob) {
		deltas = append(deltas, blobUsage(b.Blob).Negated())
	}
	if b.rule != 0 {
		if _, deltas, err = t.mark(b, true, by, b.Owner, t.Now, deltas); err != nil {
			return nil, err
		}
	}
	return deltas, t.removeBlob(b.Blob)
}

// prune removes the oldest versions of a name that has more than its account's rule keeps. Most
// removals leave few: the task versions removes the rest after the rule has changed.
func (t tx) prune(of storedBlob, deltas []usage.Delta) ([]usage.Delta, error) {
	most := of.rule.most()
	if most == 0 {
		return deltas, nil
	}
	list, err := t.keptVersions(of.Account, of.Name, "", 2*most+16)
	count := counted{}
	for i := 0; i < len(list) && err == nil; i++ {
		if count.exceeds(&list[i], most) {
			deltas, err = t.surplus(&list[i], deltas)
		}
	}
	return deltas, err
}

// spares evaluates a precondition, which may be nil, on metastore.VersionGoes if a blob with this
// expiry, written over old, removes a version that is not current for good, or will do so when it
// expires: it then is one more version.
func (t tx) spares(precondition metastore.Precondition, old storedBlob, found bool, expires time.Time) error {
	if precondition == nil || old.rule == 0 {
		return nil
	}
	goes, added := false, 0
	if found && old.rule.keeps(&old.Blob) {
		added++
	}
	if old.rule.state() == metastore.KeepOn && !expires.IsZero() {
		added++
	}
	if old.rule.state() == metastore.KeepOff && (!found || old.Versioned) {
		null, err := t.nullVersion(old.Account, old.Name)
		if err != nil {
			return err
		}
		goes = null != nil && !null.Mark
	}
	if most := old.rule.most(); !goes && most > 0 && added > 0 {
		list, err := t.keptVersions(old.Account, old.Name, "", 2*most+16)
		if err != nil {
			return err
		}
		for i := range list {
			if !list[i].Mark {
				added++
			}
		}
		goes = added > most
	}
	if !goes {
		return nil
	}
	return precondition(metastore.VersionGoes)
}

// surplus removes a version that is one too many, or lets it go when its lock has ended.
func (t tx) surplus(b *storedBlob, deltas []usage.Delta) ([]usage.Delta, error) {
	if !t.holds(b.Lock) {
		_, deltas, err := t.removeVersion(*b, deltas)
		return deltas, err
	}
	return deltas, t.keepUntil(b, b.Since)
}

// keepUntil changes until when a version is kept, whatever its lock is.
func (t tx) keepUntil(b *storedBlob, until time.Time) error {
	if until.Equal(b.Until) {
		return nil
	}
	b.Until = until
	return t.updateBlob(b)
}

// counted counts a name's versions from the newest on.
type counted struct{ Versions, Marks int }

// exceeds counts a version, and reports whether it is one too many. A mark also is if all versions
// behind it are.
func (c *counted) exceeds(b *storedBlob, most int) bool {
	switch {
	case !b.Mark:
		c.Versions++
		return c.Versions > most
	case c.Versions < most:
		c.Marks++
	default:
		return true
	}
	return c.Marks > most
}

// removeVersion removes a version that is not current, and adds the difference in usage to deltas.
func (t tx) removeVersion(b storedBlob, deltas []usage.Delta) (garbage bool, _ []usage.Delta, err error) {
	garbage, retained, err := t.drop(b)
	if err != nil {
		return false, nil, err
	}
	t.changed(metastore.ChangeVersionDeleted, &b.Blob)
	return garbage, append(deltas, blobUsage(b.Blob).Negated(), retained), t.deleteRow(b.Account, splitName(b.Name))
}

// keptVersions returns up to limit versions of a name that are not current, due ones too, the
// newest first, beginning behind the one that is stored under after.
func (t tx) keptVersions(account, blobName, after string, limit int) ([]storedBlob, error) {
	condition := keptInOrder
	switch {
	case len(blobName) >= headLen && !t.Embedded():
		condition = keptInHead
	case len(metastore.KeptName(blobName, time.Time{})) > headLen:
		condition = keptLongNames
	}
	return t.kept(account, blobName, after, keptOf+condition+` LIMIT ($6 + 0)`, int64(limit))
}

// kept returns a name's versions behind after that a query has, which begins with its table.
func (t tx) kept(account, blobName, after, from string, in ...any) (list []storedBlob, err error) {
	first, last := splitName(max(after, blobName+"\x00")), splitName(blobName+"\x01")
	b := storedBlob{Blob: metastore.Blob{Account: metastore.KeptOf(account)}}
	var head, tail string
	var sum engine.StoredSum
	err = t.Each(keptRows+from+t.ForUpdate(),
		append(engine.Args{[]byte(b.Account), first.head, first.tail, last.head, last.tail}, in...),
		append(append(engine.Args{&head, &tail}, blobFields(&b.Blob)...), (*engine.Boolean)(&b.shared), &sum), func() error {
			b.Name = head + tail
			list = append(list, b)
			return checkBlob(&b.Blob, sum)
		})
	return list, err
}

const (
	keptRows = `SELECT name_head, name_tail, ` + blobColumns + `, shared, row_sum FROM `
	keptOf   = `blobs WHERE account = $1 AND `
)

// Conditions and orders of a name's versions: by the primary key, and by the index
// blobs_long_names, which is on PostgreSQL for one head.
const (
	keptInOrder   = `(name_head, name_hash) > ($2, $3) AND (name_head, name_hash) < ($4, $5) ORDER BY name_head, name_hash`
	keptLongNames = `length(name_head) = 2000 AND ` + keptByName + ` ORDER BY name_head, name_tail`
	keptByName    = `(name_head, name_tail) > ($2, $3) AND (name_head, name_tail) < ($4, $5)`
	keptInHead    = `name_head = $2 AND sha256(name_head) = sha256($2) AND length(name_head) = 2000 AND name_tail > $3 AND name_tail < $5 AND $4 = $2 ORDER BY name_tail`
)

// keptNull returns the query for a name's version that is not Versioned. SQLite would prefer the
// primary key to the index.
func (t tx) keptNull() string {
	of := keptOf
	if t.Embedded() {
		of = `blobs INDEXED BY blobs_null WHERE account = $1 AND `
	}
	return of + `account >= ` + t.literal("~~") + ` AND substr(version, 1, 12) <> ` + t.literal(`{"versioned"`) + ` AND ` + keptByName
}

// literal returns bytes as SQL has them, for conditions that are an index's.
func (t tx) literal(bytes string) string {
	if t.Embedded() {
		return fmt.Sprintf(`x'%x'`, bytes)
	}
	return fmt.Sprintf(`'\x%x'`, bytes)
}

// nullVersion returns the version of a name that is neither current nor Versioned, or nil.
func (t tx) nullVersion(account, blobName string) (*storedBlob, error) {
	list, err := t.kept(account, blobName, "", t.keptNull())
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return &list[0], nil
}

// version returns a version, and whether there is one. current is the name's current blob, if it
// was found.
func (t tx) version(current storedBlob, found bool, v metastore.VersionName) (b storedBlob, _ bool, err error) {
	if found && v.Is(&current.Blob) {
		return current, current.rule != 0 || !expired(current.Expires, t.Now), nil
	}
	if v.Null {
		null, err := t.nullVersion(v.Account, v.Name)
		if err != nil || null == nil {
			return storedBlob{}, false, err
		}
		b, found = *null, true
	} else if b, found, err = t.blob(metastore.KeptOf(v.Account), metastore.KeptName(v.Name, v.Version.Modified())); err != nil {
		return storedBlob{}, false, err
	}
	return b, found && v.Is(&b.Blob) && !t.due(&b.Blob), nil
}

// versionEnd returns the version that is a copy's source. name has the lock and the current blob.
func (t tx) versionEnd(name end, v metastore.VersionName) (end, error) {
	b, found, err := t.version(name.storedBlob, name.found, v)
	found = found && !b.Mark
	return end{b, found, found}, err
}

// OpenVersion implements metastore.Versions.
func (s *Metastore) OpenVersion(ctx context.Context, v metastore.VersionName) (metastore.Blob, []metastore.Extent, error) {
	var row *blobRow
	err := s.in.Snapshot(ctx, func(t tx) (err error) {
		row, err = t.openVersion(v)
		return err
	})
	if err != nil {
		return metastore.Blob{}, nil, fmt.Errorf("version: %w", err)
	}
	b := shown(row.blob, s.db)
	b.Account, b.Name = v.Account, v.Name
	return b, row.first, nil
}

func (t tx) openVersion(v metastore.VersionName) (*blobRow, error) {
	row, err := t.blobRow(v.Account, v.Name)
	if err != nil {
		return nil, err
	}
	if row.found && v.Is(&row.blob) {
		if !expired(row.blob.Expires, t.Now) {
			return row, nil
		}
		k, err := t.keeping(ruledBy(v.Account, v.Name, []byte(v.Account)))
		if err == nil && k.State == metastore.KeepNever {
			err = database.ErrNotFound
		}
		row.blob.Since = row.blob.Expires
		return row, err
	}
	at := metastore.KeptName(v.Name, v.Version.Modified())
	if v.Null {
		null, err := t.nullVersion(v.Account, v.Name)
		if err != nil {
			return nil, err
		}
		if null == nil {
			return nil, database.ErrNotFound
		}
		at = null.Name
	}
	row, err = t.blobRow(metastore.KeptOf(v.Account), at)
	if err == nil && (!row.found || !v.Is(&row.blob) || t.due(&row.blob)) {
		err = database.ErrNotFound
	}
	return row, err
}

// RemoveBlob implements metastore.Versions.
func (s *Metastore) RemoveBlob(ctx context.Context, r metastore.Removal) (metastore.Removed, error) {
	return engine.ResultOf(ctx, s.in.WriteLocked, func(t tx) (out metastore.Removed, err error) {
		old, found, err := t.lockBlob(r.Account, r.Name)
		if err != nil {
			return out, err
		}
		if err := t.evaluate(r.Precondition, &old, found && !expired(old.Expires, t.Now)); err != nil {
			return out, err
		}
		marks := old.rule != 0 && (found || r.Mark)
		if !found && !marks {
			return out, nil
		}
		garbage, deltas, err := t.release(old, found, false, make([]usage.Delta, 0, 8))
		if err != nil {
			return out, err
		}
		owner := r.Owner
		if found {
			owner = old.Owner
			if out.Existed, out.Blob = true, shown(old.Blob, t); garbage {
				out.Garbage = old.Content
			}
		}
		if marks {
			var mark storedBlob
			if mark, deltas, err = t.mark(old, found, r.By, owner, t.Now, deltas); err != nil {
				return out, err
			}
			out.Mark = shown(mark.Blob, t)
		}
		switch {
		case out.Mark.Mark:
			t.changed(metastore.ChangeMarked, &out.Mark)
		case found:
			t.changed(metastore.ChangeDeleted, &old.Blob)
		}
		if err := usage.Record(t.Tx, deltas...); err != nil || !found {
			return out, err
		}
		return out, t.removeBlob(old.Blob)
	})
}

// DeleteVersion implements metastore.Versions.
func (s *Metastore) DeleteVersion(ctx context.Context, d metastore.Deletion) (metastore.Removed, error) {
	return engine.ResultOf(ctx, s.in.WriteLocked, func(t tx) (out metastore.Removed, err error) {
		current, live, err := t.lockBlob(d.Account, d.Name)
		if err != nil {
			return out, err
		}
		b, found, err := t.version(current, live, d.VersionName)
		seen := shown(b.Blob, t)
		if err == nil {
			err = evaluate(d.Precondition, seen, found)
		}
		if err == nil && found && t.holds(b.Lock) {
			err = t.breaks(&seen, b.Lock, metastore.Lock{}, d.Bypass)
			b.Lock = metastore.Lock{}
		}
		if err != nil || !found {
			return out, err
		}
		garbage, retained, err := t.drop(b)
		if err != nil {
			return out, err
		}
		deltas := []usage.Delta{blobUsage(b.Blob).Negated(), retained}
		if out.Existed, out.Blob = true, seen; garbage {
			out.Garbage = b.Content
		}
		if b.Since.IsZero() {
			t.changed(metastore.ChangeDeleted, &b.Blob)
			err = t.removeBlob(b.Blob)
		} else {
			t.changed(metastore.ChangeVersionDeleted, &b.Blob)
			err = t.deleteRow(b.Account, splitName(b.Name))
		}
		if err == nil && (b.Since.IsZero() || !live) {
			deltas, err = t.promote(b, d.BlobName, deltas)
		}
		if err != nil {
			return out, err
		}
		return out, usage.Record(t.Tx, deltas...)
	})
}

// promote makes a name's newest version current, which has no current one since removed is, if
// that was newer, and the version is neither a mark nor expired.
func (t tx) promote(removed storedBlob, n metastore.BlobName, deltas []usage.Delta) ([]usage.Delta, error) {
	list, err := t.keptVersions(n.Account, n.Name, "", 1)
	if err != nil || len(list) == 0 {
		return deltas, err
	}
	v := list[0]
	if v.Modified.After(removed.Modified) || v.Mark || expired(v.Expires, t.Now) || t.due(&v.Blob) {
		return deltas, nil
	}
	b := v
	b.Account, b.Name, b.Since, b.Until = n.Account, n.Name, time.Time{}, time.Time{}
	b.Again = engine.Latest(t.Now, engine.Latest(removed.Modified, removed.Again))
	if err := t.deleteRow(v.Account, splitName(v.Name)); err != nil {
		return nil, err
	}
	t.changed(metastore.ChangeRestored, &b.Blob)
	return append(deltas, blobUsage(v.Blob).Negated(), blobUsage(b.Blob)), t.insertRow(&b)
}
