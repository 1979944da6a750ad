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

// Blob implements metastore.Blobs.
func (s *Metastore) Blob(ctx context.Context, account, name string) (metastore.Blob, error) {
	var b storedBlob
	err := s.in.Read(ctx, func(t tx) error {
		var found bool
		var err error
		if b, found, err = t.blob(account, name); err == nil {
			err = checkLive(b.Blob, found, t.Now)
		}
		return err
	})
	if err != nil {
		return metastore.Blob{}, fmt.Errorf("blob: %w", err)
	}
	return shown(b.Blob, s.db), nil
}

// checkLive returns ErrNotFound or ErrExpired for a blob that cannot be read.
func checkLive(b metastore.Blob, found bool, now time.Time) error {
	switch {
	case !found || expired(b.Expires, now.Add(-metastore.ExpiredBlobGrace)):
		return database.ErrNotFound
	case expired(b.Expires, now):
		return database.ErrExpired
	}
	return nil
}

// OpenBlob implements metastore.Blobs.
func (s *Metastore) OpenBlob(ctx context.Context, account, name string) (metastore.Blob, []metastore.Extent, error) {
	var now time.Time
	row, err := s.rows.get(blobKey(account, name), func() (row *blobRow, err error) {
		if s.lookups != nil {
			row, now, err = s.lookups.get(ctx, account, name)
			return row, err
		}
		err = s.in.Read(ctx, func(t tx) (err error) {
			now = t.Now
			row, err = t.blobRow(account, name)
			return err
		})
		return row, err
	})
	if err == nil && now.IsZero() { // the row was in the cache
		now = s.db.Now()
	}
	if err == nil {
		err = checkLive(row.blob, row.found, now)
	}
	if err != nil {
		return metastore.Blob{}, nil, fmt.Errorf("blob: %w", err)
	}
	b := shown(row.blob, s.db)
	b.Account, b.Name = account, name
	return b, row.first, nil
}

// blob returns a name's blob, even an expired one.
func (t tx) blob(account, blobName string) (storedBlob, bool, error) {
	b := storedBlob{Blob: metastore.Blob{Account: account, Name: blobName}}
	n := splitName(blobName)
	var sum engine.StoredSum
	found, err := t.Row(
		`SELECT `+blobColumns+`, shared, row_sum FROM blobs WHERE account = $1 AND name_head = $2 AND name_hash = $3`+t.ForUpdate(),
		engine.Args{[]byte(account), n.head, n.hash}, append(blobFields(&b.Blob), (*engine.Boolean)(&b.shared), &sum)...)
	if err == nil && found {
		err = checkBlob(&b.Blob, sum)
	}
	return b, found, err
}

// lockBlob returns a name's blob, even an expired one, and the account's rule even if there is no
// blob. It is for a transaction that changes or inserts the row.
func (t tx) lockBlob(account, blobName string) (storedBlob, bool, error) {
	b := struct { // in one allocation
		storedBlob
		sum engine.StoredSum
	}{storedBlob: storedBlob{Blob: metastore.Blob{Account: account, Name: blobName}}}
	if err := t.Lock("blob", account, blobName); err != nil {
		return storedBlob{}, false, err
	}
	n := splitName(blobName)
	var of any = []byte(account)
	query := lockedRow + `) b UNION ALL SELECT zeroblob(16)` + orRule
	if lock := t.ForUpdate(); lock != "" {
		query = lockedRow + lock + `) b UNION ALL SELECT CAST('0123456789abcdef' AS BYTEA)` + orRule
	}
	rows, err := t.Open(query, engine.Args{of, n.head, n.hash, ruledBy(account, blobName, of)})
	if err != nil {
		return storedBlob{}, false, err
	}
	out := append(blobFields(&b.Blob), (*engine.Boolean)(&b.shared), &b.sum, &b.rule)
	found, more := false, true
	for err == nil && more && !found {
		more, err = rows.Next(out)
		found = more && b.PartSize != noBlob
	}
	if cerr := rows.Close(); err == nil {
		err = cerr
	}
	if !found {
		return storedBlob{Blob: metastore.Blob{Account: account, Name: blobName}, rule: b.rule}, false, err
	}
	if err == nil {
		err = checkBlob(&b.Blob, b.sum)
	}
	return b.storedBlob, true, err
}

