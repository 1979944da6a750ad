package blob

import (
	"context"
	"fmt"
	"io"
)

// Range is a run of a content's bytes, which lies within it.
type Range struct{ Off, N int64 }

// Reading reads ranges of a content for one request, in their order. It is for
// one goroutine.
//
// A block is checked whole, so that a range of a few bytes costs the store a
// block. Where several ranges lie in one, it is read for the first of them, and
// what the others need of it is kept: up to 1 MiB of one of the buffers that
// Options.ReadBuffers bounds, or 32 KiB where there is none. A block of which more
// had to be kept is read again.
type Reading struct {
	c      *Content
	ranges []Range
	next   int                                      // the range to be written next
	pay    func(ctx context.Context, n int64) error // may be nil
	err    error                                    // of the range that failed

	kept    []keptEnds // of each range; nil where there is one alone
	buf     []byte     // what is kept
	used    int        // of buf
	pending int64      // bytes in buf that are not written yet
	giveBuf func()
}

// keptEnds is what was kept of a range: of its first block and of its last. The
// blocks between are nobody else's.
type keptEnds struct{ head, tail []byte }

// Read begins to read ranges that do not overlap. pay is called, before the
// store is asked, with the number of bytes that are read beyond those that are
// sent; the reading fails with its error. It may be nil. The caller closes the
// Reading, and the Content after it.
func (c *Content) Read(ranges []Range, pay func(ctx context.Context, n int64) error) *Reading {
	r := &Reading{c: c, ranges: ranges, pay: pay}
	if len(ranges) > 1 {
		r.kept = make([]keptEnds, len(ranges))
	}
	return r
}

// Close releases what is kept. A second Close does nothing.
func (r *Reading) Close() {
	if r.giveBuf != nil {
		r.giveBuf()
		r.giveBuf, r.buf = nil, nil
	}
}

// WriteRange reads one range, as Reading.WriteNext does, and pays nothing.
func (c *Content) WriteRange(ctx context.Context, w io.Writer, off, n int64) (int64, error) {
	return c.Read([]Range{{off, n}}, nil).WriteNext(ctx, w)
}

// WriteNext writes the next range to w and returns how many bytes it wrote; io.EOF
// after the last one. Every byte was checked against its block's checksum, now or
// within Options.VerifyTTL. Where w is an io.ReaderFrom and the store's readers
// allow it, bytes that need no check go out without being copied; each call of w
// covers at most 1 MiB. ErrCorrupt when stored bytes are damaged or missing: none
// of a damaged block's bytes have been written. ErrCut when the content was cut,
// which is noticed between extents. Every error is final.
//
// While w takes its time the reading holds 32 KiB, or one of the buffers that
// Options.ReadBuffers bounds, beside what it keeps, and keeps no other read
// waiting.
func (r *Reading) WriteNext(ctx context.Context, w io.Writer) (n int64, err error) {
	if r.err != nil {
		return 0, r.err
	}
	if r.next == len(r.ranges) {
		return 0, io.EOF
	}
	defer func() { r.err = err }()
	var ends keptEnds
	if r.kept != nil {
		ends = r.kept[r.next]
	}
	off, end := r.ranges[r.next].Off, r.ranges[r.next].Off+r.ranges[r.next].N
	r.next++
	if n, err = writeKept(w, ends.head); err != nil {
		return n, err
	}
	m, err := r.write(ctx, w, off+n, end-int64(len(ends.tail)))
	if n += m; err != nil {
		return n, err
	}
	m, err = writeKept(w, ends.tail)
	if n += m; err != nil {
		return n, err
	}
	if r.pending -= int64(len(ends.head) + len(ends.tail)); r.pending == 0 {
		r.used = 0
	}
	return n, nil
}

// writeKept writes what was kept, if anything.
func writeKept(w io.Writer, b []byte) (int64, error) {
	if len(b) == 0 {
		return 0, nil
	}
	n, err := w.Write(b)
	return int64(n), err
}

// write writes the bytes [off, end) of the content from the store.
func (r *Reading) write(ctx context.Context, w io.Writer, off, end int64) (written int64, err error) {
	c := r.c
	for off < end {
		extents, err := c.s.meta.Extents(ctx, c.Content, c.position(off), extentPage)
		if err != nil {
			return written, err
		}
		if len(extents) == 0 {
			return written, fmt.Errorf("%w: content %s has no extent at byte %d", ErrCorrupt, c.Content, off)
		}
		for i := range extents {
			if c.isCut() {
				return written, ErrCut
			}
			e := &extents[i]
			from := off - c.start(e)
			if from < 0 || from >= e.Size {
				return written, fmt.Errorf("%w: content %s has a gap at byte %d", ErrCorrupt, c.Content, off)
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

// charge pays for bytes that are read and not sent.
func (r *Reading) charge(ctx context.Context, n int64) error {
	if r.pay == nil || n <= 0 {
		return nil
	}
	return r.pay(ctx, n)
}

// want is where bytes of a block are kept.
type want struct {
	block, at int64 // in the extent, and in the block
	dst       []byte
}

// reserve makes room for what later ranges need of a block, which holds the
// bytes [start, end) of the content.
func (r *Reading) reserve(block, start, end int64) (wants []want) {
	for i := r.next; i < len(r.ranges); i++ {
		first, last := r.ranges[i].Off, r.ranges[i].Off+r.ranges[i].N
		lo, hi := max(start, first), min(end, last)
		if lo >= hi {
			continue
		}
		place := &r.kept[i].tail
		if lo == first {
			place = &r.kept[i].head
		}
		if *place == nil {
			if *place = r.room(hi - lo); *place != nil {
				wants = append(wants, want{block, lo - start, *place})
			}
		}
	}
	return wants
}

// room returns n bytes to keep something in, or nil when there is no room.
func (r *Reading) room(n int64) []byte {
	if r.buf == nil {
		r.takeBuf()
	}
	if n > int64(len(r.buf)-r.used) {
		return nil
	}
	b := r.buf[r.used : r.used+int(n)]
	r.used += int(n)
	r.pending += n
	return b
}

func (r *Reading) takeBuf() {
	reads := r.c.s.reads
	if !reads.takeBlock() {
		buf := pieceBuffers.Get().(*[pieceSize]byte)
		r.buf, r.giveBuf = buf[:], func() { pieceBuffers.Put(buf) }
		return
	}
	buf := blockBuffers.Get().(*[blockSize]byte)
	r.buf, r.giveBuf = buf[:], func() {
		blockBuffers.Put(buf)
		reads.giveBlock()
	}
}
