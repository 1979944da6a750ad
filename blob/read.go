package blob

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"sync"
	"syscall"

	"sluice/bytestore"
	"sluice/metastore"
)

// Content is a blob's content, pinned: its bytes stay until Close, whatever
// happens to the blob. Its methods may be called from several goroutines.
type Content struct {
	metastore.Blob
	s     *Service
	close sync.Once
}

// Open finds a blob and pins its content. metastore.ErrNotFound,
// metastore.ErrExpired. The caller closes it.
func (s *Service) Open(ctx context.Context, account, name string) (*Content, error) {
	s.pins.resolving.RLock()
	defer s.pins.resolving.RUnlock()
	b, err := s.meta.Blob(ctx, account, name)
	if err != nil {
		return nil, err
	}
	s.pins.add(b.Content)
	return &Content{Blob: b, s: s}, nil
}

// Close lets the content go. Further calls do nothing.
func (c *Content) Close() {
	c.close.Do(func() {
		if c.s.pins.remove(c.Content) {
			c.s.wake()
		}
	})
}

// extentPage is how many extents a read looks up at once.
const extentPage = 64

// WriteRange writes the n bytes from off to w and returns how many it wrote.
// The range lies within the blob. Every byte was checked against its block's
// checksum, now or within Options.VerifyTTL. Where w is an io.ReaderFrom and
// the store's readers allow it, bytes that need no check go out without being
// copied; each call of w covers at most 1 MiB. ErrCorrupt when stored bytes are
// damaged or missing: none of a damaged block's bytes have been written.
func (c *Content) WriteRange(ctx context.Context, w io.Writer, off, n int64) (int64, error) {
	var written int64
	for written < n {
		extents, err := c.s.meta.Extents(ctx, c.Content, c.position(off+written), extentPage)
		if err != nil {
			return written, err
		}
		if len(extents) == 0 {
			return written, fmt.Errorf("%w: content %s has no extent at byte %d", ErrCorrupt, c.Content, off+written)
		}
		for i := range extents {
			e := &extents[i]
			from := off + written - c.start(e)
			if from < 0 || from >= e.Size {
				return written, fmt.Errorf("%w: content %s has a gap at byte %d", ErrCorrupt, c.Content, off+written)
			}
			m, err := c.s.writeExtent(ctx, w, e, from, min(e.Size, from+n-written))
			written += m
			if err != nil || written == n {
				return written, err
			}
		}
	}
	return written, nil
}

// position is where byte off of the content lies.
func (c *Content) position(off int64) metastore.Position {
	if c.PartSize == 0 {
		return metastore.Position{Offset: off}
	}
	return metastore.Position{Part: int(off / c.PartSize), Offset: off % c.PartSize}
}

// start is where an extent begins in the content.
func (c *Content) start(e *metastore.Extent) int64 {
	return int64(e.Part)*c.PartSize + e.Offset
}

// writeExtent writes bytes [from, to) of an extent.
func (s *Service) writeExtent(ctx context.Context, w io.Writer, e *metastore.Extent, from, to int64) (int64, error) {
	blocks := (e.Size + blockSize - 1) / blockSize
	if int64(len(e.Blocks)) != blocks || blocks > maxBlocks {
		return 0, fmt.Errorf("%w: extent %s of %d bytes has %d checksums", ErrCorrupt, e.Key, e.Size, len(e.Blocks))
	}
	if e.Key == "" {
		return writeInline(w, e, from, to)
	}
	x := extentWriter{s: s, e: e, w: w, times: s.verified.of(e.Key)}
	return x.write(ctx, from, to)
}

func writeInline(w io.Writer, e *metastore.Extent, from, to int64) (int64, error) {
	if int64(len(e.Body)) != e.Size || crc32.Checksum(e.Body, castagnoli) != e.Blocks[0] {
		return 0, fmt.Errorf("%w: an inline extent", ErrCorrupt)
	}
	n, err := w.Write(e.Body[from:to])
	return int64(n), err
}

