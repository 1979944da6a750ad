package blob

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"sync"
	"syscall"
	"time"

	"sluice/bytestore"
	"sluice/metastore"
)

// Content is a blob's content, pinned: its bytes stay until Close, whatever
// happens to the blob, or until it is cut (ErrCut). Its methods may be called
// from several goroutines.
type Content struct {
	metastore.Blob
	s     *Service
	until time.Time // by the monotonic clock of this process
	close sync.Once

	prev, next *Content // other readers of the same content; pins guards them

	cutting struct {
		sync.Mutex
		cut  bool
		then func()
	}
}

// Open finds a blob and pins its content. metastore.ErrNotFound,
// metastore.ErrExpired. The caller closes it.
func (s *Service) Open(ctx context.Context, account, name string) (*Content, error) {
	for {
		l := s.pins.look()
		b, err := s.meta.Blob(ctx, account, name)
		if err != nil {
			s.pins.giveUp(l)
			return nil, err
		}
		c := &Content{Blob: b, s: s}
		if s.opt.GarbageGrace > 0 {
			c.until = time.Now().Add(s.opt.GarbageGrace - graceMargin)
		}
		if s.pins.pin(l, c) {
			return c, nil
		}
		// It was deleted or replaced while the database answered.
	}
}

// graceMargin is kept of the grace period for what the nodes' measurements of the
// engine's clock may differ by.
const graceMargin = time.Minute

// Close lets the content go. Further calls do nothing.
func (c *Content) Close() {
	c.close.Do(func() {
		c.OnCut(nil)
		if c.s.pins.remove(c) {
			c.s.gather()
		}
	})
}

// Until is how long the content stays readable for sure, whatever happens to the
// blob; the zero time: for as long as it is open and is not cut. It is a time of
// the process's own clock (time.Now), as deadlines are, and holds whatever the
// wall clock says.
func (c *Content) Until() time.Time { return c.until }

// OnCut has then called when the content is cut, at once if it is already: then
// ends what keeps the reader from noticing. A content is cut when its blob was
// deleted or replaced 24 hours ago, or at all while there is no room for others.
// then is quick and calls no method of c; once Close has returned it does not
// run. nil: nothing is called.
func (c *Content) OnCut(then func()) {
	c.cutting.Lock()
	defer c.cutting.Unlock()
	c.cutting.then = then
	if c.cutting.cut && then != nil {
		then()
	}
}

// cut makes reading fail.
func (c *Content) cut() {
	c.cutting.Lock()
	defer c.cutting.Unlock()
	if c.cutting.cut {
		return
	}
	c.cutting.cut = true
	if c.cutting.then != nil {
		c.cutting.then()
	}
}

func (c *Content) isCut() bool {
	c.cutting.Lock()
	defer c.cutting.Unlock()
	return c.cutting.cut
}

// extentPage is how many extents a read looks up at once.
const extentPage = 64

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
func (r *Reading) writeExtent(ctx context.Context, w io.Writer, e *metastore.Extent, from, to int64) (int64, error) {
	blocks := (e.Size + blockSize - 1) / blockSize
	if int64(len(e.Blocks)) != blocks || blocks > maxBlocks {
		return 0, fmt.Errorf("%w: extent %s of %d bytes has %d checksums", ErrCorrupt, e.Key, e.Size, len(e.Blocks))
	}
	if e.Key == "" {
		return writeInline(w, e, from, to)
	}
	s := r.c.s
	x := extentWriter{s: s, reading: r, e: e, w: w, times: s.verified.of(e.Key)}
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
	s       *Service
	reading *Reading
	e       *metastore.Extent
	w       io.Writer
	times   *blockTimes
	skip    [maxBlocks]bool // blocks that need no check
	wants   []want          // what is kept for later ranges
	r       io.ReadCloser
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
		x.reserve(first)
	}
	if !x.skip[last] {
		openTo = min((last+1)*blockSize, x.e.Size)
		if last != first {
			x.reserve(last)
		}
	}
	unsent := (openTo - openFrom) - (to - from)
	for _, w := range x.wants {
		unsent -= int64(len(w.dst))
	}
	if err := x.reading.charge(ctx, unsent); err != nil {
		return 0, err
	}
	if x.r, err = x.open(ctx, openFrom, openTo-openFrom); err != nil {
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
			n, err = x.checkAndWrite(ctx, block, end-start, lo-start, hi-start)
		}
		written += n
	}
	return written, err
}

