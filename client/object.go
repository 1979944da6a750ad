package client

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// Object is random access to one version of a blob. It implements io.ReaderAt, with concurrent
// calls, and io.ReadSeeker, without. It must be closed.
type Object struct {
	ctx    context.Context
	cancel context.CancelFunc
	source source
	blob   Blob
	reader *Reader // of Read and Seek; it has no connection before the first Read
}

// Open returns a blob's properties and access to its bytes. It reads none of them. The context
// limits all use of the Object. It returns ErrNotFound if there is no such blob, and ErrGone if it
// has expired. If the blob is replaced later, reads return ErrChanged.
func (c *Client) Open(ctx context.Context, account, name string, o GetOptions) (*Object, error) {
	b, err := c.Head(ctx, account, name)
	if err != nil {
		return nil, err
	}
	if err := o.check(b); err != nil {
		return nil, err
	}
	return c.OpenBlob(ctx, account, b, o)
}

// OpenBlob is Open for a blob with known properties, as from List. It sends no request.
func (c *Client) OpenBlob(ctx context.Context, account string, b Blob, o GetOptions) (*Object, error) {
	s, err := c.source(account, b.Name, o)
	if err != nil {
		return nil, err
	}
	s.etag = b.ETag
	ctx, cancel := context.WithCancel(ctx)
	r := &Reader{ctx: ctx, source: s, blob: b, end: b.Size}
	r.startSums()
	return &Object{ctx: ctx, cancel: cancel, source: *s, blob: b, reader: r}, nil
}

// Blob returns the blob's properties.
func (o *Object) Blob() Blob { return o.blob }

// Size returns the blob's number of bytes.
func (o *Object) Size() int64 { return o.blob.Size }

// ReadAt implements io.ReaderAt. Each call is a request for exactly these bytes. They are not
// verified, as they have no checksum. ReadAt may be called concurrently.
func (o *Object) ReadAt(p []byte, offset int64) (int, error) {
	if offset < 0 {
		return 0, fmt.Errorf("client: %w: a negative offset", ErrInvalid)
	}
	rest := max(0, o.Size()-offset)
	if rest == 0 {
		return 0, io.EOF
	}
	if len(p) == 0 {
		return 0, nil
	}
	source := o.source // concurrent calls share no state
	source.options.SkipVerify = true
	r, err := source.reader(o.ctx, offset, offset+min(rest, int64(len(p))))
	if err != nil {
		return 0, err
	}
	n, err := io.ReadFull(r, p[:min(rest, int64(len(p)))])
	if err = errors.Join(err, r.Close()); err == nil && n < len(p) {
		err = io.EOF
	}
	return n, err
}

// Read implements io.Reader. What is read in order to the end is verified as by a Reader.
func (o *Object) Read(p []byte) (int, error) { return o.reader.Read(p) }

// Seek implements io.Seeker. It sends no request.
func (o *Object) Seek(offset int64, whence int) (int64, error) { return o.reader.Seek(offset, whence) }

// Close ends all reads. It returns nil.
func (o *Object) Close() error {
	o.cancel()
	return o.reader.Close()
}
