package meta

import (
	"context"
	"math"

	"sluice/database"
	"sluice/database/sqlstore/internal/engine"
)

// CountExtents counts the extents and their bytes.
func CountExtents(ctx context.Context, db *engine.DB, c *database.Census) error {
	content, part, off := []byte{}, int64(math.MinInt64), int64(0)
	return db.Pages(ctx, func(t *engine.Tx, limit int64) (rows int64, err error) {
		nextContent, nextPart, nextOff := content, engine.Integer(part), engine.Integer(off)
		inline, objects := c.Inline, c.Objects
		var size, stored engine.Integer
		err = t.Each(`SELECT content, part, off, size, CASE WHEN object IS NULL THEN 0 ELSE 1 END FROM extents
			WHERE (content, part, off) > ($1, $2, $3) ORDER BY content, part, off LIMIT ($4 + 0)`,
			engine.Args{content, part, off, limit}, engine.Args{&nextContent, &nextPart, &nextOff, &size, &stored}, func() error {
				rows++
				of := &inline
				if stored == 1 {
					of = &objects
				}
				of.Extents++
				of.Bytes += int64(size)
				return nil
			})
		if err == nil {
			content, part, off = nextContent, int64(nextPart), int64(nextOff)
			c.Inline, c.Objects = inline, objects
		}
		return rows, err
	})
}

// CountUploads reads the index of open uploads.
func CountUploads(ctx context.Context, db *engine.DB, c *database.Census) error {
	return db.Read(ctx, func(t *engine.Tx) error {
		_, err := t.Row(`SELECT COUNT(*) FROM uploads WHERE state = 0`, nil, (*engine.Integer)(&c.Uploads))
		return err
	})
}
