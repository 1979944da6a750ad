package meta

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"sluice/database"
	"sluice/database/sqlstore/internal/engine"
	"sluice/database/sqlstore/internal/usage"
	"sluice/metastore"
)

// checkExtents returns an error unless the extents are a whole part of this size, in order.
func checkExtents(extents []metastore.Extent, part int, size int64) error {
	var end int64
	for i := range extents {
		e := &extents[i]
		if e.Part != part || e.Offset != end || e.Size < 1 || e.Size > metastore.MaxExtentSize {
			return fmt.Errorf("sqlstore: extent %d (part %d, offset %d, size %d) does not follow offset %d of part %d",
				i, e.Part, e.Offset, e.Size, end, part)
		}
		if (e.Object == "") != (e.Body != nil) || (e.Body != nil && int64(len(e.Body)) != e.Size) {
			return fmt.Errorf("sqlstore: extent %d must have either a key or a body of %d bytes", i, e.Size)
		}
		end += e.Size
	}
	if end != size {
		return fmt.Errorf("sqlstore: extents have %d bytes, want %d", end, size)
	}
	return nil
}

// checkAge returns ErrStaleExtent if the orphan sweep may soon check the extents' objects.
func checkAge(extents []metastore.Extent, now time.Time) error {
	for i := range extents {
		if e := &extents[i]; e.Object != "" && now.Sub(e.Created) > metastore.MaxExtentAge {
			return fmt.Errorf("extent of %v: %w", e.Created, metastore.ErrStaleExtent)
		}
	}
	return nil
}

// extentColumns is the number of columns in a row of extents.
const extentColumns = 7

// insertRows are the numbers of rows that a statement inserts. There are several, so that a long
// list takes few round trips, and few, so that few statements are prepared.
var insertRows = []int{256, 32, 4, 1}

var insertExtents = inserts(`INSERT INTO extents (content, part, off, size, blocks, object, row_sum) VALUES `, extentColumns)

// inserts returns statements that insert rows with so many columns, one for each number of rows in
// insertRows.
func inserts(head string, columns int) []string {
	list := make([]string, len(insertRows))
	for i, rows := range insertRows {
		values := make([]string, rows)
		for row := range values {
			values[row] = "(" + engine.Parameters(row*columns+1, columns) + ")"
		}
		list[i] = head + strings.Join(values, ", ")
	}
	return list
}

func (t tx) addExtents(content metastore.ContentID, extents []metastore.Extent) error {
	rest := extents
	for i, n := range insertRows {
		for len(rest) >= n {
			if err := t.addRows(insertExtents[i], content, rest[:n]); err != nil {
				return err
			}
			rest = rest[n:]
		}
	}
	return t.addBodies(content, extents)
}

// addRows inserts extents by a statement for as many rows.
func (t tx) addRows(insert string, content metastore.ContentID, extents []metastore.Extent) error {
	in := make(engine.Args, 0, extentColumns*len(extents))
	for i := range extents {
		e := &extents[i]
		var object any
		if e.Object != "" {
			object = []byte(e.Object)
		}
		in = append(in, content[:], int64(e.Part), e.Offset, e.Size, engine.BlocksColumn(e.Blocks), object, extentSum(&content, e))
	}
	return t.Change(insert, in...)
}

// addBodies inserts the inline extents' bodies. A content has few of them.
func (t tx) addBodies(content metastore.ContentID, extents []metastore.Extent) error {
	for i := range extents {
		e := &extents[i]
		if e.Object != "" {
			continue
		}
		err := t.Change(`INSERT INTO bodies (content, part, off, body) VALUES ($1, $2, $3, $4)`,
			content[:], int64(e.Part), e.Offset, e.Body)
		if err != nil {
			return err
		}
	}
	return nil
}

const (
	// stageExtents is the maximum number of extents that a transaction inserts. More are
	// staged: a transaction for all of them could exceed the timeouts on PostgreSQL and
	// would block all other writers on SQLite.
	stageExtents = 2048
	// stageTime is the time from the start of staging until the extents become garbage. It
	// exceeds MaxExtentAge, above which a commit refuses extents, so that the commit and
	// Purge never conflict. The orphan sweep has the same limit.
	stageTime = 4 * metastore.MaxExtentAge
)

