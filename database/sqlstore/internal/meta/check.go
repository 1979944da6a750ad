package meta

import (
	"bytes"
	"context"

	"sluice/database/sqlstore/internal/engine"
	"sluice/metastore"
)

// InlineExtent is an inline extent with its body.
type InlineExtent struct {
	metastore.Extent

	Content metastore.ContentID
}

const inlineBodies = `SELECT e.content, e.part, e.off, e.size, e.blocks, ` + bodyOf + `
	FROM extents e WHERE e.object IS NULL AND (e.content, e.part, e.off) > ($1, $2, $3) AND ` + notGarbage + `
	ORDER BY e.content, e.part, e.off LIMIT ($4 + 0)`

// InlineBodies returns up to limit inline extents that are no garbage, ordered by content and
// position, beginning after an extent (nil: at the first). One that has no body has a nil Body.
func (s *Metastore) InlineBodies(ctx context.Context, after *InlineExtent, limit int) ([]InlineExtent, error) {
	from := InlineExtent{Extent: metastore.Extent{Part: -1}}
	if after != nil {
		from = *after
	}
	var list []InlineExtent
	// Where few extents are inline, a page may be all that there are.
	err := s.db.Survey(ctx, s.in.On(func(t tx) error {
		list = nil
		var e InlineExtent
		var part engine.Integer
		return t.Each(inlineBodies, engine.Args{from.Content[:], int64(from.Part), from.Offset, int64(limit)},
			engine.Args{(*engine.ContentID)(&e.Content), &part, (*engine.Integer)(&e.Offset), (*engine.Integer)(&e.Size), (*engine.Blocks)(&e.Blocks), (*engine.Body)(&e.Body)},
			func() error {
				e.Part = int(part)
				list = append(list, e)
				return nil
			})
	}))
	return list, err
}

// checkedRows is how many rows a check reads at a time.
const checkedRows = 1000

// CheckRows compares the rows of blobs, changes, and extents that are no garbage with their
// checksums, a page at a time, and calls each for every row: known reports whether it has a
// checksum, and damage describes its damage, or is "". Each row is read with its checksum in one
// statement. An error of each ends it.
func (s *Metastore) CheckRows(ctx context.Context, each func(content metastore.ContentID, known bool, damage string) error) error {
	if err := s.checkBlobRows(ctx, each); err != nil {
		return err
	}
	if err := s.checkExtentRows(ctx, each); err != nil {
		return err
	}
	return s.checkChangeRows(ctx, each)
}

// rowResult has CheckRows's arguments for each, when the page has been read.
type rowResult struct {
	content metastore.ContentID
	known   bool
	damage  string
}

func (s *Metastore) checkBlobRows(ctx context.Context, each func(metastore.ContentID, bool, string) error) error {
	var account, head, hash []byte
	for first := true; ; first = false {
		var page []rowResult
		condition, in := ``, engine.Args{int64(checkedRows)}
		if !first {
			condition, in = `WHERE (account, name_head, name_hash) > ($2, $3, $4)`, append(in, account, head, hash)
		}
		err := s.in.Read(ctx, func(t tx) error {
			page = nil
			var a, h, x, tail []byte
			var b metastore.Blob
			var sum engine.StoredSum
			return t.Each(`SELECT account, name_head, name_hash, name_tail, content, size, crc64, part_size, version, row_sum FROM blobs `+condition+`
				ORDER BY account, name_head, name_hash LIMIT ($1 + 0)`, in,
				engine.Args{&a, &h, &x, &tail, (*engine.ContentID)(&b.Content), (*engine.Integer)(&b.Size), (*engine.CRC)(&b.CRC64), (*engine.Integer)(&b.PartSize), (*versionColumn)(&b), &sum},
				func() error {
					b.Account, b.Name = string(a), string(h)+string(tail)
					account, head, hash = a, h, x
					err := checkBlob(&b, sum)
					if err == nil && !bytes.Equal(splitName(b.Name).hash, x) {
						err = engine.DamagedRow("the name of blob %q", b.Path())
					}
					page = append(page, result(b.Content, sum, err))
					return nil
				})
		})
		if err := eachResult(page, err, each); err != nil || len(page) < checkedRows {
			return err
		}
	}
}

func (s *Metastore) checkExtentRows(ctx context.Context, each func(metastore.ContentID, bool, string) error) error {
	var last metastore.Extent
	var content metastore.ContentID
	last.Part = -1
	for {
		var page []rowResult
		err := s.in.Read(ctx, func(t tx) error {
			page = nil
			var e metastore.Extent
			var c metastore.ContentID
			var part engine.Integer
			var sum engine.StoredSum
			return t.Each(`SELECT content, part, off, size, blocks, object, row_sum FROM extents e WHERE (content, part, off) > ($1, $2, $3) AND `+notGarbage+`
				ORDER BY content, part, off LIMIT ($4 + 0)`, engine.Args{content[:], int64(last.Part), last.Offset, int64(checkedRows)},
				engine.Args{(*engine.ContentID)(&c), &part, (*engine.Integer)(&e.Offset), (*engine.Integer)(&e.Size), (*engine.Blocks)(&e.Blocks), (*engine.OptionalText)(&e.Object), &sum},
				func() error {
					e.Part = int(part)
					page = append(page, result(c, sum, checkExtentRow(&c, &e, sum)))
					content, last.Part, last.Offset = c, e.Part, e.Offset
					return nil
				})
		})
		if err := eachResult(page, err, each); err != nil || len(page) < checkedRows {
			return err
		}
	}
}

func (s *Metastore) checkChangeRows(ctx context.Context, each func(metastore.ContentID, bool, string) error) error {
	for at, last := int64(0), int64(0); ; at = last {
		var page []rowResult
		err := s.in.Read(ctx, func(t tx) error {
			page = nil
			return t.changeRows(`last > $1`, engine.Args{at}, checkedRows, func(row *engine.ChangeRow, damaged bool) bool {
				one := rowResult{known: true}
				if damaged {
					one.damage = engine.DamagedRow("the row of changes up to %d", row.Last).Error()
				}
				page, last = append(page, one), row.Last
				return true
			})
		})
		if err := eachResult(page, err, each); err != nil || len(page) == 0 {
			return err
		}
	}
}

func result(content metastore.ContentID, sum engine.StoredSum, damage error) rowResult {
	r := rowResult{content: content, known: sum.Known()}
	if damage != nil {
		r.damage = damage.Error()
	}
	return r
}

// eachResult calls each for a page's results, unless reading them has failed.
func eachResult(page []rowResult, err error, each func(metastore.ContentID, bool, string) error) error {
	for i := 0; i < len(page) && err == nil; i++ {
		err = each(page[i].content, page[i].known, page[i].damage)
	}
	return err
}
