package meta

import (
	"context"
	"fmt"
	"math"

	"sluice/database"
	"sluice/database/sqlstore/internal/engine"
	"sluice/database/sqlstore/internal/usage"
	"sluice/metastore"
)

// Values in the column uploads.state.
const (
	stateOpen = iota
	stateCommitted
	stateAborted
)

var uploadStates = [...]metastore.UploadState{
	stateOpen:      metastore.UploadOpen,
	stateCommitted: metastore.UploadCommitted,
	stateAborted:   metastore.UploadAborted,
}

// uploadColumns are an upload's columns, in the order of uploadRow.fields. parts is the number of
// rows in the table parts, also after the upload has ended.
const uploadColumns = `id, account, name, content, part_size, content_type, expires, create_only, state,
	bytes, revision, created, touched, ended, size, crc64, modified, owner, parts, metadata, version`

// uploadRow is an upload as it is scanned from its row.
type uploadRow struct {
	metastore.Upload
	createOnly, state engine.Integer
	blob              metastore.Blob // has the members in the column version
}

func (r *uploadRow) fields() engine.Args {
	u := &r.Upload
	return engine.Args{
		&u.ID, &u.Account, &u.Name, (*engine.ContentID)(&u.Content), (*engine.Integer)(&u.PartSize), &u.ContentType,
		(*engine.Instant)(&u.Expires), &r.createOnly, &r.state, (*engine.Integer)(&u.Bytes), (*engine.Integer)(&u.Revision),
		(*engine.Instant)(&u.Created), (*engine.Instant)(&u.Touched), (*engine.Instant)(&u.Ended),
		(*engine.Integer)(&u.Size), (*engine.CRC)(&u.CRC64), (*engine.Instant)(&u.Modified), (*engine.OptionalText)(&u.Owner), (*engine.Integer)(&u.Parts),
		(*engine.OptionalText)(&u.Metadata), (*versionColumn)(&r.blob),
	}
}

func (r *uploadRow) upload() metastore.Upload {
	u := r.Upload
	u.By, u.Versioned, u.Lock = r.blob.By, r.blob.Versioned, r.blob.Lock
	u.CreateOnly = r.createOnly != 0
	u.State = uploadStates[r.state]
	if u.State != metastore.UploadOpen {
		u.Parts = 0
	}
	return u
}

// BeginUpload implements metastore.Uploads. It returns ErrExists if the id is in use.
func (s *Metastore) BeginUpload(ctx context.Context, u metastore.Upload) (metastore.Upload, error) {
	err := s.in.Write(ctx, func(t tx) error {
		lock, err := t.lockUpload(&u)
		if err != nil {
			return err
		}
		u = metastore.Upload{
			ID: u.ID, Account: u.Account, Name: u.Name, Content: u.Content, PartSize: u.PartSize,
			ContentType: u.ContentType, Metadata: u.Metadata, Expires: engine.Truncate(u.Expires), CreateOnly: u.CreateOnly, Owner: u.Owner, By: u.By, Lock: u.Lock,
			State: metastore.UploadOpen, Created: t.Now, Touched: t.Now,
		}
		createOnly := int64(0)
		if u.CreateOnly {
			createOnly = 1
		}
		outcome := outcomeUsage(u)
		version, err := versionOf(&metastore.Blob{By: u.By, Lock: lock})
		if err != nil {
			return err
		}
		n, err := t.Exec(`INSERT INTO uploads (`+uploadColumns+`, charge)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $10, $11, $11, NULL, $10, $10, NULL, $12, $10, $13, $15, $14)
			ON CONFLICT (id) DO NOTHING`,
			[]byte(u.ID), []byte(u.Account), []byte(u.Name), u.Content[:], u.PartSize, []byte(u.ContentType),
			engine.Micros(u.Expires), createOnly, int64(stateOpen), int64(0), engine.Micros(t.Now), engine.OptionalColumn(u.Owner), engine.OptionalColumn(u.Metadata), outcome.Retained, version)
		if err == nil && n == 0 {
			err = fmt.Errorf("upload: %w", database.ErrExists)
		}
		if err != nil {
			return err
		}
		return usage.Record(t.Tx, uploadUsage(u), outcome)
	})
	if err != nil {
		return metastore.Upload{}, err
	}
	return u, nil
}

// Upload implements metastore.Uploads.
func (s *Metastore) Upload(ctx context.Context, id string) (metastore.Upload, error) {
	var u metastore.Upload
	err := s.in.Read(ctx, func(t tx) (err error) {
		u, err = t.upload(id)
		return err
	})
	u.Lock = shownLock(u.Lock, s.db)
	return u, err
}

