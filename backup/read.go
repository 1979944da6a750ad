package backup

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"

	"sluice/bytestore"
	"sluice/integrity"
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

// Check returns a reader that compares the object's bytes with its checksums; see
// integrity.CheckObject.
func (o Object) Check(src io.Reader) io.Reader {
	return integrity.CheckObject(src, metastore.Extent{Size: o.Size, Blocks: o.Blocks})
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

// ObjectOf returns a row's object: its name, size and blocks.
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
