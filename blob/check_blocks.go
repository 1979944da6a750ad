package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"

	"sluice/bytestore"
	"sluice/integrity"
	"sluice/metastore"
)

// blockChecker checks a range of one extent, block by block, and writes it. The extent is stored as
// an object.
type blockChecker struct {
	bytes    bytestore.Store
	verified *checkLog
	limits   *readLimits
	ahead    *lookahead
	pay      func(ctx context.Context, n int64) error // may be nil

	e     *metastore.Extent
	start int64 // the extent's offset in the content
	w     io.Writer

	times blockTimes
	skip  [integrity.MaxBlocks]bool // blocks that need no check
	keep  []keptBytes               // to be buffered for later ranges
	r     io.ReadCloser
}

// writeInline writes an inline extent's bytes [from, to).
func writeInline(w io.Writer, e *metastore.Extent, from, to int64) (int64, error) {
	if int64(len(e.Body)) != e.Size || integrity.Sum(e.Body) != e.Blocks[0] {
		return 0, fmt.Errorf("%w: an inline extent", integrity.ErrCorrupt)
	}
	n, err := w.Write(e.Body[from:to])
	return int64(n), err
}

// write writes the extent's bytes [from, to) from the store. Blocks to be checked are read
// whole even if only a part of them is requested.
func (x *blockChecker) write(ctx context.Context, from, to int64) (written int64, err error) {
	first, last := from/integrity.BlockSize, (to-1)/integrity.BlockSize
	if _, ok := x.w.(io.ReaderFrom); ok {
		for block := first; block <= last; block++ {
			x.skip[block] = x.verified.fresh(x.times, block)
		}
	}
	openFrom, openTo := from, to
	if !x.skip[first] {
		openFrom = first * integrity.BlockSize
		x.reserve(first)
	}
	if !x.skip[last] {
		openTo = min((last+1)*integrity.BlockSize, x.e.Size)
		if last != first {
			x.reserve(last)
		}
	}
	unsent := (openTo - openFrom) - (to - from)
	for _, k := range x.keep {
		unsent -= int64(len(k.dst))
	}
	if err := x.charge(ctx, unsent); err != nil {
		return 0, err
	}
	if x.r, err = x.open(ctx, openFrom, openTo-openFrom); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, x.r.Close()) }()

	for off := from; off < to && err == nil; off = from + written {
		var n int64
		if block := off / integrity.BlockSize; x.skip[block] {
			n, err = x.send(min(x.uncheckedEnd(block)*integrity.BlockSize, off+integrity.BlockSize, to) - off)
		} else {
			start, end := block*integrity.BlockSize, min((block+1)*integrity.BlockSize, x.e.Size)
			n, err = x.checkAndWrite(ctx, block, end-start, off-start, min(to, end)-start)
		}
		written += n
	}
	return written, err
}

// uncheckedEnd returns the first block after this one that must be checked.
func (x *blockChecker) uncheckedEnd(block int64) int64 {
	for block < integrity.MaxBlocks && x.skip[block] {
		block++
	}
	return block
}

// charge pays for bytes that are read and not sent.
func (x *blockChecker) charge(ctx context.Context, n int64) error {
	if x.pay == nil || n <= 0 {
		return nil
	}
	return x.pay(ctx, n)
}

// reserve reserves space for what later ranges need from a block.
func (x *blockChecker) reserve(block int64) {
	start := x.start + block*integrity.BlockSize
	size := min(integrity.BlockSize, x.e.Size-block*integrity.BlockSize)
	x.keep = append(x.keep, x.ahead.reserve(block, start, start+size)...)
}

// buffer buffers what later ranges need from a block. b holds the block's bytes from offset off. If
// the block turns out to be damaged, the whole reading fails.
func (x *blockChecker) buffer(block, off int64, b []byte) {
	for _, k := range x.keep {
		lo, hi := max(off, k.off), min(off+int64(len(b)), k.off+int64(len(k.dst)))
		if k.block == block && lo < hi {
			copy(k.dst[lo-k.off:], b[lo-off:hi-off])
		}
	}
}

func (x *blockChecker) open(ctx context.Context, off, n int64) (io.ReadCloser, error) {
	r, err := x.bytes.Open(ctx, bytestore.Name(x.e.Object), off, n)
	if err != nil {
		return nil, x.readError(err)
	}
	return r, nil
}

// send makes w read the next n bytes from the store itself.
func (x *blockChecker) send(n int64) (int64, error) {
	m, err := x.w.(io.ReaderFrom).ReadFrom(&io.LimitedReader{R: x.r, N: n})
	if err == nil && m < n {
		x.invalidate()
		err = fmt.Errorf("%w: extent %s ended early", integrity.ErrCorrupt, x.e.Object)
	}
	return m, err
}

// fileOf returns the reader of a file, which can be read twice, and which an io.ReaderFrom may be
// able to send without copying.
func fileOf(r io.Reader) (file io.Seeker, ok bool) {
	if p, ok := r.(bytestore.Positioned); ok {
		return p, true
	}
	if _, ok := r.(syscall.Conn); !ok {
		return nil, false
	}
	file, ok = r.(io.Seeker)
	return file, ok
}