// upload returns an upload, unless its retention has ended.
func (t tx) upload(id string) (metastore.Upload, error) {
	var r uploadRow
	found, err := t.Row(`SELECT `+uploadColumns+` FROM uploads WHERE id = $1`+t.ForUpdate(), engine.Args{[]byte(id)}, r.fields()...)
	if err != nil {
		return metastore.Upload{}, err
	}
	if !found {
		return metastore.Upload{}, t.Missing("upload", id)
	}
	if !r.Ended.IsZero() && !r.Ended.After(t.Forgotten(metastore.UploadRetention)) {
		return metastore.Upload{}, fmt.Errorf("upload: %w", database.ErrNotFound)
	}
	return r.upload(), nil
}

// PutPart implements metastore.Uploads.
func (s *Metastore) PutPart(ctx context.Context, uploadID string, p metastore.Part, extents []metastore.Extent) error {
	if err := checkExtents(extents, p.Index, p.Size); err != nil {
		return err
	}
	return s.in.WriteLocked(ctx, func(t tx) error {
		u, err := t.upload(uploadID)
		if err != nil {
			return err
		}
		switch u.State {
		case metastore.UploadAborted:
			return metastore.ErrAborted
		case metastore.UploadCommitted:
			return metastore.ErrCommitted
		}
		if err := checkAge(extents, t.Now); err != nil {
			return err
		}
		return t.putPart(u, p, extents)
	})
}

func (t tx) putPart(u metastore.Upload, p metastore.Part, extents []metastore.Extent) error {
	var old int64
	again, err := t.Row(`SELECT size FROM parts WHERE content = $1 AND idx = $2`, engine.Args{u.Content[:], int64(p.Index)}, (*engine.Integer)(&old))
	if err != nil {
		return err
	}
	changes := []usage.Delta{{Owner: u.Owner, Used: metastore.Used{Bytes: p.Size - old, Objects: 1}}}
	fresh := int64(1)
	if again {
		fresh = 0
		garbage, err := t.discardPart(u, p.Index, old)
		if err != nil {
			return err
		}
		changes[0].Objects = 0
		changes = append(changes, garbage)
	}
	err = t.Change(`INSERT INTO parts (content, idx, size, crc64, stored, checksum) VALUES ($1, $2, $3, $4, $5, $6)
		ON CONFLICT (content, idx) DO UPDATE SET size = excluded.size, crc64 = excluded.crc64, stored = excluded.stored, checksum = excluded.checksum`,
		u.Content[:], int64(p.Index), p.Size, int64(p.CRC64), t.Now.UnixMicro(), engine.OptionalColumn(p.Checksum))
	if err != nil {
		return err
	}
	err = t.Change(`UPDATE uploads SET bytes = bytes + $2, parts = parts + $4, revision = revision + 1, touched = $3 WHERE id = $1`,
		[]byte(u.ID), p.Size-old, engine.Micros(t.Now), fresh)
	if err != nil {
		return err
	}
	if err := usage.Record(t.Tx, changes...); err != nil {
		return err
	}
	return t.addExtents(u.Content, extents)
}

// discardPart moves a part's extents to a new content, which is garbage, because the part is sent
// again. It returns that garbage's usage: zero if the part had no extents.
func (t tx) discardPart(u metastore.Upload, part int, size int64) (usage.Delta, error) {
	fresh := metastore.NewContentID(t.Now)
	moved, err := t.moveExtents(u.Content, part, fresh)
	if err != nil || !moved {
		return usage.Delta{}, err
	}
	garbage := garbageUsage(u.Owner, size, 1)
	return garbage, t.addGarbage(fresh, garbage)
}

// Parts implements metastore.Uploads.
func (s *Metastore) Parts(ctx context.Context, uploadID string, after, limit int) ([]metastore.Part, error) {
	var list []metastore.Part
	err := s.in.Snapshot(ctx, func(t tx) error {
		list = nil
		u, err := t.upload(uploadID)
		if err != nil || u.State != metastore.UploadOpen {
			return err
		}
		var p metastore.Part
		var index engine.Integer
		return t.Each(`SELECT idx, size, crc64, stored, checksum FROM parts WHERE content = $1 AND idx > $2 ORDER BY idx LIMIT ($3 + 0)`,
			engine.Args{u.Content[:], int64(after), int64(limit)},
			engine.Args{&index, (*engine.Integer)(&p.Size), (*engine.CRC)(&p.CRC64), (*engine.Instant)(&p.Stored), (*engine.OptionalText)(&p.Checksum)},
			func() error {
				p.Index = int(index)
				p.Stored = engine.Latest(p.Stored, u.Created)
				list = append(list, p)
				return nil
			})
	})
	return list, err
}

