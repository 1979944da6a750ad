package backup

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"

	"sluice/blob"
	"sluice/bytestore"
	"sluice/metastore"
)

// ObjectsTable lists the instance's objects to which the other tables refer: object, size, blocks.
const ObjectsTable = "objects"

// Object is an object that a backup needs, and the CRC-32C of each of its blocks.
type Object struct {
	Name   bytestore.Name
	Size   int64
	Blocks []uint32
}

// Check returns a reader that compares the object's bytes with its checksums; see blob.CheckObject.
func (o Object) Check(src io.Reader) io.Reader {
	return blob.CheckObject(src, metastore.Extent{Size: o.Size, Blocks: o.Blocks})
}

// CheckAll reads an object's bytes, and returns an error unless they are as many as it has and
// match its checksums.
func CheckAll(o Object, src io.Reader) error {
	_, err := io.Copy(io.Discard, o.Check(src))
	return err
}

// Objects returns the objects that a backup needs, ordered by name. An error ends the sequence.
func (r *Repository) Objects(ctx context.Context, m *Manifest) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		err := r.Rows(ctx, m.Table(ObjectsTable), func(rows [][]any) error {
			for _, row := range rows {
				o, err := ObjectOf(row)
				if err != nil {
					return err
				}
				if !yield(o, nil) {
					return errEnd
				}
			}
			return nil
		})
		if err != nil && !errors.Is(err, errEnd) {
			yield(Object{}, err)
		}
	}
}

// ObjectOf returns the object of a row: its name, size and blocks.
func ObjectOf(row []any) (Object, error) {
	name, ok1 := row[0].([]byte)
	size, ok2 := row[1].(int64)
	blocks, ok3 := row[2].([]byte)
	if !ok1 || !ok2 || !ok3 || len(blocks)%4 != 0 {
		return Object{}, fmt.Errorf("%w: a row of the table %s", ErrDamaged, ObjectsTable)
	}
	o := Object{Name: bytestore.Name(name), Size: size}
	for ; len(blocks) > 0; blocks = blocks[4:] {
		o.Blocks = append(o.Blocks, binary.BigEndian.Uint32(blocks))
	}
	return o, nil
}

// Merge calls fn with all objects, which are ordered by name, and with the size that it has
// in a store, or -1 if it is not there.
func Merge(ctx context.Context, objects iter.Seq2[Object, error], store bytestore.Store, fn func(o Object, size int64) error) error {
	next, stop := iter.Pull2(objects)
	defer stop()
	want, err, ok := next()
	step := func(size int64) error {
		if err != nil {
			return err
		}
		if err := fn(want, size); err != nil {
			return err
		}
		want, err, ok = next()
		return nil
	}
	listed := store.List(ctx, "", func(o bytestore.Object) error {
		for ok && want.Name < o.Name {
			if err := step(-1); err != nil {
				return err
			}
		}
		switch {
		case !ok:
			return errEnd
		case want.Name == o.Name:
			return step(o.Size)
		}
		return nil
	})
	if listed != nil && !errors.Is(listed, errEnd) {
		return listed
	}
	for ok {
		if err := step(-1); err != nil {
			return err
		}
	}
	return nil
}

// Body is an inline body and the key of its extent: content, part and off.
type Body struct {
	Key  []any
	Body []byte
}

// Bodies calls fn with all inline bodies, in pages of about a pack, ordered by key. It
// returns ErrDamaged for a pack that is missing or does not match its checksum.
func (r *Repository) Bodies(ctx context.Context, m *Manifest, fn func([]Body) error) error {
	packs := r.packsOf(m)
	return r.Rows(ctx, m.Table(BodiesTable), func(rows [][]any) error {
		var page []Body
		for _, row := range rows {
			at, err := placeOf(row)
			if err != nil {
				return err
			}
			if at.pack != packs.sum && len(page) > 0 {
				if err := fn(page); err != nil {
					return err
				}
				page = nil
			}
			body, err := packs.body(ctx, at)
			if err != nil {
				return err
			}
			page = append(page, Body{row[:3], body})
		}
		if len(page) == 0 {
			return nil
		}
		return fn(page)
	})
}

// place is where an inline body is.
type place struct {
	pack     string // SHA-256
	at, size int64
}

// placeOf returns the place that a row of inline bodies names.
func placeOf(row []any) (place, error) {
	sum, ok1 := row[3].([]byte)
	at, ok2 := row[4].(int64)
	size, ok3 := row[5].(int64)
	if !ok1 || !ok2 || !ok3 {
		return place{}, fmt.Errorf("%w: a row of the table %s", ErrDamaged, BodiesTable)
	}
	return place{hex.EncodeToString(sum), at, size}, nil
}

// packs reads inline bodies from a backup's packs. It keeps the pack that it has read last.
type packs struct {
	repo  *Repository
	sizes map[string]int64
	sum   string // the pack in memory; empty: none
	bytes []byte
}

func (r *Repository) packsOf(m *Manifest) *packs {
	p := &packs{repo: r, sizes: map[string]int64{}}
	for _, one := range m.Packs {
		p.sizes[one.SHA256] = one.Size
	}
	return p
}

// body returns a body, which stays valid when others are read.
func (p *packs) body(ctx context.Context, at place) ([]byte, error) {
	if at.pack != p.sum {
		p.sum = ""
		content, err := p.repo.pack(ctx, Pack{at.pack, p.sizes[at.pack]})
		if err != nil {
			return nil, err
		}
		p.sum, p.bytes = at.pack, content
	}
	if at.at < 0 || at.size < 0 || at.at > int64(len(p.bytes))-at.size {
		return nil, fmt.Errorf("%w: a body is outside of its pack %s", ErrDamaged, at.pack)
	}
	return p.bytes[at.at : at.at+at.size], nil
}

// pack returns the verified bytes of a pack.
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