// reserve makes room for what later ranges need of a block.
func (x *extentWriter) reserve(block int64) {
	start := x.reading.c.start(x.e) + block*blockSize
	size := min(blockSize, x.e.Size-block*blockSize)
	x.wants = append(x.wants, x.reading.reserve(block, start, start+size)...)
}

// keep keeps what later ranges need of a block, of which b holds the bytes from
// at on. That they are not what was stored may still turn out: then the reading
// is over.
func (x *extentWriter) keep(block, at int64, b []byte) {
	for _, w := range x.wants {
		lo, hi := max(at, w.at), min(at+int64(len(b)), w.at+int64(len(w.dst)))
		if w.block == block && lo < hi {
			copy(w.dst[lo-w.at:], b[lo-at:hi-at])
		}
	}
}

func (x *extentWriter) open(ctx context.Context, off, n int64) (io.ReadCloser, error) {
	r, err := x.s.bytes.Open(ctx, bytestore.Key(x.e.Key), off, n)
	if err != nil {
		return nil, x.unread(err)
	}
	return r, nil
}

// send lets w take the next n bytes straight from the store.
func (x *extentWriter) send(n int64) (int64, error) {
	m, err := x.w.(io.ReaderFrom).ReadFrom(&io.LimitedReader{R: x.r, N: n})
	if err == nil && m < n {
		err = fmt.Errorf("%w: extent %s ended early", ErrCorrupt, x.e.Key)
	}
	return m, err
}

// file is a reader that gives its bytes twice, and that an io.ReaderFrom may be
// able to send without a copy.
type file interface {
	io.Seeker
	syscall.Conn
}

// checkAndWrite checks the next block, of size bytes, and writes [lo, hi) of
// it. What w cannot send by itself is held until w has taken it where there is
// room for that, and read twice where there is not: of many clients that take
// their time not each must hold a block.
func (x *extentWriter) checkAndWrite(ctx context.Context, block, size, lo, hi int64) (int64, error) {
	f, isFile := x.r.(file)
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
		return x.writeHeld(ctx, buf[:size], block, lo, hi)
	case x.s.reads.takeBlock():
		defer x.s.reads.giveBlock()
		buf := blockBuffers.Get().(*[blockSize]byte)
		defer blockBuffers.Put(buf)
		return x.writeHeld(ctx, buf[:size], block, lo, hi)
	default:
		return x.writeTwiceRead(ctx, block, size, lo, hi)
	}
}

// writeHeld reads the next block into b, checks it, and writes [lo, hi) of it.
func (x *extentWriter) writeHeld(ctx context.Context, b []byte, block, lo, hi int64) (int64, error) {
	err := x.read(ctx, x.r, b)
	if err == nil {
		err = x.compare(block, crc32.Checksum(b, castagnoli))
	}
	if err != nil {
		return 0, err
	}
	x.keep(block, 0, b)
	n, err := x.w.Write(b[lo:hi])
	return int64(n), err
}

// writeTwiceRead checks the next block, of size bytes, and reads [lo, hi) of it
// once more to write it.
func (x *extentWriter) writeTwiceRead(ctx context.Context, block, size, lo, hi int64) (n int64, err error) {
	sums, err := x.check(ctx, block, size)
	if err != nil {
		return 0, err
	}
	from, to := firstPiece(lo), min(firstPiece(hi-1)+pieceSize, size)
	if f, ok := x.r.(file); ok {
		if _, err := f.Seek(from-size, io.SeekCurrent); err != nil {
			return 0, err
		}
		return x.writePieces(ctx, x.r, sums, size, lo, hi)
	}
	if err := x.reading.charge(ctx, to-from); err != nil {
		return 0, err
	}
	r, err := x.open(ctx, block*blockSize+from, to-from)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	return x.writePieces(ctx, r, sums, size, lo, hi)
}

// pieceSize is how much of a block is held while w takes it, where the block
// is not. Every reader whose client is slow holds that much.
const pieceSize = 32 << 10

// pieceSums are the checksums of the pieces of a block that was checked.
type pieceSums [blockSize / pieceSize]uint32

// firstPiece gives the start of the piece that holds byte off of a block.
func firstPiece(off int64) int64 { return off - off%pieceSize }