// The query in lockBlob: for a blob with the account's rule, or a row with the rule and noBlob.
const (
	lockedRow = `SELECT * FROM (SELECT ` + blobColumns + `, shared, row_sum, (SELECT ` + ruleOf + ` FROM keeping WHERE account = $4) FROM blobs
			WHERE account = $1 AND name_head = $2 AND name_hash = $3`
	orRule = `, 0, 0, -1, NULL, account, NULL, NULL, NULL, 0, NULL, NULL, 0, NULL, ` + ruleOf + ` FROM keeping WHERE account = $4`

	noBlob = -1 // a part_size
)

// CommitBlob implements metastore.Blobs.
func (s *Metastore) CommitBlob(ctx context.Context, b metastore.Blob, extents []metastore.Extent, precondition metastore.Precondition) (metastore.Blob, error) {
	if err := checkExtents(extents, 0, b.Size); err != nil {
		return metastore.Blob{}, err
	}
	b.PartSize, b.SharedSecond, b.Expires = 0, false, engine.Truncate(b.Expires)
	b.Versioned, b.Mark, b.Since, b.Until, b.Again = false, false, time.Time{}, time.Time{}, time.Time{}
	if len(extents) <= stageExtents {
		return s.commitBlob(ctx, b, extents, precondition, func(t tx) error { return t.addExtents(b.Content, extents) })
	}
	err := s.stage(ctx, b.Content, blobGarbage(b), extents)
	if err == nil {
		var committed metastore.Blob
		committed, err = s.commitBlob(ctx, b, extents, precondition, func(t tx) error { return t.claim(b.Content) })
		if err == nil {
			return committed, nil
		}
	}
	return metastore.Blob{}, s.unstage(ctx, b.Content, err)
}

// commitBlob is the transaction of CommitBlob. place assigns the extents to the content.
func (s *Metastore) commitBlob(ctx context.Context, b metastore.Blob, extents []metastore.Extent, precondition metastore.Precondition, place func(tx) error) (metastore.Blob, error) {
	row := storedBlob{Blob: b} // as the closure has it, b would be allocated too
	by, lock := b.By, b.Lock
	err := s.db.WriteLocked(ctx, func(in *engine.Tx) (err error) {
		t := tx{in}                 // by writeLocked, each commit would allocate a function
		row.By, row.Lock = by, lock // a transaction before this one may have changed them
		if err := checkAge(extents, t.Now); err != nil {
			return err
		}
		var old storedBlob
		var found bool
		created := false
		if precondition == nil {
			created, err = t.createBlob(&row)
		}
		if err == nil && !created {
			old, found, err = t.replaceable(&row.Blob, precondition, false)
		}
		if err != nil {
			return err
		}
		if _, err := t.giveUp(old, found, blobUsage(row.Blob)); err != nil {
			return err
		}
		if err := place(t); err != nil {
			return err
		}
		if created {
			t.changed(metastore.ChangeStored, &row.Blob)
			return nil
		}
		return t.writeBlob(&row, old, found, metastore.ChangeStored) // last, as the others need not wait for a result
	})
	if err != nil {
		return metastore.Blob{}, err
	}
	return shown(row.Blob, s.db), nil
}

// replaceable returns the blob that b may replace, and whether there is one. If there is none, the
// blob has no size and no owner. It stays as it is until the transaction ends.
func (t tx) replaceable(b *metastore.Blob, precondition metastore.Precondition, createOnly bool) (old storedBlob, found bool, err error) {
	if expired(b.Expires, t.Now) {
		return storedBlob{}, false, fmt.Errorf("blob to commit: %w", database.ErrExpired)
	}
	old, found, err = t.lockBlob(b.Account, b.Name)
	if err != nil {
		return storedBlob{}, false, err
	}
	live := found && !expired(old.Expires, t.Now)
	if err := t.evaluate(precondition, &old, live); err != nil {
		return storedBlob{}, false, err
	}
	if createOnly && live {
		return storedBlob{}, false, fmt.Errorf("blob: %w", database.ErrExists)
	}
	return old, found, t.spares(precondition, old, found, b.Expires)
}

