package backup

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// InlineTable lists the instance's inline extents: content, part, off, size, blocks.
const InlineTable = "inline"

// BodiesTable has each inline body's place: an extent's content, part and off, a pack's SHA-256,
// the body's first byte and length in that pack, and the CRC-32C of each of its blocks.
const BodiesTable = "bodies"

var bodiesColumns = []string{"content", "part", "off", "pack", "at", "size", "blocks"}

// bodyKey is how many columns are an extent's key in both tables.
const bodyKey = 3

// CompareKeys compares the keys of two rows of inline extents or bodies, with which they begin.
func CompareKeys(a, b []any) int {
	return cmp.Or(bytes.Compare(bytesIn(a, 0), bytesIn(b, 0)), cmp.Compare(numberIn(a, 1), numberIn(b, 1)), cmp.Compare(numberIn(a, 2), numberIn(b, 2)))
}

func bytesIn(row []any, i int) []byte { b, _ := row[i].([]byte); return b }

func numberIn(row []any, i int) int64 { n, _ := row[i].(int64); return n }

// place is where a body is.
type place struct {
	pack     string // the pack's SHA-256, in hexadecimal digits
	at, size int64
}

// placeOf returns where a row's body is.
func placeOf(row []any) (p place, err error) {
	sum, ok1 := row[3].([]byte)
	at, ok2 := row[4].(int64)
	size, ok3 := row[5].(int64)
	if !ok1 || !ok2 || !ok3 {
		return p, fmt.Errorf("%w: a row of the table %s", ErrDamaged, BodiesTable)
	}
	return place{hex.EncodeToString(sum), at, size}, nil
}

// packSizes returns a backup's packs with their sizes, by checksum.
func (m *Manifest) packSizes() map[string]int64 {
	sizes := make(map[string]int64, len(m.Packs))
	for _, p := range m.Packs {
		sizes[p.SHA256] = p.Size
	}
	return sizes
}

// within returns ErrDamaged if the place is outside of packs with these sizes.
func (p place) within(sizes map[string]int64) error {
	if size, ok := sizes[p.pack]; !ok || p.at < 0 || p.size < 0 || p.at > size-p.size {
		return fmt.Errorf("%w: a body is outside of its pack %s", ErrDamaged, p.pack)
	}
	return nil
}

// Body is an inline body and the key of its extent: content, part and off.
type Body struct {
	Key  []any
	Body []byte
}

// bodiesPage is about how many bytes of bodies Bodies passes at a time.
const bodiesPage = 1 << 20

// Bodies calls fn with all inline bodies, in pages of about a megabyte, ordered by key. It returns
// ErrDamaged for a pack that is missing or does not match its checksum.
func (r *Repository) Bodies(ctx context.Context, m *Manifest, fn func([]Body) error) error {
	packs := r.packsOf(m)
	return r.Rows(ctx, m.Table(BodiesTable), func(rows [][]any) error {
		var page []Body
		size := 0
		for i, row := range rows {
			at, err := placeOf(row)
			if err != nil {
				return err
			}
			body, err := packs.body(ctx, at)
			if err != nil {
				return err
			}
			page = append(page, Body{row[:bodyKey], body})
			if size += len(body); size < bodiesPage && i < len(rows)-1 {
				continue
			}
			if err := fn(page); err != nil {
				return err
			}
			page, size = nil, 0
		}
		return nil
	})
}

// packsBytes bounds the packs in memory. Bodies that follow each other are in one pack when
// they are stored, and later in as many as there were backups that have packed some of them again.
const packsBytes = 64 << 20

// packs reads inline bodies from a backup's packs. It keeps in memory those that were used last.
type packs struct {
	repo  *Repository
	sizes map[string]int64
	kept  map[string]*keptPack
	bytes int64
	uses  int64
}

func (r *Repository) packsOf(m *Manifest) *packs {
	return &packs{repo: r, sizes: m.packSizes(), kept: map[string]*keptPack{}}
}

type keptPack struct {
	content []byte
	used    int64 // the count of uses when it was used last
}

// body returns a body, which stays valid when more bodies are read.
func (c *packs) body(ctx context.Context, at place) ([]byte, error) {
	if err := at.within(c.sizes); err != nil {
		return nil, err
	}
	p := c.kept[at.pack]
	if p == nil {
		content, err := c.repo.pack(ctx, Pack{at.pack, c.sizes[at.pack]})
		if err != nil {
			return nil, err
		}
		p = &keptPack{content: content}
		c.kept[at.pack] = p
		c.bytes += int64(len(content))
		c.evict(at.pack)
	}
	c.uses++
	p.used = c.uses
	return bytes.Clone(p.content[at.at : at.at+at.size]), nil
}

// evict removes packs until the rest are at most packsBytes together, and never the newest one.
func (c *packs) evict(newest string) {
	for c.bytes > packsBytes && len(c.kept) > 1 {
		oldest := ""
		for sum, p := range c.kept {
			if sum != newest && (oldest == "" || p.used < c.kept[oldest].used) {
				oldest = sum
			}
		}
		c.bytes -= int64(len(c.kept[oldest].content))
		delete(c.kept, oldest)
	}
}

// pack returns a pack's verified bytes.
func (r *Repository) pack(ctx context.Context, p Pack) ([]byte, error) {
	if len(p.SHA256) != 2*sha256.Size || p.Size < 0 || p.Size > chunkMost+maxRow {
		return nil, fmt.Errorf("%w: a manifest has a pack of %d bytes with the checksum %q", ErrDamaged, p.Size, p.SHA256)
	}
	content, err := r.read(ctx, p.Object(), p.Size)
	if err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(content); hex.EncodeToString(sum[:]) != p.SHA256 {
		return nil, fmt.Errorf("%w: %s does not match its checksum", ErrDamaged, p.Object())
	}
	return content, nil
}
