package sqlstore

import (
	"context"
	"fmt"
	"time"

	"sluice/metastore"
)

// checkExtents refuses extents that are not all of a part of this size.
func checkExtents(extents []metastore.Extent, part int, size int64) error {
	var end int64
	for i := range extents {
		e := &extents[i]
		if e.Part != part || e.Offset != end || e.Size < 1 || e.Size > metastore.MaxExtentSize {
			return fmt.Errorf("sqlstore: extent %d (part %d, offset %d, size %d) does not follow offset %d of part %d",
				i, e.Part, e.Offset, e.Size, end, part)
		}
		if (e.Key == "") != (e.Body != nil) || (e.Body != nil && int64(len(e.Body)) != e.Size) {
			return fmt.Errorf("sqlstore: extent %d has neither a key nor a body of %d bytes alone", i, e.Size)
		}
		end += e.Size
	}
	if end != size {
		return fmt.Errorf("sqlstore: extents hold %d bytes of %d", end, size)
	}
	return nil
}

// checkAge refuses extents whose objects the orphan sweep may soon look at.
func checkAge(extents []metastore.Extent, now time.Time) error {
	for i := range extents {
		if e := &extents[i]; e.Key != "" && now.Sub(e.Created) > metastore.MaxExtentAge {
			return fmt.Errorf("extent of %v: %w", e.Created, metastore.ErrStaleExtent)
		}
	}
	return nil
}

func (t *tx) addExtents(content metastore.ContentID, extents []metastore.Extent) error {
	for i := range extents {
		e := &extents[i]
		var object any
		if e.Key != "" {
			object = []byte(e.Key)
		}
		_, err := t.exec(`INSERT INTO extents (content, part, off, size, blocks, object) VALUES ($1, $2, $3, $4, $5, $6)`,
			content[:], int64(e.Part), e.Offset, e.Size, blocksColumn(e.Blocks), object)
		if err != nil {
			return err
		}
		if e.Key != "" {
			continue
		}
		_, err = t.exec(`INSERT INTO bodies (content, part, off, body) VALUES ($1, $2, $3, $4)`,
			content[:], int64(e.Part), e.Offset, e.Body)
		if err != nil {
			return err
		}
	}
	return nil
}

// moveExtents gives the extents of a part to another content, and tells
// whether there were any.
func (t *tx) moveExtents(from metastore.ContentID, part int, to metastore.ContentID) (bool, error) {
	n, err := t.exec(`UPDATE extents SET content = $1 WHERE content = $2 AND part = $3`, to[:], from[:], int64(part))
	if err != nil {
		return false, err
	}
	_, err = t.exec(`UPDATE bodies SET content = $1 WHERE content = $2 AND part = $3`, to[:], from[:], int64(part))
	return n > 0, err
}

// Extents implements metastore.Blobs.
func (s *Store) Extents(ctx context.Context, content metastore.ContentID, from metastore.Position, limit int) ([]metastore.Extent, error) {
	var list []metastore.Extent
	err := s.read(ctx, func(t *tx) error {
		list = nil
		var e metastore.Extent
		var part integer
		// Extents are bounded, so that the one that holds the position is near.
		// A bare parameter as the limit would make SQLite plan the query anew
		// each time.
		return t.each(`SELECT e.part, e.off, e.size, e.blocks, e.object, b.body
			FROM extents e LEFT JOIN bodies b
				ON e.object IS NULL AND b.content = e.content AND b.part = e.part AND b.off = e.off
			WHERE e.content = $1 AND (e.part, e.off) > ($2, $3) AND (e.part > $2 OR e.off + e.size > $4)
			ORDER BY e.part, e.off LIMIT ($5 + 0)`,
			args{content[:], int64(from.Part), from.Offset - metastore.MaxExtentSize, from.Offset, int64(limit)},
			args{&part, (*integer)(&e.Offset), (*integer)(&e.Size), (*blocks)(&e.Blocks), (*optionalText)(&e.Key), &e.Body},
			func() (bool, error) {
				e.Part = int(part)
				list = append(list, e)
				return true, nil
			})
	})
	return list, err
}
