package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"sluice/bytestore"
	"sluice/integrity"
)

// Verified is Verify's result.
type Verified struct {
	Objects, Bytes int64 // that the backup needs
	Read           int64 // bytes that were read and compared with their checksums
	Damaged        int64
	Lacking        int64 // objects that the instance lacked when the backup was made
}

// VerifyOptions are Verify's options.
type VerifyOptions struct {
	Bytes    bool                                     // read all objects
	Limit    func(ctx context.Context, n int64) error // called before n bytes are read; may be nil
	Damaged  func(name bytestore.Name, err error)     // called for each object that is damaged or missing; may be nil
	Progress func(bytes int64)                        // called when so many more bytes have been looked at; may be nil
}

// Verify reads all chunks and packs of a backup and compares them with their checksums, and checks
// that each object exists with its size, or with opt.Bytes compares its blocks with their
// checksums. It returns ErrDamaged if anything is damaged or missing, after it has looked at
// everything else.
func (r *Repository) Verify(ctx context.Context, m *Manifest, opt VerifyOptions) (found Verified, err error) {
	if opt.Damaged == nil {
		opt.Damaged = func(bytestore.Name, error) {}
	}
	if opt.Progress == nil {
		opt.Progress = func(int64) {}
	}
	v := verifier{r, opt, m.packSizes(), &found}
	for i := range m.Tables {
		for _, c := range m.Tables[i].Chunks {
			if err := v.chunk(ctx, &m.Tables[i], c); err != nil && v.damage(c.Object(), err) != nil {
				return found, err
			}
			found.Read += c.Size
		}
	}
	for _, p := range m.Packs {
		if _, err := r.pack(ctx, p); err != nil && v.damage(p.Object(), err) != nil {
			return found, err
		}
		found.Read += p.Size
	}
	if err := v.objects(ctx, m); err != nil {
		return found, err
	}
	if found.Damaged > 0 {
		return found, fmt.Errorf("%w: %d objects of the backup %s", ErrDamaged, found.Damaged, m.ID())
	}
	return found, nil
}

type verifier struct {
	repo  *Repository
	opt   VerifyOptions
	packs map[string]int64 // sizes
	found *Verified
}

// chunk reads a chunk. One of bodies must name places in the packs that the manifest lists.
func (v *verifier) chunk(ctx context.Context, t *Table, c Chunk) error {
	if t.Name != BodiesTable {
		_, err := v.repo.lines(ctx, c)
		return err
	}
	part := *t
	part.Chunks = []Chunk{c}
	return v.repo.Rows(ctx, &part, func(rows [][]any) error {
		for _, row := range rows {
			at, err := placeOf(row)
			if err == nil {
				err = at.within(v.packs)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// damage reports damage. It returns err if that is another error.
func (v *verifier) damage(name bytestore.Name, err error) error {
	if !errors.Is(err, ErrDamaged) && !errors.Is(err, integrity.ErrCorrupt) {
		return err
	}
	v.found.Damaged++
	v.opt.Damaged(name, err)
	return nil
}

// objects checks the objects that the backup needs.
func (v *verifier) objects(ctx context.Context, m *Manifest) error {
	err := Merge(ctx, v.repo.Objects(ctx, m), v.repo.Bytes, func(o Object, size int64) (err error) {
		switch {
		case slices.Contains(m.Damaged, string(o.Name)):
			v.found.Lacking++
		case v.opt.Bytes:
			err = v.read(ctx, o)
		case size != o.Size:
			err = v.lookAgain(ctx, o)
		}
		v.found.Objects++
		v.found.Bytes += o.Size
		v.opt.Progress(o.Size)
		return err
	})
	if errors.Is(err, ErrDamaged) {
		return nil // the chunk with the list, which was counted
	}
	return err
}

// lookAgain looks for an object that a listing did not have, or had with another size.
func (v *verifier) lookAgain(ctx context.Context, o Object) error {
	from, err := v.repo.Bytes.Open(ctx, o.Name, 0, o.Size)
	if err != nil {
		return v.damage(o.Name, gone(err))
	}
	return from.Close()
}

// read compares an object with its checksums.
func (v *verifier) read(ctx context.Context, o Object) (err error) {
	if v.opt.Limit != nil {
		if err := v.opt.Limit(ctx, o.Size); err != nil {
			return err
		}
	}
	from, err := v.repo.Bytes.Open(ctx, o.Name, 0, o.Size)
	if err != nil {
		return v.damage(o.Name, gone(err))
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	_, err = io.Copy(io.Discard, o.Check(from))
	v.found.Read += o.Size
	if err != nil {
		return v.damage(o.Name, gone(err))
	}
	return nil
}

// gone returns ErrDamaged for a store's error if it reports that an object is missing or cut.
func gone(err error) error {
	if errors.Is(err, bytestore.ErrNotFound) || errors.Is(err, bytestore.ErrTruncated) {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return err
}
