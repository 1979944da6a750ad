package meta

import (
	"context"
	"fmt"

	"sluice/database/sqlstore/internal/engine"
	"sluice/database/sqlstore/internal/usage"
	"sluice/metastore"
)

// A content of uneven parts, or parts with checksums, has a row in the table starts for each part.
// A trigger deletes them with the content's row of garbage. All other contents have none, so that
// they cost nothing more.

// CompleteUneven implements metastore.Uploads. It returns ErrExists as CompleteUpload does.
func (s *Metastore) CompleteUneven(
	ctx context.Context, id string, revision int64, parts []metastore.Part, crc64 uint64, metadata string, precondition metastore.Precondition,
) (metastore.Upload, error) {
	size, err := checkParts(parts)
	if err != nil {
		return metastore.Upload{}, err
	}
	return s.complete(ctx, id, revision, precondition, func(t tx, u *metastore.Upload, b *metastore.Blob) (usage.Delta, error) {
		if err := checkChosen(u, parts, size); err != nil {
			return usage.Delta{}, err
		}
		b.Size, b.CRC64, b.PartSize, b.Metadata = size, crc64, evenSize(parts), metadata
		if b.PartSize == metastore.UnevenParts {
			if err := t.addStarts(u.Content, parts); err != nil {
				return usage.Delta{}, err
			}
		}
		return t.discardUnchosen(u, b, parts)
	})
}

// checkParts returns the parts' total size, or an error unless they are in order.
func checkParts(parts []metastore.Part) (size int64, err error) {
	if len(parts) < 1 || len(parts) > metastore.MaxUnevenParts {
		return 0, fmt.Errorf("sqlstore: %d parts are chosen, not 1 to %d", len(parts), metastore.MaxUnevenParts)
	}
	last := -1
	for i, p := range parts {
		if p.Index <= last || p.Size < 0 || p.Size == 0 && i < len(parts)-1 {
			return 0, fmt.Errorf("sqlstore: part %d of %d bytes cannot follow part %d", p.Index, p.Size, last)
		}
		last = p.Index
		size += p.Size
	}
	return size, nil
}

// checkChosen returns an error if the parts cannot be the upload's.
func checkChosen(u *metastore.Upload, parts []metastore.Part, size int64) error {
	chosen, others := int64(len(parts)), u.Parts-int64(len(parts))
	switch {
	case u.PartSize != 0:
		return fmt.Errorf("sqlstore: the parts of upload %s have %d bytes each", u.ID, u.PartSize)
	case others < 0, size > u.Bytes, others == 0 && size != u.Bytes:
		return fmt.Errorf("sqlstore: %d parts of %d bytes are chosen of an upload with %d of %d", chosen, size, u.Parts, u.Bytes)
	}
	return nil
}

// evenSize returns the size of every part but the last, if they are numbered from 0 without a gap,
// have no checksums, and the last one is not larger. Otherwise it returns metastore.UnevenParts.
func evenSize(parts []metastore.Part) int64 {
	for i, p := range parts {
		last := i == len(parts)-1
		if p.Index != i || p.Checksum != "" || p.Size > parts[0].Size || p.Size < parts[0].Size && !last {
			return metastore.UnevenParts
		}
	}
	return parts[0].Size
}

var insertStarts = inserts(`INSERT INTO starts (content, part, start, size, checksum) VALUES `, 5)

// addStarts inserts where a content's parts begin.
func (t tx) addStarts(content metastore.ContentID, parts []metastore.Part) error {
	start := int64(0)
	for i, n := range insertRows {
		for ; len(parts) >= n; parts = parts[n:] {
			in := make(engine.Args, 0, 5*n)
			for _, p := range parts[:n] {
				in = append(in, content[:], int64(p.Index), start, p.Size, engine.OptionalColumn(p.Checksum))
				start += p.Size
			}
			if err := t.Change(insertStarts[i], in...); err != nil {
				return err
			}
		}
	}
	return nil
}