// CompleteUpload implements metastore.Uploads. It returns ErrExists if the upload has CreateOnly
// and the name has a blob, unless precondition returns an error first.
func (s *Metastore) CompleteUpload(ctx context.Context, id string, revision, size int64, crc64 uint64, precondition metastore.Precondition) (metastore.Upload, error) {
	return s.complete(ctx, id, revision, precondition, func(_ tx, u *metastore.Upload, b *metastore.Blob) (usage.Delta, error) {
		if u.PartSize == 0 && u.Parts > 1 {
			return usage.Delta{}, fmt.Errorf("sqlstore: the parts of upload %s are uneven", id)
		}
		b.Size, b.CRC64 = size, crc64
		return usage.Delta{}, nil
	})
}

// complete is the transaction in CompleteUpload and CompleteUneven. choose sets the blob's Size and
// CRC64, and its PartSize if that is not the upload's, and returns the usage by the upload's
// garbage.
func (s *Metastore) complete(
	ctx context.Context, id string, revision int64, precondition metastore.Precondition,
	choose func(t tx, u *metastore.Upload, b *metastore.Blob) (usage.Delta, error),
) (metastore.Upload, error) {
	var u metastore.Upload
	err := s.in.WriteLocked(ctx, func(t tx) (err error) {
		if u, err = t.upload(id); err != nil {
			return err
		}
		switch {
		case u.State == metastore.UploadCommitted:
			return nil
		case u.State == metastore.UploadAborted:
			return metastore.ErrAborted
		case u.Revision != revision:
			return fmt.Errorf("upload at revision %d, not %d: %w", u.Revision, revision, metastore.ErrRevisionMismatch)
		}
		b := metastore.Blob{
			Account: u.Account, Name: u.Name, Content: u.Content,
			PartSize: u.PartSize, ContentType: u.ContentType, Metadata: u.Metadata, Owner: u.Owner, By: u.By, Expires: u.Expires, Lock: u.Lock,
		}
		old, found, err := t.replaceable(&b, precondition, u.CreateOnly)
		if err != nil {
			return err
		}
		unchosen, err := choose(t, &u, &b)
		if err != nil {
			return err
		}
		if _, err := t.giveUp(old, found, uploadUsage(u).Negated(), blobUsage(b), unchosen); err != nil {
			return err
		}
		row := storedBlob{Blob: b, lockStored: true}
		if err := t.writeBlob(&row, old, found, metastore.ChangeStored); err != nil {
			return err
		}
		return t.recordOutcome(&u, row.Blob)
	})
	if err != nil {
		return metastore.Upload{}, err
	}
	u.Lock = shownLock(u.Lock, s.db)
	return u, nil
}

// recordOutcome ends an upload that has become the blob b.
func (t tx) recordOutcome(u *metastore.Upload, b metastore.Blob) error {
	u.Size, u.CRC64, u.Modified, u.By, u.Versioned, u.Lock = b.Size, b.CRC64, b.Modified, b.By, b.Versioned, b.Lock
	version, err := versionOf(&b)
	if err != nil {
		return err
	}
	u.State, u.Ended, u.Parts, u.ContentType, u.Metadata = metastore.UploadCommitted, t.Now, 0, "", ""
	return t.Change(`UPDATE uploads SET state = $2, ended = $3, modified = $6, size = $4, crc64 = $5, content_type = $7, metadata = NULL, version = $8 WHERE id = $1`,
		[]byte(u.ID), int64(stateCommitted), engine.Micros(t.Now), u.Size, int64(u.CRC64), engine.Micros(u.Modified), []byte{}, version)
}

// AbortUpload implements metastore.Uploads.
func (s *Metastore) AbortUpload(ctx context.Context, id string) (metastore.ContentID, error) {
	var content metastore.ContentID
	err := s.in.WriteLocked(ctx, func(t tx) error {
		u, err := t.upload(id)
		if err != nil {
			return err
		}
		content = u.Content
		switch u.State {
		case metastore.UploadAborted:
			return nil
		case metastore.UploadCommitted:
			return metastore.ErrCommitted
		}
		garbage := uploadGarbage(u)
		if err := usage.Record(t.Tx, uploadUsage(u).Negated(), garbage); err != nil {
			return err
		}
		return t.abort([]byte(id), u.Content, garbage)
	})
	if err != nil {
		return metastore.ContentID{}, err
	}
	return content, nil
}

// abort ends an open upload and makes its content garbage, as addGarbage does.
func (t tx) abort(id []byte, content metastore.ContentID, garbage usage.Delta) error {
	_, err := t.Exec(`UPDATE uploads SET state = $2, ended = $3, content_type = $4, metadata = NULL WHERE id = $1`,
		id, int64(stateAborted), engine.Micros(t.Now), []byte{})
	if err != nil {
		return err
	}
	return t.addGarbage(content, garbage)
}

