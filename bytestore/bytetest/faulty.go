package bytetest

import (
	"context"
	"io"

	"sluice/bytestore"
	"sluice/test/fault"
)

// Faulty is a store with a fault. Its calls of Put, Delete and Open are steps with these names in
// lower case.
type Faulty struct {
	bytestore.Store
	*fault.Point[string]
}

// Put stores an object.
func (b Faulty) Put(ctx context.Context, name bytestore.Name, src io.Reader, size int64) error {
	return b.Do("put", func() error { return b.Store.Put(ctx, name, src, size) })
}

// Delete deletes objects.
func (b Faulty) Delete(ctx context.Context, names ...bytestore.Name) error {
	return b.Do("delete", func() error { return b.Store.Delete(ctx, names...) })
}

// Open opens an object.
func (b Faulty) Open(ctx context.Context, name bytestore.Name, off, n int64) (r io.ReadCloser, err error) {
	return r, b.Do("open", func() error { r, err = b.Store.Open(ctx, name, off, n); return err })
}
