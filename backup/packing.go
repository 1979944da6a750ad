package backup

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"iter"
	"slices"
)

// BodyWriter stores a backup's inline bodies. A body that an earlier pack has stays there, unless
// less than half of that pack is needed: then its needed bodies go into new packs, with new bodies.
// It needs some memory for each of these packs, and a few megabytes.
type BodyWriter struct {
	w        *Writer
	previous *Manifest        // nil if there is none
	sizes    map[string]int64 // of its packs
	kept     map[string]bool  // its packs that are used on
	used     map[string]bool  // the packs that the manifest lists

	table  chunker
	cut    cutter
	pack   []byte  // not stored yet
	bodies int     // in this pack
	rows   [][]any // in the order of their keys; those without a pack wait for its checksum
}

// maxWaiting bounds how many rows wait until a pack is full: it then ends although it is small.
const maxWaiting = 1 << 14

// Bodies begins the inline bodies, after all other tables were stored.
func (w *Writer) Bodies(ctx context.Context) (*BodyWriter, error) {
	b := &BodyWriter{w: w, kept: map[string]bool{}, used: map[string]bool{}}
	b.table = newChunker(BodiesTable, bodiesColumns, bodyKey, func(c *Chunk, lines []byte) error {
		content, err := w.lacking(c, lines)
		if err != nil || content == nil {
			return err
		}
		return w.put(ctx, c.Object(), content)
	})
	var err error
	if b.previous, err = w.repo.previous(ctx, w.Manifest.Instance); err != nil || b.previous == nil {
		return b, err
	}
	b.sizes = b.previous.packSizes()
	return b, b.keepPacks(ctx)
}

// previous returns an instance's newest backup that can be read and has its bodies' checksums, or
// nil.
func (r *Repository) previous(ctx context.Context, instance string) (found *Manifest, err error) {
	err = r.newestFirst(ctx, instance, func(m *Manifest) error {
		if t := m.Table(BodiesTable); t == nil || !slices.Equal(t.Columns, bodiesColumns) {
			return nil
		}
		found = m
		return errEnd
	})
	if errors.Is(err, errEnd) || errors.Is(err, ErrDamaged) || errors.Is(err, ErrNotFound) || errors.Is(err, ErrForeign) {
		err = nil // there is one, or none that can be read
	}
	return found, err
}

// keepPacks decides which packs from the previous backup are used on: those that exist, and are
// needed by half at least. A small one counts as if it had the least size, so that not each backup
// leaves a small one.
func (b *BodyWriter) keepPacks(ctx context.Context) error {
	needed := map[string]int64{}
	err := b.match(ctx, func(_, body []any, at place) error {
		if body != nil {
			needed[at.pack] += at.size
		}
		return nil
	})
	for sum, n := range needed {
		p := Pack{sum, b.sizes[sum]}
		size, exists := b.w.have[p.Object()]
		b.kept[sum] = exists && size == p.Size && 2*n >= max(p.Size, chunkLeast)
	}
	return err
}

// match calls fn with each inline extent in the snapshot, and with the row of its body in the
// previous backup and where that is, or with nil if it has none.
func (b *BodyWriter) match(ctx context.Context, fn func(inline, body []any, at place) error) error {
	next, stop := iter.Pull2(b.packed(ctx))
	defer stop()
	body, err, more := next()
	return b.w.repo.Rows(ctx, b.w.Manifest.Table(InlineTable), func(rows [][]any) error {
		for _, row := range rows {
			for more && err == nil && CompareKeys(body, row) < 0 {
				body, err, more = next()
			}
			if err != nil {
				return err
			}
			at, have := place{}, []any(nil)
			if more && isBodyOf(body, row) {
				at, have = b.placed(body)
			}
			if err := fn(row, have, at); err != nil {
				return err
			}
		}
		return ctx.Err()
	})
}

// isBodyOf reports whether a row of bodies belongs to an inline extent. Size and checksums must be
// the same, too: a part that was sent again has the key that it had before.
func isBodyOf(body, inline []any) bool {
	return CompareKeys(body, inline) == 0 && numberIn(body, 5) == numberIn(inline, 3) && bytes.Equal(bytesIn(body, 6), bytesIn(inline, 4))
}

