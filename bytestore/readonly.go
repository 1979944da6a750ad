package bytestore

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// ErrReadOnly is returned by a ReadOnly's Put and Delete.
var ErrReadOnly = errors.New("bytestore: opened for reading only")

// Reader reads a Store, and changes nothing. Its methods are as in Store.
type Reader interface {
	Open(ctx context.Context, name Name, off, n int64) (io.ReadCloser, error)
	List(ctx context.Context, after Name, fn func(Object) error) error
}

// ReadOnly is a Store that has a Reader's objects, and neither stores nor deletes any.
type ReadOnly struct{ Reader }

var _ Store = ReadOnly{}

// Put implements Store. It returns ErrReadOnly and does not read the source.
func (ReadOnly) Put(_ context.Context, name Name, _ io.Reader, _ int64) error {
	return fmt.Errorf("put %q: %w", name, ErrReadOnly)
}

// Delete implements Store. Every object remains, with ErrReadOnly.
func (ReadOnly) Delete(_ context.Context, names ...Name) error {
	return UndeletedOf(names, ErrReadOnly).OrNil()
}
