package meta

import (
	"bytes"
	"errors"
	"slices"
	"time"

	"sluice/database"
	"sluice/database/sqlstore/internal/engine"
	"sluice/database/sqlstore/internal/usage"
	"sluice/metastore"
)

// PurgeIdleUploads aborts open uploads that received no part for UploadIdleLimit.
func PurgeIdleUploads(in *engine.Tx, limit int) (int, error) {
	t := tx{in}
	type idle struct {
		id            []byte
		content       metastore.ContentID
		used, garbage usage.Delta
	}
	var list []idle
	var u idle
	var names, parts, bytes int64
	err := t.Each(`SELECT id, content, owner, bytes, parts, length(name) + COALESCE(length(metadata), 0) FROM uploads WHERE state = 0 AND touched <= $1 ORDER BY touched LIMIT $2`,
		engine.Args{t.Now.Add(-metastore.UploadIdleLimit).UnixMicro(), int64(limit)},
		engine.Args{&u.id, (*engine.ContentID)(&u.content), (*engine.OptionalText)(&u.used.Owner), (*engine.Integer)(&bytes), (*engine.Integer)(&parts), (*engine.Integer)(&names)},
		func() error {
			u.used.Used = metastore.Used{Bytes: bytes, Uploads: 1, Objects: parts, Names: names}
			u.garbage = garbageUsage(u.used.Owner, bytes, parts)
			list = append(list, u)
			return nil
		})
	if err != nil {
		return 0, err
	}
	deltas := make([]usage.Delta, 0, 2*len(list))
	for _, u := range list {
		if err := t.abort(u.id, u.content, u.garbage); err != nil {
			return 0, err
		}
		deltas = append(deltas, u.used.Negated(), u.garbage)
	}
	return len(list), usage.Record(t.Tx, deltas...)
}

// PurgeParts deletes the parts of ended uploads. An upload with more parts than the limit takes
// several calls.
func PurgeParts(in *engine.Tx, limit int) (int, error) {
	t := tx{in}
	type ended struct {
		id, content []byte
		parts       int64
	}
	var u ended
	list, err := engine.Collect(t.Tx, `SELECT id, content, parts FROM uploads WHERE ended IS NOT NULL AND parts > 0 ORDER BY ended LIMIT $1`,
		engine.Args{int64(limit)}, engine.Args{&u.id, &u.content, (*engine.Integer)(&u.parts)}, &u)
	if err != nil {
		return 0, err
	}
	done := 0
	for _, u := range list {
		n, err := t.Exec(deleteParts, u.content, int64(limit-done))
		if err != nil {
			return 0, err
		}
		done += int(n)
		left := max(u.parts-n, 1)
		if done < limit {
			left = 0 // whatever was counted, there are no more
		}
		if _, err := t.Exec(`UPDATE uploads SET parts = $2 WHERE id = $1`, u.id, left); err != nil {
			return 0, err
		}
		if done++; done >= limit {
			break
		}
	}
	return done, nil
}

// deleteParts deletes up to $2 of a content's parts.
const deleteParts = `DELETE FROM parts WHERE content = $1 AND idx IN
	(SELECT p.idx FROM parts p WHERE p.content = $1 ORDER BY p.idx LIMIT $2)`

// PurgeEndedUploads deletes uploads that ended more than UploadRetention ago, after their parts.
func PurgeEndedUploads(in *engine.Tx, limit int) (int, error) {
	n, err := in.Exec(`DELETE FROM uploads WHERE id IN
		(SELECT u.id FROM uploads u WHERE u.ended IS NOT NULL AND u.ended <= $1 AND u.parts = 0 ORDER BY u.ended LIMIT $2)`,
		in.Now.Add(-metastore.UploadRetention).UnixMicro(), int64(limit))
	return int(n), err
}

// PurgeBlobs removes blobs that expired more than ExpiredBlobGrace ago, by the index blobs_expires.
// It keeps them as versions where their account does.
func PurgeBlobs(in *engine.Tx, limit int) (int, error) {
	t := tx{in}
	return t.purgeBlobs(limit, ` AND account < `+t.literal("~~"), in.Now.Add(-metastore.ExpiredBlobGrace))
}

