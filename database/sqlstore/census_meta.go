package sqlstore

import (
	"context"
	"math"

	"sluice/database"
)

func (s *Metastore) CountExtents(ctx context.Context, c *database.Census) error {
	content, part, off := []byte{}, int64(math.MinInt64), int64(0)
	return s.db.pages(ctx, func(t *tx, limit int64) (rows int64, err error) {
		nextContent, nextPart, nextOff := content, integer(part), integer(off)
		inline, objects := c.Inline, c.Objects
		var size, stored integer
		err = t.each(`SELECT content, part, off, size, CASE WHEN object IS NULL THEN 0 ELSE 1 END FROM extents
			WHERE (content, part, off) > ($1, $2, $3) ORDER BY content, part, off LIMIT ($4 + 0)`,
			args{content, part, off, limit}, args{&nextContent, &nextPart, &nextOff, &size, &stored}, func() error {
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
func (s *Metastore) CountUploads(ctx context.Context, c *database.Census) error {
	return s.read(ctx, func(t metaTx) error {
		_, err := t.row(`SELECT COUNT(*) FROM uploads WHERE state = 0`, nil, (*integer)(&c.Uploads))
		return err
	})
}
