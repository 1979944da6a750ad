package bytestore

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// Source reads a Put's source for an implementation of Store and checks its size. It must be used
// by one goroutine at a time.
type Source struct {
	ctx  context.Context
	src  io.Reader
	size int64 // as declared, or UnknownSize
	read int64
}

// NewSource returns a Source for a Put's arguments. It returns ErrSize if size is negative and not
// UnknownSize.
func NewSource(ctx context.Context, src io.Reader, size int64) (Source, error) {
	if size < 0 && size != UnknownSize {
		return Source{}, fmt.Errorf("%w: %d bytes", ErrSize, size)
	}
	return Source{ctx: ctx, src: src, size: size}, nil
}

// Fill reads until buf is full or the source ends. It returns the number of bytes read and whether
// the source has ended, with its declared size. It calls progress, which may be nil, after each
// read that returned bytes. Fill returns ErrSize as soon as the source is shorter or longer than
// declared, the source's wrapped error, and the context's error, which it checks before each read.
func (s *Source) Fill(buf []byte, progress func()) (n int, end bool, err error) {
	for empty := 0; n < len(buf) && !end; {
		if err := s.ctx.Err(); err != nil {
			return 0, false, fmt.Errorf("read source: %w", err)
		}
		m, err := s.src.Read(buf[n:])
		n += m
		switch {
		case err == io.EOF: // not a wrapped one, which is a failure in the source
			end = true
		case err != nil:
			return 0, false, fmt.Errorf("read source: %w", err)
		case m == 0:
			if empty++; empty == 100 {
				return 0, false, fmt.Errorf("read source: %w", io.ErrNoProgress)
			}
		default:
			empty = 0
		}
		if m > 0 && progress != nil {
			progress()
		}
	}
	s.read += int64(n)
	switch {
	case s.size != UnknownSize && s.read > s.size:
		return 0, false, fmt.Errorf("%w: it has more than %d bytes", ErrSize, s.size)
	case s.size != UnknownSize && end && s.read < s.size:
		return 0, false, fmt.Errorf("%w: it ended after %d of %d bytes", ErrSize, s.read, s.size)
	}
	return n, end, nil
}

// ReadFull reads exactly len(buf) bytes from r, a reader that Open returned, and returns how many
// were read. If r ends early, the error wraps both ErrTruncated and io.EOF; otherwise it is the
// error of r.
func ReadFull(r io.Reader, buf []byte) (n int, err error) {
	for n < len(buf) && err == nil {
		var m int
		m, err = r.Read(buf[n:])
		n += m
	}
	switch {
	case n == len(buf):
		return n, nil
	case errors.Is(err, io.EOF):
		return n, fmt.Errorf("%w: it ended after %d of %d bytes: %w", ErrTruncated, n, len(buf), err)
	}
	return n, err
}