// check reads the next block, of size bytes, against its checksum.
func (x *extentWriter) check(ctx context.Context, block, size int64) (*pieceSums, error) {
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
		sums[off/pieceSize] = crc32.Checksum(b, castagnoli)
		sum = crc32.Update(sum, castagnoli, b)
		x.keep(block, off, b)
	}
	if err := x.compare(block, sum); err != nil {
		return nil, err
	}
	return &sums, nil
}

// writePieces writes [lo, hi) of a block of size bytes that was checked. r
// stands at the piece that holds lo. What is read is compared with what was
// checked, so that bytes which changed in between are not written.
func (x *extentWriter) writePieces(ctx context.Context, r io.Reader, sums *pieceSums, size, lo, hi int64) (int64, error) {
	buf := pieceBuffers.Get().(*[pieceSize]byte)
	defer pieceBuffers.Put(buf)
	var written int64
	for start := firstPiece(lo); start < hi; start += pieceSize {
		b := buf[:min(pieceSize, size-start)]
		if err := x.read(ctx, r, b); err != nil {
			return written, err
		}
		if crc32.Checksum(b, castagnoli) != sums[start/pieceSize] {
			return written, fmt.Errorf("%w: extent %s changed while it was read", ErrCorrupt, x.e.Key)
		}
		n, err := x.w.Write(b[max(lo-start, 0):min(hi-start, pieceSize)])
		written += int64(n)
		if err != nil {
			return written, err
		}
	}
	return written, nil
}

// read fills b from r. It is one of the few that read a file at once, if r is one.
func (x *extentWriter) read(ctx context.Context, r io.Reader, b []byte) error {
	if _, isFile := r.(file); isFile {
		if err := x.s.reads.begin(ctx); err != nil {
			return err
		}
		defer x.s.reads.end()
	}
	var err error
	for n := 0; n < len(b); {
		if err != nil {
			return x.unread(err)
		}
		var m int
		m, err = r.Read(b[n:])
		n += m
	}
	return nil
}

// unread names why bytes of the extent could not be read. They are damaged only
// where the store says so: any other error, an outage say, says nothing about them.
func (x *extentWriter) unread(err error) error {
	for _, says := range []error{io.EOF, bytestore.ErrNotFound, bytestore.ErrTruncated, syscall.EIO} {
		if errors.Is(err, says) {
			return fmt.Errorf("%w: extent %s: %w", ErrCorrupt, x.e.Key, err)
		}
	}
	return fmt.Errorf("extent %s: %w", x.e.Key, err)
}

// compare compares what was read of a block with its checksum.
func (x *extentWriter) compare(block int64, sum uint32) error {
	if sum != x.e.Blocks[block] {
		if copies, ok := x.s.bytes.(bytestore.Invalidator); ok {
			copies.Invalidate(bytestore.Key(x.e.Key)) // perhaps it was damaged on its way
		}
		return fmt.Errorf("%w: block %d of extent %s", ErrCorrupt, block, x.e.Key)
	}
	// Only what can be sent without a copy gains from not being checked again.
	if _, ok := x.r.(file); ok {
		x.s.verified.note(x.times, block)
	}
	return nil
}

var (
	blockBuffers = sync.Pool{New: func() any { return new([blockSize]byte) }}
	pieceBuffers = sync.Pool{New: func() any { return new([pieceSize]byte) }}
)

// readLimits bound what all reads of a Service take together.
type readLimits struct {
	files  chan struct{} // one for each read of a file that is under way
	blocks chan struct{} // one for each block that is held for its client
}

// filesAtOnce is how many files are read at once, each of which may block a
// thread. What comes over a network is not counted: of a store that stalls for
// some readers all the others would wait.
const filesAtOnce = 64

// newReadLimits gives the limits where blocks of so many bytes may be held.
func newReadLimits(held int64) *readLimits {
	return &readLimits{
		files:  make(chan struct{}, filesAtOnce),
		blocks: make(chan struct{}, max(held, 0)/blockSize),
	}
}

// begin waits until a further file may be read.
func (l *readLimits) begin(ctx context.Context) error {
	select {
	case l.files <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *readLimits) end() { <-l.files }

// takeBlock reports whether a further block may be held. It does not wait: who
// holds one may be as slow as its client is.
func (l *readLimits) takeBlock() bool {
	select {
	case l.blocks <- struct{}{}:
		return true
	default:
		return false
	}
}

func (l *readLimits) giveBlock() { <-l.blocks }
