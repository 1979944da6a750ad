package meta

import (
	"bytes"
	"slices"

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

// PurgeBlobs deletes blobs that expired more than ExpiredBlobGrace ago.
func PurgeBlobs(in *engine.Tx, limit int) (int, error) {
	t := tx{in}
	type row struct {
		account string
		name    name
		content metastore.ContentID
		shared  engine.Boolean
		used    usage.Delta
	}
	var list []row
	var r row
	var names, size int64
	err := t.Each(`SELECT account, name_head, name_hash, content, shared, owner, size, length(name_head) + length(name_tail) + COALESCE(length(metadata), 0) FROM blobs
		WHERE expires IS NOT NULL AND expires <= $1 ORDER BY expires LIMIT $2`,
		engine.Args{t.Now.Add(-metastore.ExpiredBlobGrace).UnixMicro(), int64(limit)},
		engine.Args{&r.account, &r.name.head, &r.name.hash, (*engine.ContentID)(&r.content), &r.shared, (*engine.OptionalText)(&r.used.Owner), (*engine.Integer)(&size), (*engine.Integer)(&names)},
		func() error {
			r.used.Used = metastore.Used{Bytes: size, Objects: 1, Names: names}
			list = append(list, r)
			return nil
		})
	if err != nil {
		return 0, err
	}
	deltas := make([]usage.Delta, 0, 2*len(list))
	for _, r := range list {
		// A driver may return empty bytes as nil, which would be NULL.
		n := name{head: append([]byte{}, r.name.head...), hash: append([]byte{}, r.name.hash...)}
		if err := t.deleteRow(r.account, n); err != nil {
			return 0, err
		}
		deltas = append(deltas, r.used.Negated())
	}
	// After all rows of blobs, and in lockShares' order, because other transactions lock in that
	// order. The blob that expired last is charged for the garbage.
	slices.SortStableFunc(list, func(a, b row) int { return bytes.Compare(a.content[:], b.content[:]) })
	for _, r := range list {
		last, err := t.dropReference(r.content, bool(r.shared))
		if err != nil {
			return 0, err
		}
		if !last {
			continue
		}
		garbage := garbageUsage(r.used.Owner, r.used.Bytes, 1)
		if err := t.addGarbage(r.content, garbage); err != nil {
			return 0, err
		}
		deltas = append(deltas, garbage)
	}
	return len(list), usage.Record(t.Tx, deltas...)
}

// PurgeDeleted deletes the times of deleted blobs that are older than any running commit.
func PurgeDeleted(in *engine.Tx, limit int) (int, error) {
	t := tx{in}
	n, err := t.Exec(`DELETE FROM deleted_blobs WHERE (account, name_head, name_hash) IN
		(SELECT d.account, d.name_head, d.name_hash FROM deleted_blobs d WHERE d.modified <= $1 ORDER BY d.modified LIMIT $2)`,
		t.Now.Add(-5*deletedRetention).UnixMicro(), int64(limit))
	return int(n), err
}
