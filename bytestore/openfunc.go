package bytestore

import (
	"context"
	"io"
)

// OpenFunc opens an object for reading as Store.Open does.
type OpenFunc func(ctx context.Context, name Name, off, n int64) (io.ReadCloser, error)
