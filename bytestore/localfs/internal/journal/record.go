package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
)

// A record is a header, a name and a body. The header has, in the order of little endian:
//
//	 0  4 bytes  magic
//	 4  4 bytes  CRC-32C from byte 8 to the name's end
//	 8  4 bytes  the body's CRC-32C
//	12  4 bytes  the body's length
//	16  1 byte   the kind
//	17  1 byte   the name's length
//	18  2 bytes  the number of durable records in the segment when it was written
//
// An earlier version has written 0 for the last of these, and ignores it.
const headerSize = 20

// MaxBody is a body's greatest length in bytes.
const MaxBody = 256 << 10

// maxName is a name's greatest length.
const maxName = 64

// Room is how many bytes a buffer for Append has before the body.
const Room = headerSize + maxName

var magic = [4]byte{'S', 'L', 'J', 1}

type kind byte

const (
	stored  kind = 1 // an object was stored
	removed kind = 2 // it was removed; the record has no body
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// encode makes the record for the body that buf has after Room bytes, and returns the record, which
// is a part of buf. It must be stamped.
func encode(k kind, name string, buf []byte) []byte {
	body := buf[Room:]
	record := buf[Room-headerSize-len(name):]
	copy(record, magic[:])
	binary.LittleEndian.PutUint32(record[8:], crc32.Checksum(body, castagnoli))
	binary.LittleEndian.PutUint32(record[12:], uint32(len(body)))
	record[16], record[17] = byte(k), byte(len(name))
	copy(record[headerSize:], name)
	return record
}

// stamp completes a record with the number of its segment's records that are durable.
func stamp(record []byte, durable int) {
	binary.LittleEndian.PutUint16(record[18:], uint16(min(durable, math.MaxUint16)))
	end := headerSize + int(record[17])
	binary.LittleEndian.PutUint32(record[4:], crc32.Checksum(record[8:end], castagnoli))
}

// record is one that was read.
type record struct {
	kind  kind
	name  string
	body  []byte
	whole bool // the body has its checksum

	durable int // records in the segment when it was written
}

// size returns how many bytes the record has in its segment.
func (r *record) size() int64 { return headerSize + int64(len(r.name)) + int64(len(r.body)) }

// errEnd is returned where a segment has no record: it ends, or has something else.
var errEnd = errors.New("journal: no further record")

// read reads the next record into buf, which must have MaxBody bytes.
func read(r io.Reader, buf []byte) (record, error) {
	var head [headerSize + maxName]byte
	if err := fill(r, head[:headerSize]); err != nil {
		return record{}, err
	}
	size, name := binary.LittleEndian.Uint32(head[12:]), int(head[17])
	if [4]byte(head[:4]) != magic || size > MaxBody || name > maxName {
		return record{}, errEnd
	}
	if err := fill(r, head[headerSize:headerSize+name]); err != nil {
		return record{}, err
	}
	if crc32.Checksum(head[8:headerSize+name], castagnoli) != binary.LittleEndian.Uint32(head[4:]) {
		return record{}, errEnd
	}
	body := buf[:size]
	if err := fill(r, body); err != nil {
		return record{}, err
	}
	return record{
		kind: kind(head[16]), name: string(head[headerSize : headerSize+name]), body: body,
		whole:   crc32.Checksum(body, castagnoli) == binary.LittleEndian.Uint32(head[8:]),
		durable: int(binary.LittleEndian.Uint16(head[18:])),
	}, nil
}

// fill reads len(b) bytes, and returns errEnd if there are fewer.
func fill(r io.Reader, b []byte) error {
	_, err := io.ReadFull(r, b)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errEnd
	}
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	return nil
}