// checkAndWrite checks the next block, of size bytes, and writes [lo, hi) of it. If w cannot send
// the bytes from the store itself, the block is buffered until w has accepted it or, if there is no
// buffer, read twice, so that slow clients do not each hold a block.
func (x *blockChecker) checkAndWrite(ctx context.Context, block, size, lo, hi int64) (int64, error) {
	f, isFile := fileOf(x.r)
	_, sends := x.w.(io.ReaderFrom)
	switch {
	case isFile && sends:
		if _, err := x.check(ctx, block, size); err != nil {
			return 0, err
		}
		if _, err := f.Seek(lo-size, io.SeekCurrent); err != nil {
			return 0, err
		}
		return x.send(hi - lo)
	case size <= pieceSize:
		buf := pieceBuffers.Get().(*[pieceSize]byte)
		defer pieceBuffers.Put(buf)
		return x.writeBuffered(ctx, buf[:size], block, lo, hi)
	case x.limits.acquireBlock():
		defer x.limits.releaseBlock()
		buf := blockBuffers.Get().(*[integrity.BlockSize]byte)
		defer blockBuffers.Put(buf)
		return x.writeBuffered(ctx, buf[:size], block, lo, hi)
	default:
		return x.writeReread(ctx, block, size, lo, hi)
	}
}

// writeBuffered reads the next block into b, checks it, and writes [lo, hi) of it.
func (x *blockChecker) writeBuffered(ctx context.Context, b []byte, block, lo, hi int64) (int64, error) {
	err := x.read(ctx, x.r, b)
	if err == nil {
		err = x.verify(block, integrity.Sum(b))
	}
	if err != nil {
		return 0, err
	}
	x.buffer(block, 0, b)
	n, err := x.w.Write(b[lo:hi])
	return int64(n), err
}

// writeReread checks the next block, of size bytes, and reads [lo, hi) of it again to write it.
func (x *blockChecker) writeReread(ctx context.Context, block, size, lo, hi int64) (n int64, err error) {
	sums, err := x.check(ctx, block, size)
	if err != nil {
		return 0, err
	}
	from, to := pieceStart(lo), min(pieceStart(hi-1)+pieceSize, size)
	if f, ok := fileOf(x.r); ok {
		if _, err := f.Seek(from-size, io.SeekCurrent); err != nil {
			return 0, err
		}
		return x.writePieces(ctx, x.r, sums, size, lo, hi)
	}
	if err := x.charge(ctx, to-from); err != nil {
		return 0, err
	}
	r, err := x.open(ctx, block*integrity.BlockSize+from, to-from)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	return x.writePieces(ctx, r, sums, size, lo, hi)
}

// pieceSums are the checksums of a checked block's pieces.
type pieceSums [integrity.BlockSize / pieceSize]uint32

// pieceStart returns where the piece starts that contains a block's byte off.
func pieceStart(off int64) int64 { return off - off%pieceSize }

// check reads the next block, of size bytes, and compares it with its checksum.
func (x *blockChecker) check(ctx context.Context, block, size int64) (*pieceSums, error) {
	buf := pieceBuffers.Get().(*[pieceSize]byte)
	defer pieceBuffers.Put(buf)
	var (
		sums pieceSums
		sum  uint32
	)
	for off := int64(0); off < size; off += pieceSize {
		b := buf[:min(pieceSize, size-off)]
		if err := x.read(ctx, x.r, b); err != nil {
			return nil, err
		}
		sums[off/pieceSize] = integrity.Sum(b)
		sum = integrity.UpdateSum(sum, b)
		x.buffer(block, off, b)
	}
	if err := x.verify(block, sum); err != nil {
		return nil, err
	}
	return &sums, nil
}

// writePieces writes [lo, hi) of a checked block with size bytes. r must be positioned at the piece
// that contains lo. It compares what it reads with the checked pieces, so that bytes that have
// changed since are not written.
func (x *blockChecker) writePieces(ctx context.Context, r io.Reader, sums *pieceSums, size, lo, hi int64) (int64, error) {
	buf := pieceBuffers.Get().(*[pieceSize]byte)
	defer pieceBuffers.Put(buf)
	var written int64
	for start := pieceStart(lo); start < hi; start += pieceSize {
		b := buf[:min(pieceSize, size-start)]
		if err := x.read(ctx, r, b); err != nil {
			return written, err
		}
		if integrity.Sum(b) != sums[start/pieceSize] {
			return written, fmt.Errorf("%w: extent %s changed while it was read", integrity.ErrCorrupt, x.e.Object)
		}
		n, err := x.w.Write(b[max(lo-start, 0):min(hi-start, pieceSize)])
		written += int64(n)
		if err != nil {
			return written, err
		}
	}
	return written, nil
}

// read fills b from r. Concurrent reads of files are limited.
func (x *blockChecker) read(ctx context.Context, r io.Reader, b []byte) error {
	if _, isFile := fileOf(r); isFile {
		if err := x.limits.acquireFile(ctx); err != nil {
			return err
		}
		defer x.limits.releaseFile()
	}
	if _, err := bytestore.ReadFull(r, b); err != nil {
		return x.readError(err)
	}
	return nil
}

// readError wraps a store's error. It is integrity.ErrCorrupt only if the store reports that bytes
// are missing or unreadable.
func (x *blockChecker) readError(err error) error {
	if integrity.IsDamage(err) {
		return fmt.Errorf("%w: extent %s: %w", integrity.ErrCorrupt, x.e.Object, err)
	}
	return fmt.Errorf("extent %s: %w", x.e.Object, err)
}

// verify compares a block's checksum, as it was read, with the stored one.
func (x *blockChecker) verify(block int64, sum uint32) error {
	if sum != x.e.Blocks[block] {
		x.invalidate()
		return fmt.Errorf("%w: block %d of extent %s", integrity.ErrCorrupt, block, x.e.Object)
	}
	// Only blocks that can be sent without copying benefit from skipping the check.
	if _, ok := fileOf(x.r); ok {
		x.verified.note(x.times, block)
	}
	return nil
}

// invalidate drops the store's cached copies: the damage may be in them alone.
func (x *blockChecker) invalidate() {
	if cache, ok := x.bytes.(bytestore.Invalidator); ok {
		cache.Invalidate(bytestore.Name(x.e.Object))
	}
}
