package blob

import "sluice/integrity"

// Range is a content's range: N bytes from offset Off. It must lie within the content.
type Range struct{ Off, N int64 }

// lookahead buffers what later ranges in the same request need from the blocks being read, so that
// a block is not read once for each range. It must be used by one goroutine.
type lookahead struct {
	limits *readLimits
	ranges []Range
	next   int // the index of the next range to be written

	kept    []keptEnds // for each range; nil if there is only one range
	buf     []byte
	used    int   // bytes of buf
	pending int64 // bytes of buf that have not been written yet
	free    func()
}

// keptEnds is what was buffered for a range: from its first block and from its last. Other ranges
// do not share the blocks between them.
type keptEnds struct{ head, tail []byte }

// keptBytes are a block's bytes to be buffered.
type keptBytes struct {
	block int64 // the block's number in its extent
	off   int64 // offset in the block
	dst   []byte
}

func newLookahead(limits *readLimits, ranges []Range) lookahead {
	l := lookahead{limits: limits, ranges: ranges}
	if len(ranges) > 1 {
		l.kept = make([]keptEnds, len(ranges))
	}
	return l
}

// begin returns the next range and what was buffered of it.
func (l *lookahead) begin() (Range, keptEnds) {
	var ends keptEnds
	if l.kept != nil {
		ends = l.kept[l.next]
	}
	l.next++
	return l.ranges[l.next-1], ends
}

// written releases what was buffered for a range.
func (l *lookahead) written(ends keptEnds) {
	if l.pending -= int64(len(ends.head) + len(ends.tail)); l.pending == 0 {
		l.used = 0
	}
}

// reserve reserves space for the bytes that later ranges need from a block. The block has the given
// number and holds the content's bytes [start, end).
func (l *lookahead) reserve(block, start, end int64) (list []keptBytes) {
	for i := l.next; i < len(l.ranges); i++ {
		first, last := l.ranges[i].Off, l.ranges[i].Off+l.ranges[i].N
		lo, hi := max(start, first), min(end, last)
		if lo >= hi {
			continue
		}
		dst := &l.kept[i].tail
		if lo == first {
			dst = &l.kept[i].head
		}
		if *dst == nil {
			if *dst = l.alloc(hi - lo); *dst != nil {
				list = append(list, keptBytes{block, lo - start, *dst})
			}
		}
	}
	return list
}

// alloc returns n bytes from the buffer, or nil if fewer are left.
func (l *lookahead) alloc(n int64) []byte {
	if l.buf == nil {
		l.acquire()
	}
	if n > int64(len(l.buf)-l.used) {
		return nil
	}
	b := l.buf[l.used : l.used+int(n)]
	l.used += int(n)
	l.pending += n
	return b
}

// acquire acquires a buffer for a block or, if there is none, one for a piece.
func (l *lookahead) acquire() {
	if !l.limits.acquireBlock() {
		buf := pieceBuffers.Get().(*[pieceSize]byte)
		l.buf, l.free = buf[:], func() { pieceBuffers.Put(buf) }
		return
	}
	buf := blockBuffers.Get().(*[integrity.BlockSize]byte)
	l.buf, l.free = buf[:], func() {
		blockBuffers.Put(buf)
		l.limits.releaseBlock()
	}
}

// close releases the buffer. It is idempotent.
func (l *lookahead) close() {
	if l.free != nil {
		l.free()
		l.free, l.buf = nil, nil
	}
}
