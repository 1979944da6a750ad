package s3

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"sluice/bytestore"
)

// A body is staged in the smallest of these that holds it: a small buffer, a
// large one, a file.
const (
	smallBuffer = 64 << 10
	largeBuffer = 1 << 20
)

var (
	smallBuffers = sync.Pool{New: func() any { b := make([]byte, smallBuffer); return &b }}
	largeBuffers = sync.Pool{New: func() any { b := make([]byte, largeBuffer); return &b }}
)

// stagePattern names staging files for the moment between their creation and
// the loss of their name.
const stagePattern = "sluice-stage-*"

// staging holds bodies on their way out.
type staging struct {
	dir    string
	total  budget // of all bodies
	memory budget // of those in buffers
}

// prepare makes the folder, for its owner alone, and removes what a crash left.
func (s *staging) prepare() error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return fmt.Errorf("the staging folder: %w", err)
	}
	left, err := filepath.Glob(filepath.Join(s.dir, stagePattern))
	if err != nil {
		return fmt.Errorf("the staging folder: %w", err)
	}
	for _, name := range left {
		if err := remove(name); err != nil {
			return fmt.Errorf("the staging folder: %w", err)
		}
	}
	return nil
}

// remove removes a file that may be gone already.
func remove(name string) error {
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// staged is a whole body, ready to be sent as often as needed.
type staged struct {
	in      *staging
	size    int64
	claimed int64     // of the total budget
	sum     hash.Hash // SHA-256
	buf     *[]byte   // nil, or a pooled buffer
	file    *os.File  // nil, or a file without a name
}

// stage reads src to its end, which comes after size bytes unless that is
// bytestore.UnknownSize. The caller releases what it gets.
func (s *staging) stage(ctx context.Context, src io.Reader, size int64) (_ *staged, err error) {
	b := &staged{in: s, sum: sha256.New()}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.release())
		}
	}()
	expected := int64(smallBuffer)
	if size != bytestore.UnknownSize {
		expected = size
	}
	if s.total.used.Load()+expected > s.total.limit {
		return nil, s.overloaded()
	}
	if err := b.claim(min(expected, claimStep)); err != nil {
		return nil, err
	}
	if err := b.makeRoom(expected); err != nil {
		return nil, err
	}
	if err := b.fill(ctx, src, size); err != nil {
		return nil, err
	}
	return b, nil
}

// fill writes exactly size bytes of src, or all when it is UnknownSize.
func (b *staged) fill(ctx context.Context, src io.Reader, size int64) error {
	buf := smallBuffers.Get().(*[]byte)
	defer smallBuffers.Put(buf)
	for end := false; !end; {
		var n int
		var err error
		if n, end, err = readFull(ctx, src, *buf); err != nil {
			return fmt.Errorf("read source: %w", err)
		}
		if size != bytestore.UnknownSize && int64(n) > size-b.size {
			return fmt.Errorf("%w: it goes on after %d bytes", bytestore.ErrSize, size)
		}
		if err := b.write((*buf)[:n]); err != nil {
			return err
		}
	}
	if size != bytestore.UnknownSize && b.size != size {
		return fmt.Errorf("%w: it ended after %d of %d bytes", bytestore.ErrSize, b.size, size)
	}
	return nil
}

// readFull reads until buf is full, or to the end of src, or until src fails.
// io.ErrUnexpectedEOF comes from src alone.
func readFull(ctx context.Context, src io.Reader, buf []byte) (n int, end bool, err error) {
	for empty := 0; n < len(buf); {
		if err := ctx.Err(); err != nil {
			return n, false, err
		}
		m, err := src.Read(buf[n:])
		n += m
		if err == io.EOF {
			return n, true, nil
		}
		if err != nil {
			return n, false, err
		}
		if m > 0 {
			empty = 0
		} else if empty++; empty == 100 {
			return n, false, io.ErrNoProgress
		}
	}
	return n, false, nil
}

