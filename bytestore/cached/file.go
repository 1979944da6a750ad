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
	// pieceSize is how much of a block is checked at once: all that a small
	// read costs, and all that a slow reader holds in memory.
	pieceSize = 32 << 10
	pieces    = blockSize / pieceSize

	headerSize = 256
	maxKey     = 64
)

// header begins the file of a block. Numbers are little-endian:
//
//	0    "sluiceb1"
//	8    length of the bytes that follow the header, 4 bytes
//	12   number of the block, 8 bytes
//	20   length of the key, 1 byte, and the key, padded with zeros to 64
//	88   CRC-32C of each piece of 32 KiB, 4 bytes each, zero of those not there
//	252  CRC-32C of all bytes before
type header struct {
	span
	sums [pieces]uint32
}

const (
	magic     = "sluiceb1"
	sumsAt    = 88
	checkedAt = headerSize - 4
)

// errDamaged: a file is not what was written, or not there any more.
var errDamaged = errors.New("cached: the file of a block is damaged")

// newHeader is the header of a block that holds data.
func newHeader(id blockID, data []byte) *header {
	h := &header{span: span{id, int64(len(data))}}
	for i := range h.used() {
		h.sums[i] = crc32.Checksum(data[i*pieceSize:min((i+1)*pieceSize, len(data))], castagnoli)
	}
	return h
}

// used is how many pieces there are.
func (h *header) used() int { return int((h.length + pieceSize - 1) / pieceSize) }

// put writes the header into b, which has headerSize bytes.
func (h *header) put(b []byte) {
	clear(b)
	copy(b, magic)
	binary.LittleEndian.PutUint32(b[8:], uint32(h.length))
	binary.LittleEndian.PutUint64(b[12:], uint64(h.number))
	b[20] = byte(len(h.key))
	copy(b[21:], h.key)
	for i, sum := range h.sums {
		binary.LittleEndian.PutUint32(b[sumsAt+4*i:], sum)
	}
	binary.LittleEndian.PutUint32(b[checkedAt:], crc32.Checksum(b[:checkedAt], castagnoli))
}

// parseHeader reads what put has written, and nothing else.
func parseHeader(b []byte) (*header, error) {
	if len(b) != headerSize || b[20] > maxKey {
		return nil, fmt.Errorf("%w: it has no header", errDamaged)
	}
	h := &header{span: span{
		blockID: blockID{bytestore.Key(b[21 : 21+b[20]]), int64(binary.LittleEndian.Uint64(b[12:]))},
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
		return nil, fmt.Errorf("%w: its header is not whole", errDamaged)
	}
	return h, nil
}

// blockFile reads the file of an entry. It is for one goroutine at a time.
type blockFile struct {
	*header
	entry *entry
	file  vfs.File
	pos   int64 // where the file stands, counted from the end of the header

	held  *[pieceSize]byte // a piece that was read in part, nil for none
	piece int              // its number
}

var pieceBuffers = sync.Pool{New: func() any { return new([pieceSize]byte) }}

// openBlock opens the file of an entry. Any error means that it is of no use.
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
		return nil, fmt.Errorf("%w: it is of another block", errDamaged)
	}
	return &blockFile{header: h, entry: e, file: f}, nil
}

// readAt reads bytes of the block from off, at least one, and at most to its
// end. None that does not match its checksum is counted; any error means that
// the file is of no use. p is not empty, and off is less than the length.
func (b *blockFile) readAt(p []byte, off int64) (int, error) {
	p = p[:min(int64(len(p)), b.length-off)]
	first := int(off / pieceSize)
	n := len(p)
	if off+int64(n) < b.length {
		n -= n % pieceSize // whole pieces, if p begins with one
	}
	if off%pieceSize == 0 && n > 0 {
		return n, b.load(p[:n], first)
	}
	if b.held == nil || b.piece != first {
		if err := b.hold(first); err != nil {
			return 0, err
		}
	}
	start := int64(first) * pieceSize
	return copy(p, b.held[off-start:min(pieceSize, b.length-start)]), nil
}

// hold reads a piece into the buffer.
func (b *blockFile) hold(piece int) error {
	b.drop()
	held := pieceBuffers.Get().(*[pieceSize]byte)
	if err := b.load(held[:min(pieceSize, b.length-int64(piece)*pieceSize)], piece); err != nil {
		pieceBuffers.Put(held)
		return err
	}
	b.held, b.piece = held, piece
	return nil
}

// drop gives the buffer back.
func (b *blockFile) drop() {
	if b.held != nil {
		pieceBuffers.Put(b.held)
		b.held = nil
	}
}

// load fills p with whole pieces from the first on, and checks them.
func (b *blockFile) load(p []byte, first int) error {
	off := int64(first) * pieceSize
	if b.pos != off {
		if _, err := b.file.Seek(headerSize+off, io.SeekStart); err != nil {
			return err
		}
	}
	b.pos = -1 // unknown, should the read fail
	if _, err := io.ReadFull(b.file, p); err != nil {
		return err
	}
	b.pos = off + int64(len(p))
	for i := first; len(p) > 0; i++ {
		piece := p[:min(pieceSize, len(p))]
		if crc32.Checksum(piece, castagnoli) != b.sums[i] {
			return fmt.Errorf("%w: piece %d", errDamaged, i)
		}
		p = p[len(piece):]
	}
	return nil
}

func (b *blockFile) close() error {
	b.drop()
	return b.file.Close()
}
