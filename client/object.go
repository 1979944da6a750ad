package client

import (
	"context"
	"errors"
	"io"
)

// Object is one version of a blob, which is read or copied. It implements io.Reader. It must be
// closed.
type Object struct {
	cancel context.CancelFunc
	source source
	blob   Blob
	reader *Reader // of Read; it has no connection before the first Read
}

// OpenBlob returns access to the bytes of a blob with known properties, as from Head or List. It
// sends no request. The context limits all use of the Object. If the blob is replaced later, reads
// return ErrChanged.
func (c *Client) OpenBlob(ctx context.Context, account string, b Blob, o GetOptions) (*Object, error) {
	s, err := c.source(account, b.Name, o)
	if err != nil {
		return nil, err
	}
	s.etag = b.ETag
	ctx, cancel := context.WithCancel(ctx)
	r := &Reader{ctx: ctx, source: s, blob: b, end: b.Size}
	r.startSums()
	return &Object{cancel: cancel, source: *s, blob: b, reader: r}, nil
}

// Size returns the blob's number of bytes.
func (o *Object) Size() int64 { return o.blob.Size }

// readFull reads len(p) bytes from offset on, in one request unless the connection is lost. It
// returns how many it has read.
func (o *Object) readFull(ctx context.Context, p []byte, offset int64) (int, error) {
	source := o.source // concurrent calls share no state
	source.options.SkipVerify = true
	r, err := source.reader(ctx, offset, offset+int64(len(p)))
	if err != nil {
		return 0, err
	}
	n, err := io.ReadFull(r, p)
	return n, errors.Join(err, r.Close())
}

// Read implements io.Reader. A read in order to the end is verified as by a Reader.
func (o *Object) Read(p []byte) (int, error) { return o.reader.Read(p) }

// Close ends all reads. It returns nil.
func (o *Object) Close() error {
	o.cancel()
	return o.reader.Close()
}
