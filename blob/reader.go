package blob

import (
	"context"
	"errors"
	"fmt"
	"io"

	"sluice/integrity"
	"sluice/metastore"
)

// Reader reads a content's ranges for one request, in order. It must be used by one goroutine at a
// time.
//
// Blocks are checked whole, so a range of a few bytes costs the store a block. If several ranges
// lie in one block, it is read for the first of them and the bytes that the others need are
// buffered: up to 1 MiB in a buffer that Options.ReadBuffers limits, or 32 KiB if there
// is none. If a block has more bytes to be buffered, it is read again.
type Reader struct {
	c     *Content
	pay   func(ctx context.Context, n int64) error // may be nil
	ahead lookahead
	err   error // of the failed range
}

// Read prepares to read ranges, which must not overlap. Before the store is accessed, Read's result
// calls pay with the number of bytes that are read in addition to those that are sent; if pay
// returns an error, reading fails with it. pay may be nil. The caller must Close the Reader, and
// then the Content.
func (c *Content) Read(ranges []Range, pay func(ctx context.Context, n int64) error) *Reader {
	return &Reader{c: c, pay: pay, ahead: newLookahead(c.s.reads, ranges)}
}

// Close releases the buffers. It is idempotent.
func (r *Reader) Close() { r.ahead.close() }

// WriteRange writes n bytes from offset off to w, like Reader.WriteNext, without paying for
// additional bytes.
func (c *Content) WriteRange(ctx context.Context, w io.Writer, off, n int64) (int64, error) {
	return c.Read([]Range{{off, n}}, nil).WriteNext(ctx, w)
}

// WriteNext writes the next range to w and returns the number of bytes written. It returns io.EOF
// after the last range. Every error is final.
//
// Every byte was checked against the checksum of its block, now or within Options.VerifyTTL.
// WriteNext returns integrity.ErrCorrupt if stored bytes are damaged or missing; it never writes
// bytes from a damaged block. It returns ErrCut if the content was cut, which it checks between
// extents.
//
// If w is an io.ReaderFrom and the store's readers support it, bytes that need no check are sent
// without copying; each call of w then covers at most 1 MiB. While w blocks, the Reader holds 32
// KiB or one of the buffers that Options.ReadBuffers limits, in addition to the bytes buffered for
// later ranges, and does not delay other reads.
func (r *Reader) WriteNext(ctx context.Context, w io.Writer) (n int64, err error) {
	if r.err != nil {
		return 0, r.err
	}
	if r.ahead.next == len(r.ahead.ranges) {
		return 0, io.EOF
	}
	defer func() { r.fail(err) }()
	next, ends := r.ahead.begin()
	if n, err = writeBytes(w, ends.head); err != nil {
		return n, err
	}
	m, err := r.write(ctx, w, next.Off+n, next.Off+next.N-int64(len(ends.tail)))
	if n += m; err != nil {
		return n, err
	}
	m, err = writeBytes(w, ends.tail)
	if n += m; err != nil {
		return n, err
	}
	r.ahead.written(ends)
	return n, nil
}

// fail records the error that ends the reading, which may be nil.
func (r *Reader) fail(err error) {
	if r.err = err; errors.Is(err, integrity.ErrCorrupt) {
		r.c.s.counts.damaged.Add(1)
	}
}

// writeBytes writes b unless it is empty.
func writeBytes(w io.Writer, b []byte) (int64, error) {
	if len(b) == 0 {
		return 0, nil
	}
	n, err := w.Write(b)
	return int64(n), err
}

// extentPage is the greatest number of extents that a read looks up at a time.
const extentPage = 64

// write writes the content's bytes [off, end) from the store.
func (r *Reader) write(ctx context.Context, w io.Writer, off, end int64) (written int64, err error) {
	c := r.c
	// Enough, unless there are more or they are shorter than a block.
	page := min(extentPage, 2+(end-off)/integrity.BlockSize)
	for off < end {
		extents := c.first
		if len(extents) == 0 || off >= extents[0].Size {
			if extents, err = c.extents(ctx, off, int(page)); err != nil {
				return written, err
			}
			page = extentPage
		}
		if len(extents) == 0 {
			return written, fmt.Errorf("%w: content %s has no extent at byte %d", integrity.ErrCorrupt, c.Content, off)
		}
		for i := range extents {
			if c.pin.wasCut() {
				return written, ErrCut
			}
			e := &extents[i]
			from := off - c.start(e)
			if from < 0 || from >= e.Size {
				return written, fmt.Errorf("%w: content %s has a gap at byte %d", integrity.ErrCorrupt, c.Content, off)
			}
			m, err := r.writeExtent(ctx, w, e, from, min(e.Size, from+end-off))
			written += m
			off += m
			if err != nil || off == end {
				return written, err
			}
		}
	}
	return written, nil
}

// writeExtent writes an extent's bytes [from, to). If they are damaged it looks at the extent
// again, and reads it once more if that may succeed. It does not if there are several ranges: what
// is buffered for later ones could be the damaged bytes.
func (r *Reader) writeExtent(ctx context.Context, w io.Writer, e *metastore.Extent, from, to int64) (int64, error) {
	n, err := r.writeStored(ctx, w, e, from, to)
	if !errors.Is(err, integrity.ErrCorrupt) {
		return n, err
	}
	first := min(from+n, to-1) / integrity.BlockSize
	now, again := r.c.s.LookAgain(ctx, r.c.Content, e, first, (to-1)/integrity.BlockSize)
	if !again || r.ahead.kept != nil {
		return n, err
	}
	m, err := r.writeStored(ctx, w, now, from+n, to)
	return n + m, err
}

// writeStored writes an extent's bytes [from, to).
func (r *Reader) writeStored(ctx context.Context, w io.Writer, e *metastore.Extent, from, to int64) (int64, error) {
	if err := integrity.CheckExtent(e); err != nil {
		return 0, err
	}
	if e.Object == "" {
		return writeInline(w, e, from, to)
	}
	s := r.c.s
	x := blockChecker{
		bytes: s.bytes, verified: s.verified, limits: s.reads, ahead: &r.ahead, pay: r.pay,
		e: e, start: r.c.start(e), w: w, times: s.verified.of(e),
	}
	return x.write(ctx, from, to)
}
