package localfs

import (
	"errors"
	"io"
	"io/fs"
	"syscall"

	"sluice/bytestore"
)

// section reads an object's file, which other readers may have open too, from an offset of its own.
type section struct {
	files  *openFiles
	file   *openFile
	off    int64
	closed bool
}

var _ bytestore.Positioned = (*section)(nil)

// Read implements io.Reader.
func (s *section) Read(p []byte) (int, error) {
	if s.closed {
		return 0, fs.ErrClosed
	}
	n, err := s.file.ReadAt(p, s.off)
	s.off += int64(n)
	if err != nil && s.off < s.file.size {
		s.files.drop(s.file.name) // it is shorter than it was, or the disk fails
	}
	if n > 0 && errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

// Seek implements io.Seeker.
func (s *section) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += s.off
	case io.SeekEnd:
		offset += s.file.size
	}
	if offset < 0 {
		return 0, errors.New("localfs: seek to a negative offset")
	}
	s.off = offset
	return offset, nil
}

// Position implements bytestore.Positioned.
func (s *section) Position() (file syscall.RawConn, offset int64) { return s.file.raw, s.off }

// Close implements io.Closer.
func (s *section) Close() error {
	if s.closed {
		return fs.ErrClosed
	}
	s.closed = true
	return s.files.release(s.file)
}