// stage inserts a content's extents ahead of its commit, in several transactions. Until claim the
// content is staged and counts as the given garbage. Purge makes it garbage after stageTime, so
// that it is freed after a crash.
func (s *Metastore) stage(ctx context.Context, content metastore.ContentID, garbage usage.Delta, extents []metastore.Extent) error {
	for first := true; len(extents) > 0; first = false {
		some := extents[:min(stageExtents, len(extents))]
		err := s.in.WriteLocked(ctx, func(t tx) error {
			if err := checkAge(some, t.Now); err != nil {
				return err
			}
			if first {
				if err := usage.Record(t.Tx, garbage); err != nil {
					return err
				}
				if err := t.addGarbageSince(content, garbage, stagedFrom+t.Now.Add(stageTime).UnixMicro()); err != nil {
					return err
				}
			}
			return t.addExtents(content, some)
		})
		switch {
		case errors.Is(err, database.ErrUnknownOutcome):
			// Only the staged rows are in doubt, and nobody sees them. The call's outcome is known.
			return fmt.Errorf("staging extents: %w: %v", database.ErrUnavailable, err) //nolint:errorlint
		case err != nil:
			return err
		}
		extents = extents[len(some):]
	}
	return nil
}

// claim makes a staged content live. It returns ErrStaleExtent if Purge has made it garbage.
func (t tx) claim(content metastore.ContentID) error {
	n, err := t.Exec(`DELETE FROM garbage WHERE content = $1 AND since >= $2`, content[:], int64(stagedFrom))
	if err == nil && n == 0 {
		err = fmt.Errorf("staged extents: %w", metastore.ErrStaleExtent)
	}
	return err
}

// unstage makes a staged content garbage after its commit has failed with cause, and returns
// cause. Its own errors are ignored: Purge makes the content garbage later.
func (s *Metastore) unstage(ctx context.Context, content metastore.ContentID, cause error) error {
	if errors.Is(cause, database.ErrUnknownOutcome) {
		return cause
	}
	_ = s.in.WriteLocked(context.WithoutCancel(ctx), func(t tx) error {
		_, err := t.Exec(`UPDATE garbage SET since = $2 WHERE content = $1`, content[:], t.Now.UnixMicro())
		return err
	})
	return cause
}

// moveExtents moves a part's extents to another content, which is garbage, and reports whether
// there were any. They are unchecked from then on.
func (t tx) moveExtents(from metastore.ContentID, part int, to metastore.ContentID) (bool, error) {
	n, err := t.Exec(`UPDATE extents SET content = $1, row_sum = NULL WHERE content = $2 AND part = $3`, to[:], from[:], int64(part))
	if err != nil {
		return false, err
	}
	_, err = t.Exec(`UPDATE bodies SET content = $1 WHERE content = $2 AND part = $3`, to[:], from[:], int64(part))
	return n > 0, err
}

// Extents implements metastore.Blobs.
func (s *Metastore) Extents(ctx context.Context, content metastore.ContentID, from metastore.Position, limit int) ([]metastore.Extent, error) {
	var list []metastore.Extent
	err := s.in.Read(ctx, func(t tx) error {
		list = nil
		var e metastore.Extent
		var part engine.Integer
		var sum engine.StoredSum
		// The size of extents is bounded, so that the index finds the one with the position.
		// SQLite would plan a query with a bare parameter as its limit again each time.
		return t.Each(`SELECT e.part, e.off, e.size, e.blocks, e.object, b.body, e.row_sum
			FROM extents e LEFT JOIN bodies b
				ON e.object IS NULL AND b.content = e.content AND b.part = e.part AND b.off = e.off
			WHERE e.content = $1 AND (e.part, e.off) > ($2, $3) AND (e.part > $2 OR e.off + e.size > $4)
			ORDER BY e.part, e.off LIMIT ($5 + 0)`,
			engine.Args{content[:], int64(from.Part), from.Offset - metastore.MaxExtentSize, from.Offset, int64(limit)},
			engine.Args{&part, (*engine.Integer)(&e.Offset), (*engine.Integer)(&e.Size), (*engine.Blocks)(&e.Blocks), (*engine.OptionalText)(&e.Object), (*engine.Body)(&e.Body), &sum},
			func() error {
				e.Part = int(part)
				list = append(list, e)
				return checkExtentRow(&content, &e, sum)
			})
	})
	return list, err
}