// giveUp removes the reference that old, if it was found, is to its content, which becomes garbage
// unless another blob has it, or stores old as a version. It records that in the usage, with added.
// It reports whether the content became garbage. The caller must then call writeBlob.
func (t tx) giveUp(old storedBlob, found bool, added ...usage.Delta) (garbage bool, err error) {
	if old.rule != 0 {
		garbage, deltas, err := t.release(old, found, true, make([]usage.Delta, 0, 8))
		if err != nil {
			return false, err
		}
		return garbage, usage.Record(t.Tx, append(deltas, added...)...)
	}
	deltas := make([]usage.Delta, 0, 4) // at most two are added
	if found {
		var retained usage.Delta
		if garbage, retained, err = t.drop(old); err != nil {
			return false, err
		}
		deltas = append(deltas, blobUsage(old.Blob).Negated(), retained)
	}
	return garbage, usage.Record(t.Tx, append(deltas, added...)...)
}

// release is giveUp in an account with a rule, but adds the difference in usage to deltas.
func (t tx) release(old storedBlob, found, replaced bool, deltas []usage.Delta) (garbage bool, _ []usage.Delta, err error) {
	if deltas, err = t.keep(old, found, replaced, deltas); err != nil || !found || old.rule.keeps(&old.Blob) {
		return false, deltas, err
	}
	garbage, retained, err := t.drop(old)
	return garbage, append(deltas, blobUsage(old.Blob).Negated(), retained), err
}

// drop removes the reference that a blob is to its content. It reports whether that became garbage,
// and then returns that garbage's usage. The caller must delete or replace the row. It returns a
// LockedError while the blob has a lock.
func (t tx) drop(b storedBlob) (garbage bool, retained usage.Delta, err error) {
	if t.holds(b.Lock) {
		return false, retained, t.locked(b.Lock)
	}
	if garbage, err = t.dropReference(b.Content, b.shared); err == nil && garbage {
		retained = blobGarbage(b.Blob)
		err = t.addGarbage(b.Content, retained)
	}
	return garbage, retained, err
}

// writeBlob writes the row of b, which replaces the row of old if there is one, and sets the
// members that the store sets. The caller must call giveUp for old, and writeBlob then stores its
// version if keepsByUpdate reports so. kind is the change's; a blob
// that is stored over another one replaces it.
func (t tx) writeBlob(b *storedBlob, old storedBlob, found bool, kind metastore.ChangeKind) error {
	b.Again = time.Time{}
	if old.rule == 0 {
		// old.Modified is not before the time that deleted_blobs has for the name, if any.
		b.Modified, b.By, b.Versioned = engine.Latest(t.Now, old.Modified), "", false
		b.SharedSecond = found && !old.Modified.Before(b.Modified.Truncate(time.Second))
	} else if _, err := t.order(b, old, found); err != nil {
		return err
	}
	if err := t.lockNew(b, old.rule); err != nil {
		return err
	}
	if kind == metastore.ChangeStored && found && !expired(old.Expires, t.Now) {
		kind = metastore.ChangeReplaced
	}
	if !found {
		return t.insertBlob(b, kind)
	}
	keeps := t.keepsByUpdate(old)
	switch changed := t.changed(kind, &b.Blob); {
	case changed && keeps:
		packed, _ := t.TakeChanges()
		kept, err := t.newRow(t.keptVersion(old))
		if err != nil {
			return err
		}
		return t.update(b, updateAndKeep, append(engine.Args{packed}, kept...)...)
	case keeps:
		if err := t.insertRow(t.keptVersion(old)); err != nil {
			return err
		}
	case changed && !t.Embedded(): // a statement of its own would cost more
		packed, _ := t.TakeChanges()
		return t.update(b, updateAndChange, packed)
	case t.Embedded() && isPlain(&old.Blob) && isPlain(&b.Blob):
		return t.update(b, updatePlain)
	}
	return t.updateBlob(b)
}

// updateBlob writes b over the row of that name.
func (t tx) updateBlob(b *storedBlob) error { return t.update(b, updateAll) }

