package client

import (
	"context"
	"fmt"
	"io"
	"os"
)

// PutFile stores a file. It returns ErrChanged if the file changes meanwhile.
func (c *Client) PutFile(ctx context.Context, account, name, path string, o PutOptions) (Blob, error) {
	if err := o.check(); err != nil {
		return Blob{}, err
	}
	f, err := os.Open(path)
	if err != nil {
		return Blob{}, fmt.Errorf("client: put a file: %w", err)
	}
	defer func() { _ = f.Close() }() // it was only read
	before, err := f.Stat()
	if err != nil {
		return Blob{}, fmt.Errorf("client: put a file: %w", err)
	}
	if !before.Mode().IsRegular() {
		return c.putStream(ctx, account, name, f, &o)
	}
	return c.putSection(ctx, account, name, io.NewSectionReader(f, 0, before.Size()), &o)
}
