package engine

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// The form of SQLite's log: https://sqlite.org/fileformat2.html#the_write_ahead_log.
const (
	logHeaderSize   = 32
	frameHeaderSize = 24
	logMagic        = 0x377f0682 // checksums of little-endian words; with the last bit, big-endian
	defaultPageSize = 4096
	sectorSize      = 512 // bytes that a disk writes completely or not at all
)

// checkLog returns a logDamage if a database's log has whole commits behind a damaged frame. No
// process may have the database open. SQLite takes such a frame for the log's end, and would drop
// these commits without an error.
//
// A power failure leaves no such log, because each commit is synced before the next one's frames
// are written. It can leave the last commit in any state, so damage there is not reported.
func checkLog(path string) error {
	name := path + "-wal"
	found, err := scanLog(name)
	if err != nil || found == nil {
		return err
	}
	// A process that has it open may have begun it anew meanwhile.
	if again, err := scanLog(name); err != nil || again == nil || *again != *found {
		return err
	}
	return found
}

// logDamage is an ErrCorrupt that describes the damage in a log.
type logDamage struct {
	name    string
	salt    [8]byte // the log's, which it has since it was begun
	offset  int64   // where the first damaged frame begins, or 0 for the log's header
	commits int     // frames behind it that are whole and end a transaction
}

func (d *logDamage) Error() string {
	return fmt.Sprintf("%s is damaged at byte %d, with %d whole commits behind that, which SQLite would drop; nothing was changed: "+
		"restore a backup, or move this file away, keep it, and run sluice recover", d.name, d.offset, d.commits)
}

// Unwrap returns ErrCorrupt.
func (d *logDamage) Unwrap() error { return ErrCorrupt }

// scanLog returns the damage in a log, or nil if there is none.
func scanLog(name string) (_ *logDamage, err error) {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	var header [logHeaderSize]byte
	if _, err := f.ReadAt(header[:], 0); err != nil {
		return nil, notAtEnd(err)
	}
	magic := binary.BigEndian.Uint32(header[:])
	pageSize := int64(binary.BigEndian.Uint32(header[8:]))
	orders := []binary.ByteOrder{binary.LittleEndian, binary.BigEndian}
	if magic&^1 == logMagic {
		if sumOf(orders[magic&1], header[:24]) == sumAt(header[24:]) {
			return scanFrames(f, header[:], pageSize, orders[magic&1])
		}
	}
	// The header is damaged: the frames have the values that are needed of it.
	for _, order := range orders {
		if found, err := scanFrames(f, header[:], defaultPageSize, order); found != nil || err != nil {
			return found, err
		}
	}
	return nil, nil
}

// notAtEnd returns an error unless it is the file's end.
func notAtEnd(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}

// scanFrames looks for whole commits behind the first frame that is not whole, or behind a header
// that does not have its checksum.
//
// A frame is whole if it has the log's salt, and the checksum that follows from its content and the
// frame's before it. Frames that were written before the log was begun anew have another salt.
func scanFrames(f *os.File, header []byte, pageSize int64, order binary.ByteOrder) (*logDamage, error) {
	r := bufio.NewReaderSize(io.NewSectionReader(f, logHeaderSize, 1<<62), 1<<20)
	frame := make([]byte, frameHeaderSize+pageSize)
	before, salt := sumAt(header[24:]), [8]byte(header[16:])
	var found *logDamage
	ended := 0 // transactions that a damaged frame is known to have ended
	if binary.BigEndian.Uint32(header)&^1 != logMagic || sumOf(order, header[:24]) != before {
		first := make([]byte, frameHeaderSize)
		if _, err := f.ReadAt(first, logHeaderSize); err != nil {
			return nil, notAtEnd(err)
		}
		salt = [8]byte(first[8:])
		found, ended = &logDamage{name: f.Name(), salt: salt}, 1 // a log without a synced header has no frames
	}
	for offset := int64(logHeaderSize); ; offset += int64(len(frame)) {
		if _, err := io.ReadFull(r, frame); err != nil {
			if found != nil && (found.commits == 0 || found.commits+ended < 2) {
				found = nil
			}
			return found, notAtEnd(err)
		}
		ours, commit := [8]byte(frame[8:]) == salt, binary.BigEndian.Uint32(frame[4:]) != 0
		sum := before.add(order, frame[:8]).add(order, frame[frameHeaderSize:])
		before = sumAt(frame[16:])
		switch whole := ours && sum == before; {
		case !whole && found == nil:
			found = &logDamage{name: f.Name(), salt: salt, offset: offset}
			if ours && commit && offset%sectorSize <= sectorSize-frameHeaderSize {
				ended = 1 // its header was written as a whole
			}
		case whole && commit && found != nil:
			found.commits++
		}
	}
}

// logSum is SQLite's checksum in a log.
type logSum [2]uint32

// sumAt returns the checksum that b begins with.
func sumAt(b []byte) logSum {
	return logSum{binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:])}
}

// sumOf returns the checksum of b alone.
func sumOf(order binary.ByteOrder, b []byte) logSum { return (logSum{}).add(order, b) }

// add returns the checksum with b, which has a multiple of eight bytes.
func (s logSum) add(order binary.ByteOrder, b []byte) logSum {
	for ; len(b) >= 8; b = b[8:] {
		s[0] += order.Uint32(b) + s[1]
		s[1] += order.Uint32(b[4:]) + s[0]
	}
	return s
}
