package meta

import (
	"context"
	"fmt"

	"sluice/database"
	"sluice/database/sqlstore/internal/engine"
	"sluice/metastore"
)

// inGarbage is the condition that the content of an extent e is garbage, or staged.
const inGarbage = `EXISTS (SELECT 1 FROM garbage g WHERE g.content = e.content)`

// bodyOf is the body of an extent e in a list of many extents. For a join, PostgreSQL, which does
// not know the limit, would read all bodies before the page.
const bodyOf = `(SELECT b.body FROM bodies b WHERE b.content = e.content AND b.part = e.part AND b.off = e.off)`

// Objects implements metastore.Scrubs.
func (s *Metastore) Objects(ctx context.Context, after string, limit int) ([]metastore.StoredExtent, error) {
	var list []metastore.StoredExtent
	err := s.in.Snapshot(ctx, func(t tx) error {
		list = nil
		var e metastore.StoredExtent
		var part engine.Integer
		return t.Each(`SELECT e.content, e.part, e.off, e.object, e.size, e.blocks, CASE WHEN `+inGarbage+` THEN 1 ELSE 0 END
			FROM extents e WHERE e.object > $1 ORDER BY e.object LIMIT ($2 + 0)`,
			engine.Args{[]byte(after), int64(limit)},
			engine.Args{(*engine.ContentID)(&e.Content), &part, (*engine.Integer)(&e.Offset), &e.Object, (*engine.Integer)(&e.Size),
				(*engine.Blocks)(&e.Blocks), (*engine.Boolean)(&e.Garbage)},
			func() error {
				e.Part = int(part)
				list = append(list, e)
				return nil
			})
	})
	return list, err
}

const storedExtents = `SELECT e.content, e.part, e.off, e.object, e.size, e.blocks,
		CASE WHEN e.object IS NULL THEN ` + bodyOf + ` END, CASE WHEN ` + inGarbage + ` THEN 1 ELSE 0 END
	FROM extents e WHERE (e.content, e.part, e.off) > ($1, $2, $3) ORDER BY e.content, e.part, e.off LIMIT ($4 + 0)`

// StoredExtents implements metastore.Scrubs.
func (s *Metastore) StoredExtents(ctx context.Context, after metastore.ExtentID, limit int) ([]metastore.StoredExtent, error) {
	var list []metastore.StoredExtent
	err := s.in.Snapshot(ctx, func(t tx) error {
		list = nil
		var e metastore.StoredExtent
		var part engine.Integer
		return t.Each(storedExtents, engine.Args{after.Content[:], int64(after.Part), after.Offset, int64(limit)},
			engine.Args{(*engine.ContentID)(&e.Content), &part, (*engine.Integer)(&e.Offset), (*engine.OptionalText)(&e.Object),
				(*engine.Integer)(&e.Size), (*engine.Blocks)(&e.Blocks), (*engine.Body)(&e.Body), (*engine.Boolean)(&e.Garbage)},
			func() error {
				e.Part = int(part)
				list = append(list, e)
				return nil
			})
	})
	return list, err
}

// Scrub implements metastore.Scrubs.
func (s *Metastore) Scrub(ctx context.Context) (metastore.Scrub, error) {
	var p metastore.Scrub
	err := s.in.Read(ctx, func(t tx) error {
		var part engine.Integer
		_, err := t.Row(`SELECT revision, round, began, running, object, bodies, content, part, off, extents, bytes, finished FROM scrub`, nil,
			(*engine.Integer)(&p.Revision), (*engine.Integer)(&p.Round), (*engine.Instant)(&p.Began), (*engine.Boolean)(&p.Running), &p.Object, (*engine.Boolean)(&p.Bodies),
			(*engine.ContentID)(&p.Inline.Content), &part, (*engine.Integer)(&p.Inline.Offset),
			(*engine.Integer)(&p.Extents), (*engine.Integer)(&p.Bytes), (*engine.Instant)(&p.Finished))
		p.Inline.Part = int(part)
		return err
	})
	return p, err
}

// StoredSize implements metastore.Scrubs.
func (s *Metastore) StoredSize(ctx context.Context) (extents, bytes int64, err error) {
	err = s.in.SnapshotList(ctx, func(t tx) error {
		_, err := t.Row(`SELECT COUNT(*), CAST(COALESCE(SUM(size), 0) AS BIGINT) FROM extents`, nil, (*engine.Integer)(&extents), (*engine.Integer)(&bytes))
		return err
	})
	return extents, bytes, err
}

// integerOf returns a flag's column.
func integerOf(flag bool) int64 {
	if flag {
		return 1
	}
	return 0
}

// SaveScrub implements metastore.Scrubs.
func (s *Metastore) SaveScrub(ctx context.Context, p metastore.Scrub) (revision int64, err error) {
	err = s.in.Write(ctx, func(t tx) error {
		t.Free = true // how far a process is belongs to the database, not to the instance
		n, err := t.Exec(`UPDATE scrub SET revision = $1 + 1, round = $2, began = $3, running = $4, object = $5, bodies = $6,
				content = $7, part = $8, off = $9, extents = $10, bytes = $11, finished = $12 WHERE revision = $1`,
			p.Revision, p.Round, engine.Micros(p.Began), integerOf(p.Running), []byte(p.Object), integerOf(p.Bodies),
			p.Inline.Content[:], int64(p.Inline.Part), p.Inline.Offset, p.Extents, p.Bytes, engine.Micros(p.Finished))
		if err == nil && n == 0 {
			err = fmt.Errorf("revision %d of the scrub: %w", p.Revision, database.ErrNotFound)
		}
		return err
	})
	return p.Revision + 1, err
}
