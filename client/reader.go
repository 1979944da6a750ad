package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// Reader reads a blob, or a range of it. All its bytes belong to one version. It must be closed,
// and must not be used concurrently.
//
// If the connection is lost, it continues with a new request for the rest; it returns an error
// after Options.MaxAttempts attempts without a byte, and ErrChanged if the blob was replaced. It
// never returns io.EOF before the end. If the bytes were read in order, from the blob's first to
// its last, they are compared with its ETag and its SHA-256, if it has one. If they differ,
// ErrCorrupt is returned in the place of io.EOF.
type Reader struct {
	ctx        context.Context
	source     *source
	blob       Blob
	begin, end int64 // of this range
	offset     int64 // in the blob, where the next byte is
	body       io.ReadCloser
	bodyEnd    int64
	failures   int          // since the last byte
	sums       *contentSums // nil if the bytes are not verified
	err        error
}

// Get opens a blob. The context limits all use of the Reader. Get returns ErrNotFound if there is
// no such blob, and ErrGone if it has expired.
func (c *Client) Get(ctx context.Context, account, name string, o GetOptions) (*Reader, error) {
	return c.GetRange(ctx, account, name, 0, -1, o)
}

// GetRange opens length bytes from offset on, or all from there on if length is negative. A range
// that ends after the blob ends with it; if it also begins there, the error is ErrRangeInvalid. For
// example, offset 10 and length 5 are the bytes 10 to 14.
func (c *Client) GetRange(ctx context.Context, account, name string, offset, length int64, o GetOptions) (*Reader, error) {
	if offset < 0 || length == 0 {
		return nil, fmt.Errorf("client: %w: a range must not be empty or begin before the blob", ErrInvalid)
	}
	s, err := c.source(account, name, o)
	if err != nil {
		return nil, err
	}
	end := int64(-1)
	if length > 0 {
		end = offset + length
	}
	return s.reader(ctx, offset, end)
}