// discardUnchosen moves the extents of an upload's other parts to a new content, which is garbage,
// and returns that garbage's usage, zero if there is none. The blob has the chosen parts' size, and
// its starts must have been added.
func (t tx) discardUnchosen(u *metastore.Upload, b *metastore.Blob, parts []metastore.Part) (usage.Delta, error) {
	others := u.Parts - int64(len(parts))
	if others == 0 {
		return usage.Delta{}, nil
	}
	after := int64(-1) // if the content is uneven, a part that was not chosen has no start
	if b.PartSize != metastore.UnevenParts {
		after = int64(parts[len(parts)-1].Index) // no part has one
	}
	fresh := metastore.NewContentID(t.Now)
	moved := int64(0)
	for _, table := range []string{"bodies", "extents"} {
		unchecked := ""
		if table == "extents" {
			unchecked = ", row_sum = NULL"
		}
		n, err := t.Exec(`UPDATE `+table+` SET content = $1`+unchecked+` WHERE content = $2 AND part IN (SELECT p.idx FROM parts p
			WHERE p.content = $2 AND p.idx > $3 AND NOT EXISTS (SELECT 1 FROM starts s WHERE s.content = p.content AND s.part = p.idx))`,
			fresh[:], u.Content[:], after)
		if err != nil {
			return usage.Delta{}, err
		}
		moved = n
	}
	if moved == 0 {
		return usage.Delta{}, nil
	}
	garbage := garbageUsage(u.Owner, u.Bytes-b.Size, others)
	return garbage, t.addGarbage(fresh, garbage)
}

// ExtentsAt implements metastore.Blobs.
func (s *Metastore) ExtentsAt(ctx context.Context, content metastore.ContentID, offset int64, limit int) ([]metastore.Extent, error) {
	var list []metastore.Extent
	err := s.in.Read(ctx, func(t tx) (err error) {
		var e metastore.Extent
		var part engine.Integer
		var sum engine.StoredSum
		list = nil
		return t.Each(extentsAt, engine.Args{content[:], offset, int64(metastore.MaxExtentSize), int64(limit)},
			engine.Args{&part, (*engine.Integer)(&e.Offset), (*engine.Integer)(&e.Size), (*engine.Blocks)(&e.Blocks), (*engine.OptionalText)(&e.Object), (*engine.Body)(&e.Body),
				(*engine.Integer)(&e.Start), &sum},
			func() error {
				e.Part = int(part)
				list = append(list, e)
				return checkExtentRow(&content, &e, sum)
			})
	})
	return list, err
}

// extentsAt finds the part with the offset, and reads the extents from there on like Extents.
const extentsAt = `WITH f AS (SELECT part, start FROM starts WHERE content = $1 AND start <= $2 ORDER BY start DESC LIMIT 1)
	SELECT e.part, e.off, e.size, e.blocks, e.object, b.body, (SELECT s.start FROM starts s WHERE s.content = e.content AND s.part = e.part), e.row_sum
	FROM extents e LEFT JOIN bodies b
		ON e.object IS NULL AND b.content = e.content AND b.part = e.part AND b.off = e.off
	WHERE e.content = $1 AND (e.part, e.off) > ((SELECT part FROM f), (SELECT $2 - start - $3 FROM f))
		AND (e.part > (SELECT part FROM f) OR e.off + e.size > (SELECT $2 - start FROM f))
	ORDER BY e.part, e.off LIMIT ($4 + 0)`

// PartRanges implements metastore.Blobs.
func (s *Metastore) PartRanges(ctx context.Context, content metastore.ContentID, after, limit int) (list []metastore.PartRange, total int, err error) {
	err = s.in.Snapshot(ctx, func(t tx) error {
		var all, index engine.Integer
		var p metastore.PartRange
		list = nil
		if _, err := t.Row(`SELECT COUNT(*) FROM starts WHERE content = $1`, engine.Args{content[:]}, &all); err != nil {
			return err
		}
		total = int(all)
		return t.Each(`SELECT part, start, size, checksum FROM starts WHERE content = $1 AND part > $2 ORDER BY part LIMIT ($3 + 0)`,
			engine.Args{content[:], int64(after), int64(limit)}, engine.Args{&index, (*engine.Integer)(&p.Start), (*engine.Integer)(&p.Size), (*engine.OptionalText)(&p.Checksum)},
			func() error {
				p.Index = int(index)
				list = append(list, p)
				return nil
			})
	})
	if err != nil {
		return nil, 0, err
	}
	return list, total, nil
}