// write appends p.
func (b *staged) write(p []byte) error {
	end := b.size + int64(len(p))
	if err := b.claim(end); err != nil {
		return err
	}
	if err := b.makeRoom(end); err != nil {
		return err
	}
	b.sum.Write(p)
	if b.buf != nil {
		copy((*b.buf)[b.size:], p)
	} else if _, err := b.file.Write(p); err != nil {
		return unstaged(err)
	}
	b.size = end
	return nil
}

// claimStep is how much a body claims at a time: what it has not sent yet must
// not keep others out.
const claimStep = 1 << 20

// claim makes sure that n bytes of the budget are the body's own.
func (b *staged) claim(n int64) error {
	if n <= b.claimed {
		return nil
	}
	more := n - b.claimed
	if b.claimed > 0 {
		more = (n+claimStep-1)/claimStep*claimStep - b.claimed
	}
	if !b.in.total.take(more) {
		return b.in.overloaded()
	}
	b.claimed += more
	return nil
}

func (s *staging) overloaded() error {
	return fmt.Errorf("%w: bodies of %d bytes wait to be sent already, and at most %d may",
		bytestore.ErrOverloaded, s.total.used.Load(), s.total.limit)
}

// makeRoom sees to a place that takes n bytes, and moves there what is staged.
func (b *staged) makeRoom(n int64) error {
	if b.file != nil || b.buf != nil && n <= int64(len(*b.buf)) {
		return nil
	}
	before := b.buf
	b.buf = b.in.buffer(n)
	if b.buf == nil {
		var err error
		if b.file, err = b.in.newFile(); err != nil {
			b.buf = before
			return unstaged(err)
		}
	}
	if before == nil {
		return nil
	}
	defer b.in.putBuffer(before)
	if b.buf != nil {
		copy(*b.buf, (*before)[:b.size])
		return nil
	}
	_, err := b.file.Write((*before)[:b.size])
	return unstaged(err)
}

// buffer is one for n bytes, or nil when there is none of that size, or when
// buffers hold as much as they may.
func (s *staging) buffer(n int64) *[]byte {
	pool, size := &smallBuffers, int64(smallBuffer)
	if n > smallBuffer {
		pool, size = &largeBuffers, largeBuffer
	}
	if n > largeBuffer || !s.memory.take(size) {
		return nil
	}
	return pool.Get().(*[]byte)
}

func (s *staging) putBuffer(b *[]byte) {
	s.memory.give(int64(len(*b)))
	if len(*b) == smallBuffer {
		smallBuffers.Put(b)
		return
	}
	largeBuffers.Put(b)
}

// newFile makes a file that is gone as soon as it is closed, also by a crash.
func (s *staging) newFile() (*os.File, error) {
	f, err := os.CreateTemp(s.dir, stagePattern)
	if err != nil {
		return nil, err
	}
	if err := remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// reader reads the body from its beginning. It can seek.
func (b *staged) reader() io.ReadSeeker {
	if b.buf != nil {
		return bytes.NewReader((*b.buf)[:b.size])
	}
	return io.NewSectionReader(b.file, 0, b.size)
}

// sha256Hex is the body's SHA-256 as requests carry it.
func (b *staged) sha256Hex() string { return hex.EncodeToString(b.sum.Sum(nil)) }

// release gives back all that the body holds.
func (b *staged) release() error {
	b.in.total.give(b.claimed)
	b.claimed = 0
	if b.buf != nil {
		b.in.putBuffer(b.buf)
		b.buf = nil
	}
	if b.file != nil {
		return b.file.Close()
	}
	return nil
}

// unstaged names the errors of the staging folder that pass.
func unstaged(err error) error {
	for _, passing := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EMFILE, syscall.ENFILE} {
		if errors.Is(err, passing) {
			return fmt.Errorf("%w: the staging folder: %w", bytestore.ErrOverloaded, err)
		}
	}
	if err != nil {
		return fmt.Errorf("the staging folder: %w", err)
	}
	return nil
}