// GetLast opens the last n bytes, or the whole blob if it has fewer. It sends one request, and with
// a Payment a second one for the blob's size.
func (c *Client) GetLast(ctx context.Context, account, name string, n int64, o GetOptions) (*Reader, error) {
	if n <= 0 {
		return nil, fmt.Errorf("client: %w: a range must not be empty", ErrInvalid)
	}
	s, err := c.source(account, name, o)
	if err != nil {
		return nil, err
	}
	if o.Payment == nil {
		return s.reader(ctx, -n, -1)
	}
	b, err := s.c.head(ctx, s.path, s.name)
	if err != nil {
		return nil, err
	}
	r, err := s.reader(ctx, max(0, b.Size-n), -1)
	if err == nil && r.blob.Size != b.Size {
		err = errors.Join(fmt.Errorf("client: get a blob: %w: it had %d bytes, and has %d", ErrChanged, b.Size, r.blob.Size), r.Close())
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

// reader opens a Reader for the bytes from offset up to end, or for the last ones if offset is
// negative: see open.
func (s *source) reader(ctx context.Context, offset, end int64) (*Reader, error) {
	first, err := s.open(ctx, offset, end)
	if err != nil {
		return nil, err
	}
	offset = first.begin
	if end < 0 || end > first.blob.Size {
		end = first.blob.Size
	}
	r := &Reader{ctx: ctx, source: s, blob: first.blob, begin: offset, end: end, offset: offset, body: first, bodyEnd: min(first.end, end)}
	r.startSums()
	return r, nil
}

// Blob returns the blob's properties.
func (r *Reader) Blob() Blob { return r.blob }

// Size returns the number of bytes in the blob or range.
func (r *Reader) Size() int64 { return r.end - r.begin }

// startSums begins to verify if the next byte is the blob's first.
func (r *Reader) startSums() {
	r.sums = nil
	if !r.source.options.SkipVerify && r.offset == 0 && r.end == r.blob.Size {
		r.sums = newContentSums(r.blob)
	}
}

// Read implements io.Reader.
func (r *Reader) Read(p []byte) (int, error) {
	for r.err == nil {
		if r.offset >= r.end {
			return 0, r.finish()
		}
		if len(p) == 0 {
			return 0, nil
		}
		if n := r.read(p); n > 0 {
			return n, nil
		}
	}
	return 0, r.err
}

// read reads from the body, which it opens if necessary. It returns 0 if the connection was lost.
func (r *Reader) read(p []byte) int {
	if r.body == nil && !r.reopen() {
		return 0
	}
	n, err := r.body.Read(p[:min(int64(len(p)), r.bodyEnd-r.offset)])
	r.offset += int64(n)
	if n > 0 {
		r.failures = 0
		if r.sums != nil {
			r.sums.update(p[:n])
		}
	}
	switch {
	case r.offset >= r.bodyEnd:
		r.closeBody()
	case err != nil:
		r.closeBody()
		r.lost(err)
	}
	return n
}

// reopen requests the range's rest. It reports whether it succeeded, and sets err otherwise.
func (r *Reader) reopen() bool {
	c, err := r.source.open(r.ctx, r.offset, r.end)
	if err != nil {
		r.err = err
		return false
	}
	if c.blob.Size != r.blob.Size {
		r.err = errors.Join(fmt.Errorf("client: get a blob: %w", invalid("Content-Range", "is of a blob of %d bytes, which had %d", c.blob.Size, r.blob.Size)), c.Close())
		return false
	}
	r.blob.ETag = c.blob.ETag // a HEAD may lack it
	r.body, r.bodyEnd = c, min(c.end, r.end)
	return true
}

// lost waits after the connection was lost, and sets err if it was lost too often.
func (r *Reader) lost(err error) {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	r.failures++
	c := r.source.c
	if r.failures >= c.attempts || r.ctx.Err() != nil || !c.pause(r.ctx, r.failures, time.Now(), err) {
		r.err = fmt.Errorf("client: get a blob: the connection was lost at byte %d of %d: %w", r.offset, r.end, err)
		return
	}
	c.log.WarnContext(r.ctx, "A read is continued.", "offset", r.offset, "attempt", r.failures, "error", err)
}

// finish returns io.EOF, or ErrCorrupt if the blob has other bytes.
func (r *Reader) finish() error {
	r.closeBody()
	r.err = io.EOF
	if r.sums != nil && r.sums.size == r.blob.Size {
		if err := r.sums.check(r.blob); err != nil {
			r.err = err
		}
	}
	return r.err
}

// closeBody closes the body. Its bytes after the range are not needed, so an error has no meaning.
func (r *Reader) closeBody() {
	if r.body == nil {
		return
	}
	var end [1]byte
	if r.offset >= r.bodyEnd {
		_, _ = r.body.Read(end[:]) // reads the end, so that the connection can be used again
	}
	_ = r.body.Close()
	r.body = nil
}

// Seek implements io.Seeker. Offset 0 is where the range begins. It sends no request. Bytes are
// verified only if all of them are read after the last call that moved to another offset.
func (r *Reader) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekStart:
		offset += r.begin
	case io.SeekCurrent:
		offset += r.offset
	case io.SeekEnd:
		offset += r.end
	default:
		return 0, fmt.Errorf("client: %w: whence %d", ErrInvalid, whence)
	}
	if offset < r.begin {
		return 0, fmt.Errorf("client: %w: a seek to before the beginning", ErrInvalid)
	}
	if r.err != nil && !errors.Is(r.err, io.EOF) {
		return 0, r.err
	}
	if offset != r.offset {
		r.closeBody()
		r.offset, r.err = offset, nil
		r.startSums()
	}
	return offset - r.begin, nil
}

// WriteTo implements io.WriterTo, with a large buffer.
func (r *Reader) WriteTo(w io.Writer) (int64, error) {
	buffer := buffers.Get().(*[bufferSize]byte)
	defer buffers.Put(buffer)
	return io.CopyBuffer(writerOnly{w}, readerOnly{r}, buffer[:])
}

// readerOnly and writerOnly hide all other methods.
type (
	readerOnly struct{ io.Reader }
	writerOnly struct{ io.Writer }
)

// errClosed is returned after Close.
var errClosed = errors.New("client: the reader is closed")

// Close ends the read. Later reads fail. It returns nil.
func (r *Reader) Close() error {
	r.closeBody()
	r.err = errClosed
	return nil
}