// placed returns where the body is that a row from the previous backup describes, and the row, or
// nil if it cannot be there.
func (b *BodyWriter) placed(body []any) (place, []any) {
	at, err := placeOf(body)
	if err != nil || at.within(b.sizes) != nil {
		return place{}, nil
	}
	return at, body
}

// packed returns the previous backup's rows of bodies, without those in damaged chunks. It forgets
// these chunks: this backup may need the same ones.
func (b *BodyWriter) packed(ctx context.Context) iter.Seq2[[]any, error] {
	return func(yield func([]any, error) bool) {
		if b.previous == nil {
			return
		}
		table := *b.previous.Table(BodiesTable)
		for _, c := range b.previous.Table(BodiesTable).Chunks {
			table.Chunks = []Chunk{c}
			err := b.w.repo.Rows(ctx, &table, func(rows [][]any) error {
				for _, row := range rows {
					if !yield(row, nil) {
						return errEnd
					}
				}
				return nil
			})
			if errors.Is(err, errEnd) {
				return
			}
			if errors.Is(err, ErrDamaged) {
				err = b.w.forget(ctx, c.Object())
			}
			if err != nil {
				yield(nil, err)
				return
			}
		}
	}
}

// Each calls fn with each inline extent in the snapshot, ordered by key, and whether the previous
// backup's packs have its body. For any other, fn must call Add, or the backup lacks it.
func (b *BodyWriter) Each(ctx context.Context, fn func(inline []any, kept bool) error) error {
	return b.match(ctx, func(inline, body []any, at place) error {
		kept := body != nil && b.kept[at.pack]
		if kept {
			b.use(Pack{at.pack, b.sizes[at.pack]})
			if err := b.add(ctx, body); err != nil {
				return err
			}
		}
		return fn(inline, kept)
	})
}

// Add adds an inline extent's body.
func (b *BodyWriter) Add(ctx context.Context, inline []any, body []byte) error {
	key := inline[:bodyKey]
	line, err := appendRow(nil, key)
	if err != nil {
		return err
	}
	row := append(slices.Clone(key), nil, int64(len(b.pack)), int64(len(body)), inline[bodyKey+1])
	b.pack = append(b.pack, body...)
	b.bodies++
	if b.cut.ends(line, len(body)) {
		b.rows = append(b.rows, row)
		return b.endPack(ctx)
	}
	return b.add(ctx, row)
}

// add adds a row to the table, after those before it.
func (b *BodyWriter) add(ctx context.Context, row []any) error {
	if b.bodies == 0 {
		return b.table.add(row)
	}
	if b.rows = append(b.rows, row); len(b.rows) < maxWaiting {
		return nil
	}
	return b.endPack(ctx)
}

// endPack stores the pack, if it has bodies, and adds the rows that waited for it.
func (b *BodyWriter) endPack(ctx context.Context) error {
	if b.bodies == 0 {
		return nil
	}
	sum := sha256.Sum256(b.pack)
	p := Pack{SHA256: hex.EncodeToString(sum[:]), Size: int64(len(b.pack))}
	if err := b.store(ctx, p); err != nil {
		return err
	}
	b.use(p)
	for _, row := range b.rows {
		if row[bodyKey] == nil {
			row[bodyKey] = sum[:]
		}
		if err := b.table.add(row); err != nil {
			return err
		}
	}
	b.cut, b.pack, b.bodies, b.rows = cutter{}, b.pack[:0], 0, b.rows[:0]
	return nil
}

// store stores the pack that has ended, unless the repository has it.
func (b *BodyWriter) store(ctx context.Context, p Pack) error {
	size, exists := b.w.have[p.Object()]
	if exists && size == p.Size {
		return nil
	}
	if exists {
		if err := b.w.forget(ctx, p.Object()); err != nil {
			return err
		}
	}
	return b.w.put(ctx, p.Object(), b.pack)
}

// use lists a pack in the manifest.
func (b *BodyWriter) use(p Pack) {
	if !b.used[p.SHA256] {
		b.used[p.SHA256] = true
		b.w.Manifest.Packs = append(b.w.Manifest.Packs, p)
	}
}

// End ends the inline bodies.
func (b *BodyWriter) End(ctx context.Context) error {
	if err := b.endPack(ctx); err != nil {
		return err
	}
	if err := b.table.end(); err != nil {
		return err
	}
	b.w.Manifest.Tables = append(b.w.Manifest.Tables, *b.table.table)
	return nil
}