// The first statement is enough if the columns that it leaves are NULL before and after. SQLite
// then rewrites no index.
const (
	updatePlain = updateColumns + ofName
	updateAll   = updateColumns + `, expires = $11, version = $14` + ofName

	updateAndChange = withChange + `) ` + updateAll
	updateAndKeep   = withChange + `), counted AS (INSERT INTO account_deltas (account, blobs, bytes) VALUES ($19, 1, $23)),
		kept AS (INSERT INTO blobs (` + rowColumns + `) VALUES ($19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29, $30, $31, $32, $33, $34, $35, $36)) ` + updateAll
	withChange = `WITH queued AS (INSERT INTO changes_queue (packed) VALUES ($18)`

	updateColumns = `UPDATE blobs SET content = $4, size = $5, crc64 = $6, part_size = $7, sha256 = $8, content_type = $9, modified = $10,
			owner = $12, shared_second = $13, metadata = $15, shared = $16, row_sum = $17`
	ofName = ` WHERE account = $1 AND name_head = $2 AND name_hash = $3`
)

// isPlain reports whether the columns are NULL for a blob that updatePlain leaves.
func isPlain(b *metastore.Blob) bool { return b.Expires.IsZero() && !hasMembers(b) }

func (t tx) update(b *storedBlob, statement string, more ...any) error {
	n := splitName(b.Name)
	values, err := rowValues(b, n)
	if err != nil {
		return err
	}
	t.Touch(rowKey(b.Account, n))
	return t.Change(statement, append(values, more...)...)
}

// evaluate evaluates a precondition, which may be nil, on a name's blob.
func (t tx) evaluate(precondition metastore.Precondition, b *storedBlob, live bool) error {
	if precondition == nil {
		return nil
	}
	return evaluate(precondition, shown(b.Blob, t), live)
}

// evaluate evaluates a precondition, which may be nil, on the blob that callers see.
func evaluate(precondition metastore.Precondition, current metastore.Blob, live bool) error {
	if precondition == nil {
		return nil
	}
	if !live {
		return precondition(nil)
	}
	return precondition(&current)
}

// deletedRetention is the age from which a blob is deleted without a record: the name's next blob
// is then certain to have a later time. It exceeds the time that a transaction may wait for its
// lock after it has read the clock.
const deletedRetention = time.Minute

// rememberDeleted stores a blob's time if it is deleted soon after it was modified. The name's next
// blob must not be older.
func (t tx) rememberDeleted(b metastore.Blob) error {
	last := engine.Latest(b.Modified, b.Again)
	if last.Before(t.Forgotten(deletedRetention)) {
		return nil
	}
	n := splitName(b.Name)
	return t.Change(`INSERT INTO deleted_blobs (account, name_head, name_hash, modified) VALUES ($1, $2, $3, $4)
		ON CONFLICT (account, name_head, name_hash) DO UPDATE SET modified = excluded.modified`,
		[]byte(b.Account), n.head, n.hash, engine.Micros(last))
}

// removeBlob deletes a blob's row. The caller must call giveUp for it.
func (t tx) removeBlob(b metastore.Blob) error {
	if err := t.deleteBlob(b); err != nil {
		return err
	}
	return t.rememberDeleted(b)
}

// deleteBlob is deleteRow. On PostgreSQL its statement also stores the transaction's changes.
func (t tx) deleteBlob(b metastore.Blob) error {
	n := splitName(b.Name)
	if t.Embedded() {
		return t.deleteRow(b.Account, n)
	}
	packed, _ := t.TakeChanges()
	if len(packed) == 0 {
		return t.deleteRow(b.Account, n)
	}
	t.Touch(rowKey(b.Account, n))
	return t.Change(`WITH queued AS (INSERT INTO changes_queue (packed) VALUES ($4)) `+deleteRow, []byte(b.Account), n.head, n.hash, packed)
}

const deleteRow = `DELETE FROM blobs WHERE account = $1 AND name_head = $2 AND name_hash = $3`

func (t tx) deleteRow(account string, n name) error {
	t.Touch(rowKey(account, n))
	return t.Change(deleteRow, []byte(account), n.head, n.hash)
}
