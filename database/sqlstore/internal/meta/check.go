package meta

import (
	"context"

	"sluice/database/sqlstore/internal/engine"
	"sluice/metastore"
)

// InlineExtent is an inline extent with its body.
type InlineExtent struct {
	metastore.Extent

	Content metastore.ContentID
}

// InlineBodies returns up to limit inline extents that are no garbage, ordered by content and
// position, beginning after an extent (nil: at the first). One that has no body has a nil Body.
func (s *Metastore) InlineBodies(ctx context.Context, after *InlineExtent, limit int) ([]InlineExtent, error) {
	from := InlineExtent{Extent: metastore.Extent{Part: -1}}
	if after != nil {
		from = *after
	}
	var list []InlineExtent
	err := s.read(ctx, func(t tx) error {
		list = nil
		var e InlineExtent
		var part engine.Integer
		return t.Each(`SELECT e.content, e.part, e.off, e.size, e.blocks, b.body
			FROM extents e LEFT JOIN bodies b ON b.content = e.content AND b.part = e.part AND b.off = e.off
			WHERE e.object IS NULL AND (e.content, e.part, e.off) > ($1, $2, $3) AND `+notGarbage+`
			ORDER BY e.content, e.part, e.off LIMIT ($4 + 0)`,
			engine.Args{from.Content[:], int64(from.Part), from.Offset, int64(limit)},
			engine.Args{(*engine.ContentID)(&e.Content), &part, (*engine.Integer)(&e.Offset), (*engine.Integer)(&e.Size), (*engine.Blocks)(&e.Blocks), &e.Body},
			func() error {
				e.Part = int(part)
				list = append(list, e)
				return nil
			})
	})
	return list, err
}