// extentWriter writes a run of one stored extent, block by block.
type extentWriter struct {
	s     *Service
	e     *metastore.Extent
	w     io.Writer
	times *blockTimes
	skip  [maxBlocks]bool // blocks that need no check
	r     io.ReadCloser
}

// write opens the extent so that blocks to be checked are read whole, even
// where only a part of them is asked for.
func (x *extentWriter) write(ctx context.Context, from, to int64) (written int64, err error) {
	first, last := from/blockSize, (to-1)/blockSize
	if _, ok := x.w.(io.ReaderFrom); ok {
		for block := first; block <= last; block++ {
			x.skip[block] = x.s.verified.fresh(x.times, block)
		}
	}
	openFrom, openTo := from, to
	if !x.skip[first] {
		openFrom = first * blockSize
	}
	if !x.skip[last] {
		openTo = min((last+1)*blockSize, x.e.Size)
	}
	if err := x.open(ctx, openFrom, openTo-openFrom); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, x.r.Close()) }()

	for block := first; block <= last && err == nil; block++ {
		start, end := block*blockSize, min((block+1)*blockSize, x.e.Size)
		lo, hi := max(from, start), min(to, end)
		var n int64
		if x.skip[block] {
			n, err = x.send(hi - lo)
		} else {
			n, err = x.checkAndWrite(block, end-start, lo-start, hi-start)
		}
		written += n
	}
	return written, err
}

func (x *extentWriter) open(ctx context.Context, off, n int64) error {
	r, err := x.s.bytes.Open(ctx, bytestore.Key(x.e.Key), off, n)
	if errors.Is(err, bytestore.ErrNotFound) || errors.Is(err, bytestore.ErrTruncated) {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	x.r = r
	return err
}

// send lets w take the next n bytes straight from the store.
func (x *extentWriter) send(n int64) (int64, error) {
	m, err := x.w.(io.ReaderFrom).ReadFrom(&io.LimitedReader{R: x.r, N: n})
	if err == nil && m < n {
		err = fmt.Errorf("%w: extent %s ended early", ErrCorrupt, x.e.Key)
	}
	return m, err
}

// checkAndWrite reads the next block, of size bytes, and writes [lo, hi) of it.
func (x *extentWriter) checkAndWrite(block, size, lo, hi int64) (int64, error) {
	buf := blockBuffers.Get().(*[blockSize]byte)
	defer func() {
		if buf != nil {
			blockBuffers.Put(buf)
		}
	}()
	b := buf[:size]
	if _, err := io.ReadFull(x.r, b); err != nil {
		return 0, fmt.Errorf("%w: extent %s: %w", ErrCorrupt, x.e.Key, err)
	}
	if crc32.Checksum(b, castagnoli) != x.e.Blocks[block] {
		return 0, fmt.Errorf("%w: block %d of extent %s", ErrCorrupt, block, x.e.Key)
	}
	file, ok := x.r.(interface {
		io.Seeker
		syscall.Conn
	})
	if !ok {
		n, err := x.w.Write(b[lo:hi])
		return int64(n), err
	}
	// Only what can be sent without a copy gains from not being checked again.
	x.s.verified.note(x.times, block)
	if _, ok := x.w.(io.ReaderFrom); !ok {
		n, err := x.w.Write(b[lo:hi])
		return int64(n), err
	}
	// A client that takes its time must not hold a buffer meanwhile.
	blockBuffers.Put(buf)
	buf = nil
	if _, err := file.Seek(lo-size, io.SeekCurrent); err != nil {
		return 0, err
	}
	n, err := x.send(hi - lo)
	if err == nil {
		_, err = file.Seek(size-hi, io.SeekCurrent)
	}
	return n, err
}

var blockBuffers = sync.Pool{New: func() any { return new([blockSize]byte) }}
