package cached

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"sync"

	"sluice/bytestore"
	"sluice/internal/vfs"
)

const (
	// segmentSize is the unit of checksums in bytes. A small read costs one segment, and a slow
	// reader holds one in memory.
	segmentSize = 32 << 10
	segments    = blockSize / segmentSize

	maxName = 64
)

// header begins a block's file. Numbers are little-endian:
//
//	0    "sluiceb1"
//	8    length of the bytes that follow the header, 4 bytes
//	12   number of the block, 8 bytes
//	20   length of the name, 1 byte, and the name, padded with zeros to 64
//	88   CRC-32C of each segment of 32 KiB, 4 bytes each, zero for missing segments
//	252  CRC-32C of all preceding bytes
type header struct {
	span
	sums [segments]uint32
}

const (
	magic     = "sluiceb1"
	sumsAt    = 88
	checkedAt = headerSize - 4
)

// errDamaged is returned if a file is not as it was written, or is missing.
var errDamaged = errors.New("cached: the file of a block is damaged")

func newHeader(id blockID, data []byte) *header {
	h := &header{span: span{id, int64(len(data))}}
	for i := range h.used() {
		h.sums[i] = crc32.Checksum(data[i*segmentSize:min((i+1)*segmentSize, len(data))], castagnoli)
	}
	return h
}

// used returns the number of segments.
func (h *header) used() int { return int((h.length + segmentSize - 1) / segmentSize) }

// put writes the header into b, which must have headerSize bytes.
func (h *header) put(b []byte) {
	clear(b)
	copy(b, magic)
	binary.LittleEndian.PutUint32(b[8:], uint32(h.length))
	binary.LittleEndian.PutUint64(b[12:], uint64(h.number))
	b[20] = byte(len(h.object))
	copy(b[21:], h.object)
	for i, sum := range h.sums {
		binary.LittleEndian.PutUint32(b[sumsAt+4*i:], sum)
	}
	binary.LittleEndian.PutUint32(b[checkedAt:], crc32.Checksum(b[:checkedAt], castagnoli))
}

// parseHeader parses a header. It accepts only headers that put writes.
func parseHeader(b []byte) (*header, error) {
	if len(b) != headerSize || b[20] > maxName {
		return nil, fmt.Errorf("%w: it has no valid header", errDamaged)
	}
	h := &header{span: span{
		blockID: blockID{bytestore.Name(b[21 : 21+b[20]]), int64(binary.LittleEndian.Uint64(b[12:]))},
		length:  int64(binary.LittleEndian.Uint32(b[8:])),
	}}
	if h.length < 1 || h.length > blockSize || h.number < 0 {
		return nil, fmt.Errorf("%w: its header names %d bytes of block %d", errDamaged, h.length, h.number)
	}
	for i := range h.used() {
		h.sums[i] = binary.LittleEndian.Uint32(b[sumsAt+4*i:])
	}
	var canonical [headerSize]byte
	h.put(canonical[:])
	if !bytes.Equal(b, canonical[:]) {
		return nil, fmt.Errorf("%w: its header is damaged", errDamaged)
	}
	return h, nil
}

// blockFile reads an entry's file. It must be used by one goroutine at a time.
type blockFile struct {
	*header
	entry *entry
	file  vfs.File
	pos   int64 // offset in the block at which the file is positioned

	held    *[segmentSize]byte // buffer for a segment that was read in part, or nil
	segment int                // which segment held has
}

var segmentBuffers = sync.Pool{New: func() any { return new([segmentSize]byte) }}

// openBlock opens an entry's file. After any error the file must not be used.
func openBlock(fsys vfs.FS, path string, e *entry) (_ *blockFile, err error) {
	f, err := fsys.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	var b [headerSize]byte
	if _, err := io.ReadFull(f, b[:]); err != nil {
		return nil, err
	}
	h, err := parseHeader(b[:])
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if h.span != e.span || info.Size() != headerSize+h.length {
		return nil, fmt.Errorf("%w: it belongs to another block", errDamaged)
	}
	return &blockFile{header: h, entry: e, file: f}, nil
}

// readAt reads at least one byte from the block's offset off, and at most up to its end. The bytes
// read match their checksums; after any error the file must not be used. p must not be empty, and
// off must be less than the block's length.
func (b *blockFile) readAt(p []byte, off int64) (int, error) {
	p = p[:min(int64(len(p)), b.length-off)]
	first := int(off / segmentSize)
	n := len(p)
	if off+int64(n) < b.length {
		n -= n % segmentSize // whole segments, if p begins with one
	}
	if off%segmentSize == 0 && n > 0 {
		return n, b.load(p[:n], first)
	}
	if b.held == nil || b.segment != first {
		if err := b.loadBuffer(first); err != nil {
			return 0, err
		}
	}
	start := int64(first) * segmentSize
	return copy(p, b.held[off-start:]), nil // p ends within the block
}

// loadBuffer reads a segment into the buffer.
func (b *blockFile) loadBuffer(segment int) error {
	b.releaseBuffer()
	held := segmentBuffers.Get().(*[segmentSize]byte)
	if err := b.load(held[:min(segmentSize, b.length-int64(segment)*segmentSize)], segment); err != nil {
		segmentBuffers.Put(held)
		return err
	}
	b.held, b.segment = held, segment
	return nil
}

func (b *blockFile) releaseBuffer() {
	if b.held != nil {
		segmentBuffers.Put(b.held)
		b.held = nil
	}
}

// load fills p with whole segments from the given one on, and checks them.
func (b *blockFile) load(p []byte, first int) error {
	off := int64(first) * segmentSize
	if b.pos != off {
		if _, err := b.file.Seek(headerSize+off, io.SeekStart); err != nil {
			return err
		}
	}
	b.pos = -1 // unknown if the read fails
	if _, err := io.ReadFull(b.file, p); err != nil {
		return err
	}
	b.pos = off + int64(len(p))
	for i := first; len(p) > 0; i++ {
		segment := p[:min(segmentSize, len(p))]
		if crc32.Checksum(segment, castagnoli) != b.sums[i] {
			return fmt.Errorf("%w: segment %d", errDamaged, i)
		}
		p = p[len(segment):]
	}
	return nil
}

func (b *blockFile) close() error {
	b.releaseBuffer()
	return b.file.Close()
}
