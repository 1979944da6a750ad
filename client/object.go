package client

import (
	"context"
	"errors"
	"fmt"
	"io"

	"sluice/wire"
)

// Object is random access to one version of a blob. It implements io.ReaderAt, with concurrent
// calls, and io.ReadSeeker, without. It must be closed.
type Object struct {
	ctx    context.Context
	cancel context.CancelFunc
	source source
	blob   Blob
	reader *Reader // of Read and Seek; it has no connection before the first Read
	ahead  readAhead
}

// Open returns a blob's properties and access to its bytes. It reads none of them. The context
// limits the Object's use. It returns ErrNotFound if there is no such blob, and ErrGone if it
// has expired. If the blob is replaced later, reads return ErrChanged.
func (c *Client) Open(ctx context.Context, account, name string, o GetOptions) (*Object, error) {
	b, err := c.HeadVersion(ctx, account, name, o.Version)
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

// ReadAt implements io.ReaderAt. Each call is a request for exactly these bytes, unless the options
// have a Payment: then it reads whole chunksets and keeps the last four that it needed in part, so
// that each is charged once as long as it is kept. Its bytes are not verified, as a range has no
// checksum. ReadAt may be called concurrently.
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
	wanted := p[:min(rest, int64(len(p)))]
	read := o.readFull
	if o.source.options.Payment != nil {
		read = o.readPaid
	}
	n, err := read(o.ctx, wanted, offset)
	if err == nil && n < len(p) {
		err = io.EOF
	}
	return n, err
}

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

// readPaid reads len(p) bytes from offset on, which the blob has. Chunksets that p has as a whole
// are read into it, in one request if they are neighbours; the rest are read as a whole and kept.
func (o *Object) readPaid(ctx context.Context, p []byte, offset int64) (n int, err error) {
	for n < len(p) {
		if err := context.Cause(ctx); err != nil { // kept bytes must not be returned after Close
			return n, err
		}
		at := offset + int64(n)
		index := at / wire.ChunksetSize
		begin := index * wire.ChunksetSize
		size := min(wire.ChunksetSize, o.Size()-begin)
		if whole := o.wholeChunksets(at, int64(len(p)-n)); whole > 0 {
			read, err := o.readFull(ctx, p[n:][:whole], at)
			if n += read; err != nil {
				return n, err
			}
			continue
		}
		piece := p[n:][:min(int64(len(p)-n), begin+size-at)]
		err := o.ahead.read(ctx, piece, index, at-begin, size, func(buffer []byte) error {
			_, err := o.readFull(ctx, buffer, begin)
			return err
		})
		if err != nil {
			return n, err
		}
		n += len(piece)
	}
	return n, nil
}

// wholeChunksets returns how many bytes from offset on, of at most length, are whole chunksets. The
// blob's last one may be short.
func (o *Object) wholeChunksets(offset, length int64) int64 {
	switch {
	case offset%wire.ChunksetSize != 0:
		return 0
	case offset+length == o.Size():
		return length
	default:
		return length / wire.ChunksetSize * wire.ChunksetSize
	}
}

// Read implements io.Reader. A read in order to the end is verified as by a Reader.
func (o *Object) Read(p []byte) (int, error) { return o.reader.Read(p) }

// Seek implements io.Seeker. It sends no request.
func (o *Object) Seek(offset int64, whence int) (int64, error) { return o.reader.Seek(offset, whence) }

// Close ends all reads. It returns nil.
func (o *Object) Close() error {
	o.cancel()
	return o.reader.Close()
}