// ListUploads implements metastore.Uploads. It returns ErrNotFound if after belongs to another
// account.
func (s *Metastore) ListUploads(ctx context.Context, account, after string, limit int, bytes int64) (list []metastore.Upload, more bool, err error) {
	err = s.in.SnapshotList(ctx, func(t tx) (err error) {
		list, more, err = t.openUploads(account, after, engine.NewBound(limit, bytes))
		return err
	})
	if err != nil {
		return nil, false, err
	}
	return list, more, nil
}

// OpenUploads implements metastore.Uploads.
func (s *Metastore) OpenUploads(ctx context.Context, after string, limit int, bytes int64) (list []metastore.Upload, more bool, err error) {
	err = s.in.SnapshotList(ctx, func(t tx) (err error) {
		list, more, err = t.uploadPage(engine.NewBound(limit, bytes), `FROM uploads WHERE state = 0 AND id > $1`, `id`, engine.Args{[]byte(after)})
		return err
	})
	return list, more, err
}

// UploadsByName implements metastore.Uploads. It returns ErrNotFound if AfterID belongs to another
// account or name.
func (s *Metastore) UploadsByName(ctx context.Context, q metastore.UploadsQuery) (list []metastore.Upload, more bool, err error) {
	err = s.in.SnapshotList(ctx, func(t tx) (err error) {
		list, more, err = t.uploadsByName(q)
		return err
	})
	if err != nil {
		return nil, false, err
	}
	return list, more, nil
}

// nameHead is how many bytes of a name are in the index on open uploads: engines limit an index's
// entries.
const nameHead = 512

func (t tx) uploadsByName(q metastore.UploadsQuery) ([]metastore.Upload, bool, error) {
	// Before the first upload with the name From: no id is less than the empty one.
	name, created, id := []byte(q.From), int64(math.MinInt64), ""
	if q.AfterName >= q.From && q.AfterName != "" {
		name, created = []byte(q.AfterName), math.MaxInt64
		if q.AfterID != "" {
			u, err := t.uploadOf(q.Account, q.AfterID)
			if err == nil && u.Name != q.AfterName {
				err = fmt.Errorf("upload: %w", database.ErrNotFound)
			}
			if err != nil {
				return nil, false, err
			}
			created, id = u.Created.UnixMicro(), q.AfterID
		}
	}
	return t.uploadsBehind(q.Account, name, created, id, engine.NewBound(q.Limit, q.Bytes))
}

// uploadsBehind returns a page of an account's open uploads by name, those behind a place.
func (t tx) uploadsBehind(account string, name []byte, created int64, id string, left engine.Bound) ([]metastore.Upload, bool, error) {
	return t.uploadPage(left,
		`FROM uploads WHERE account = $1 AND state = 0 AND substr(name, 1, 512) >= $2 AND (name, created, id) > ($3, $4, $5)`,
		`substr(name, 1, 512), name, created, id`,
		engine.Args{[]byte(account), name[:min(nameHead, len(name))], name, created, []byte(id)})
}

// uploadOf returns an account's upload, or ErrNotFound.
func (t tx) uploadOf(account, id string) (metastore.Upload, error) {
	u, err := t.upload(id)
	if err == nil && u.Account != account {
		err = fmt.Errorf("upload: %w", database.ErrNotFound)
	}
	return u, err
}

func (t tx) openUploads(account, after string, left engine.Bound) ([]metastore.Upload, bool, error) {
	// Before the first upload: no id is less than the empty one.
	created, behind := int64(math.MinInt64), []byte{}
	if after != "" {
		u, err := t.uploadOf(account, after)
		if err != nil {
			return nil, false, err
		}
		created, behind = u.Created.UnixMicro(), []byte(after)
	}
	return t.uploadPage(left, `FROM uploads WHERE account = $1 AND state = 0 AND (created, id) > ($2, $3)`, `created, id`,
		engine.Args{[]byte(account), created, behind})
}

// uploadPage returns a page with the uploads that from selects, in its order.
func (t tx) uploadPage(left engine.Bound, from, order string, in engine.Args) ([]metastore.Upload, bool, error) {
	var r uploadRow
	rows, more, err := engine.CollectPage(t.Tx, left, uploadColumns,
		fmt.Sprintf(`length(name) + length(content_type) + COALESCE(length(metadata), 0) + %d`, entryCharge),
		from, order, in, r.fields(), &r,
		func(r *uploadRow) int64 { return int64(len(r.Name)+len(r.ContentType)+len(r.Metadata)) + entryCharge })
	list := make([]metastore.Upload, len(rows))
	for i := range rows {
		list[i] = rows[i].upload()
		list[i].Lock = shownLock(list[i].Lock, t)
	}
	return list, more, err
}
