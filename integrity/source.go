package integrity

import (
	"context"
	"io"

	"sluice/bytestore"
	"sluice/metastore"
)

// HealSource is a second store of an instance's bytes. The bytes that it returns may be damaged.
type HealSource interface {
	// Require returns an error unless the source has something of this instance: ErrForeignStore if
	// it has only other instances' bytes.
	Require(ctx context.Context, instance string) error

	// Open opens an object as bytestore.Reader does.
	Open(ctx context.Context, name bytestore.Name, off, n int64) (io.ReadCloser, error)

	// Bodies looks for inline bodies. An error does not mean that the source lacks those that were
	// not found.
	Bodies(ctx context.Context, search BodySearch) error
}

// BodySearch names the inline bodies that are looked for. An error of its functions ends the
// search.
type BodySearch struct {
	Instance string
	Extents  []metastore.ExtentID
	Step     func() error                                   // is called before each read
	Found    func(id metastore.ExtentID, body []byte) error // is called once for each that is found
}
