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

// expired reports whether a blob or session has expired. The zero time means never.
func expired(expires, now time.Time) bool {
	return !expires.IsZero() && !now.Before(expires)
}

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
	return b.Blob, nil
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
	b := row.blob
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

// lockBlob is blob for a transaction that changes or inserts the row.
func (t tx) lockBlob(account, name string) (storedBlob, bool, error) {
	if err := t.Lock("blob", account, name); err != nil {
		return storedBlob{}, false, err
	}
	return t.blob(account, name)
}

// CommitBlob implements metastore.Blobs.
func (s *Metastore) CommitBlob(ctx context.Context, b metastore.Blob, extents []metastore.Extent, precondition metastore.Precondition) (metastore.Blob, error) {
	if err := checkExtents(extents, 0, b.Size); err != nil {
		return metastore.Blob{}, err
	}
	b.PartSize = 0
	b.Expires = engine.Truncate(b.Expires)
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
	err := s.db.WriteLocked(ctx, func(in *engine.Tx) (err error) {
		t := tx{in} // by writeLocked, each commit would allocate a function
		if err := checkAge(extents, t.Now); err != nil {
			return err
		}
		var old storedBlob
		var found bool
		created := false
		if precondition == nil {
			created, err = t.createBlob(&row.Blob)
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
		if err := place(t); err != nil || created {
			return err
		}
		return t.writeBlob(&row, old, found) // last, because the earlier statements need not wait for a result
	})
	if err != nil {
		return metastore.Blob{}, err
	}
	return row.Blob, nil
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
	if err := evaluate(precondition, old.Blob, live); err != nil {
		return storedBlob{}, false, err
	}
	if createOnly && live {
		return storedBlob{}, false, fmt.Errorf("blob: %w", database.ErrExists)
	}
	return old, found, nil
}

// giveUp removes the reference that old, if it was found, is to its content, which becomes garbage
// unless another blob has it. It records that in the usage, with added. It reports whether the
// content became garbage. The caller must delete or replace the row of old.
func (t tx) giveUp(old storedBlob, found bool, added ...usage.Delta) (garbage bool, err error) {
	deltas := make([]usage.Delta, 0, 4) // at most two are added
	if found {
		if garbage, err = t.dropReference(old.Content, old.shared); err != nil {
			return false, err
		}
		deltas = append(deltas, blobUsage(old.Blob).Negated())
	}
	if garbage {
		retained := blobGarbage(old.Blob)
		if err := t.addGarbage(old.Content, retained); err != nil {
			return false, err
		}
		deltas = append(deltas, retained)
	}
	return garbage, usage.Record(t.Tx, append(deltas, added...)...)
}

// writeBlob writes the row of b, which replaces the row of old if there is one, and sets b.Modified
// and b.SharedSecond. The caller must call giveUp for old.
func (t tx) writeBlob(b *storedBlob, old storedBlob, found bool) error {
	b.Modified = engine.Latest(t.Now, old.Modified)
	if !found {
		return t.insertBlob(b)
	}
	// old.Modified is not before the time that deleted_blobs has for the name, if any.
	b.SharedSecond = !old.Modified.Before(b.Modified.Truncate(time.Second))
	return t.updateBlob(b)
}

// updateBlob writes b over the row of that name.
func (t tx) updateBlob(b *storedBlob) error {
	n := splitName(b.Name)
	t.Touch(rowKey(b.Account, n))
	return t.Change(`UPDATE blobs SET content = $4, size = $5, crc64 = $6, part_size = $7, sha256 = $8, content_type = $9,
			modified = $10, expires = $11, owner = $12, shared_second = $13, metadata = $14, shared = $15, row_sum = $16
		WHERE account = $1 AND name_head = $2 AND name_hash = $3`,
		[]byte(b.Account), n.head, n.hash, b.Content[:], b.Size, int64(b.CRC64), b.PartSize, engine.BytesColumn(b.SHA256),
		[]byte(b.ContentType), engine.Micros(b.Modified), engine.Micros(b.Expires), engine.OptionalColumn(b.Owner), engine.FlagColumn(b.SharedSecond),
		engine.OptionalColumn(b.Metadata), engine.FlagColumn(b.shared), blobSum(&b.Blob))
}

// insertBlob writes the name's first row. Its time is not before the one that deleted_blobs has for
// the name, if any. It sets b.Modified and b.SharedSecond.
func (t tx) insertBlob(b *storedBlob) error {
	n := splitName(b.Name)
	t.Touch(rowKey(b.Account, n))
	t.Changed = true // row does not set it
	_, err := t.Row(`INSERT INTO blobs (account, name_head, name_hash, name_tail, `+blobColumns+`, shared, row_sum)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10,
			(SELECT MAX(m) FROM (SELECT CAST($11 AS BIGINT) AS m UNION ALL
				SELECT modified FROM deleted_blobs WHERE account = $1 AND name_head = $2 AND name_hash = $3) AS times),
			$12, $13,
			CASE WHEN EXISTS (SELECT 1 FROM deleted_blobs WHERE account = $1 AND name_head = $2 AND name_hash = $3 AND modified >= $14)
				THEN 1 ELSE 0 END, $15, $16, $17)
		RETURNING modified, shared_second`,
		engine.Args{[]byte(b.Account), n.head, n.hash, n.tail, b.Content[:], b.Size, int64(b.CRC64), b.PartSize,
			engine.BytesColumn(b.SHA256), []byte(b.ContentType), engine.Micros(b.Modified), engine.Micros(b.Expires), engine.OptionalColumn(b.Owner),
			b.Modified.Truncate(time.Second).UnixMicro(), engine.OptionalColumn(b.Metadata), engine.FlagColumn(b.shared), blobSum(&b.Blob)},
		(*engine.Instant)(&b.Modified), (*engine.Boolean)(&b.SharedSecond))
	return err
}

// createBlob writes the row of b and sets b.Modified and b.SharedSecond, if the name has neither a
// row nor one in deleted_blobs. It reports whether it has done that, which on SQLite saves a
// statement and the temporary tables of insertBlob. On PostgreSQL, where a name that has a row
// would cost one more round trip, it never does.
func (t tx) createBlob(b *metastore.Blob) (bool, error) {
	if !t.Embedded() || expired(b.Expires, t.Now) {
		return false, nil
	}
	n := splitName(b.Name)
	// The column modified must not be NULL, so that the row is also ignored for a deleted name.
	rows, err := t.Exec(`INSERT OR IGNORE INTO blobs (account, name_head, name_hash, name_tail, `+blobColumns+`, row_sum)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10,
			CASE WHEN EXISTS (SELECT 1 FROM deleted_blobs WHERE account = $1 AND name_head = $2 AND name_hash = $3) THEN NULL ELSE $11 END,
			$12, $13, 0, $14, $15)`,
		[]byte(b.Account), n.head, n.hash, n.tail, b.Content[:], b.Size, int64(b.CRC64), b.PartSize,
		engine.BytesColumn(b.SHA256), []byte(b.ContentType), engine.Micros(t.Now), engine.Micros(b.Expires), engine.OptionalColumn(b.Owner),
		engine.OptionalColumn(b.Metadata), blobSum(b))
	if err != nil || rows == 0 {
		return false, err
	}
	t.Touch(rowKey(b.Account, n))
	b.Modified, b.SharedSecond = t.Now, false
	return true, nil
}

// evaluate evaluates a precondition, which may be nil, on the current blob.
func evaluate(precondition metastore.Precondition, current metastore.Blob, live bool) error {
	if precondition == nil {
		return nil
	}
	if !live {
		return precondition(nil)
	}
	return precondition(&current)
}

// DeleteBlob implements metastore.Blobs.
func (s *Metastore) DeleteBlob(ctx context.Context, account, name string, precondition metastore.Precondition) (metastore.ContentID, bool, error) {
	var garbage metastore.ContentID
	var existed bool
	err := s.in.WriteLocked(ctx, func(t tx) error {
		old, found, err := t.lockBlob(account, name)
		garbage, existed = metastore.ContentID{}, found
		if err != nil {
			return err
		}
		if err := evaluate(precondition, old.Blob, found && !expired(old.Expires, t.Now)); err != nil || !found {
			return err
		}
		last, err := t.giveUp(old, true)
		if err != nil {
			return err
		}
		if last {
			garbage = old.Content
		}
		return t.removeBlob(old.Blob)
	})
	if err != nil {
		return metastore.ContentID{}, false, err
	}
	return garbage, existed, nil
}

// deletedRetention is the age from which a blob is deleted without a record: the name's next blob
// is then certain to have a later time. It exceeds the time that a transaction may wait for its
// lock after it has read the clock.
const deletedRetention = time.Minute

// rememberDeleted stores a blob's time if it is deleted soon after it was modified. The name's next
// blob must not be older.
func (t tx) rememberDeleted(b metastore.Blob) error {
	if b.Modified.Before(t.Forgotten(deletedRetention)) {
		return nil
	}
	n := splitName(b.Name)
	return t.Change(`INSERT INTO deleted_blobs (account, name_head, name_hash, modified) VALUES ($1, $2, $3, $4)
		ON CONFLICT (account, name_head, name_hash) DO UPDATE SET modified = excluded.modified`,
		[]byte(b.Account), n.head, n.hash, engine.Micros(b.Modified))
}

// removeBlob deletes a blob's row. The caller must call giveUp for it.
func (t tx) removeBlob(b metastore.Blob) error {
	if err := t.deleteRow(b.Account, splitName(b.Name)); err != nil {
		return err
	}
	return t.rememberDeleted(b)
}

func (t tx) deleteRow(account string, n name) error {
	t.Touch(rowKey(account, n))
	return t.Change(`DELETE FROM blobs WHERE account = $1 AND name_head = $2 AND name_hash = $3`,
		[]byte(account), n.head, n.hash)
}