// purgeBlobs removes blobs that meet a condition and expired until a time.
func (t tx) purgeBlobs(limit int, condition string, until time.Time) (int, error) {
	type row struct {
		blob       metastore.Blob // with the members that a change has
		name       name
		shared     engine.Boolean
		used       usage.Delta
		head, tail string
		version    []byte
	}
	var list []row
	var r row
	var names, size int64
	err := t.Each(`SELECT account, name_head, name_hash, name_tail, content, shared, owner, size, length(name_head) + length(name_tail) + COALESCE(length(metadata), 0), version,
			crc64, content_type, modified, expires FROM blobs
		WHERE expires IS NOT NULL AND expires <= $1`+condition+` ORDER BY expires LIMIT $2`,
		engine.Args{until.UnixMicro(), int64(limit)},
		engine.Args{&r.blob.Account, &r.head, &r.name.hash, &r.tail, (*engine.ContentID)(&r.blob.Content), &r.shared, (*engine.OptionalText)(&r.used.Owner), (*engine.Integer)(&size), (*engine.Integer)(&names), &r.version,
			(*engine.CRC)(&r.blob.CRC64), &r.blob.ContentType, (*engine.Instant)(&r.blob.Modified), (*engine.Instant)(&r.blob.Expires)},
		func() error {
			r.used.Used = metastore.Used{Bytes: size, Objects: 1, Names: names}
			list = append(list, r)
			return nil
		})
	if err != nil {
		return 0, err
	}
	ruled, err := t.hasRules()
	if err != nil {
		return 0, err
	}
	deltas := make([]usage.Delta, 0, 2*len(list))
	gone, handled := list[:0], 0
	for _, r := range list {
		kept, done := metastore.IsKept(r.blob.Account) && bytes.Contains(r.version, []byte(`"lock"`)), true
		if kept { // whatever the column expires has
			done, err = t.relock(r.blob.Account, r.head+r.tail)
		} else if ruled && !metastore.IsKept(r.blob.Account) {
			kept, deltas, err = t.expire(r.blob.Account, r.head+r.tail, deltas)
			if errors.Is(err, database.ErrDamagedRow) { // it remains for a check
				kept, done, err = true, false, nil
			}
		}
		if err != nil {
			return 0, err
		}
		if done {
			handled++
		}
		if kept {
			continue
		}
		// A driver may return empty bytes as nil, which would be NULL.
		n := name{head: append([]byte{}, r.head...), hash: append([]byte{}, r.name.hash...)}
		if err := t.deleteRow(r.blob.Account, n); err != nil {
			return 0, err
		}
		r.blob.Name, r.blob.Owner, r.blob.Size = r.head+r.tail, r.used.Owner, r.used.Bytes
		kind := metastore.ChangeExpired
		if metastore.IsKept(r.blob.Account) {
			kind, r.blob.Expires = metastore.ChangeVersionDeleted, time.Time{} // the column has when it was due
		}
		t.changed(kind, &r.blob)
		gone, deltas = append(gone, r), append(deltas, r.used.Negated())
	}
	// After all rows of blobs, and in lockShares' order, because other transactions lock in that
	// order. The blob that expired last is charged for the garbage.
	slices.SortStableFunc(gone, func(a, b row) int { return bytes.Compare(a.blob.Content[:], b.blob.Content[:]) })
	for _, r := range gone {
		last, err := t.dropReference(r.blob.Content, bool(r.shared))
		if err != nil {
			return 0, err
		}
		if !last {
			continue
		}
		garbage := garbageUsage(r.used.Owner, r.used.Bytes, 1)
		if err := t.addGarbage(r.blob.Content, garbage); err != nil {
			return 0, err
		}
		deltas = append(deltas, garbage)
	}
	return handled, usage.Record(t.Tx, deltas...)
}

// hasRules reports whether an account has a rule.
func (t tx) hasRules() (bool, error) {
	var one engine.Integer
	return t.Row(`SELECT 1 FROM keeping WHERE account > $1 LIMIT 1`, engine.Args{[]byte{}}, &one)
}

// expire removes an expired blob if its account has a rule, and reports whether it has. The blob is
// kept like one that was removed when it expired. With database.ErrDamagedRow nothing is changed.
func (t tx) expire(account, blobName string, deltas []usage.Delta) (ruled bool, _ []usage.Delta, err error) {
	old, found, err := t.lockBlob(account, blobName)
	if err != nil || !found || old.rule == 0 {
		return false, deltas, err
	}
	deltas, err = t.retire(old, "", engine.Latest(old.Expires, old.Modified), deltas, metastore.ChangeExpired)
	return err == nil, deltas, err
}

// PurgeDeleted deletes the times of deleted blobs that are older than any running commit.
func PurgeDeleted(in *engine.Tx, limit int) (int, error) {
	t := tx{in}
	n, err := t.Exec(`DELETE FROM deleted_blobs WHERE (account, name_head, name_hash) IN
		(SELECT d.account, d.name_head, d.name_hash FROM deleted_blobs d WHERE d.modified <= $1 ORDER BY d.modified LIMIT $2)`,
		t.Now.Add(-5*deletedRetention).UnixMicro(), int64(limit))
	return int(n), err
}
