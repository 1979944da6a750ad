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

	"sluice/bytestore"
	"sluice/internal/vfs"
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
	room   *room  // for all bodies
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
	in    *staging
	size  int64
	taken int64 // of the room
	claim *claim
	sum   hash.Hash // SHA-256

	// Where the bytes are. A body that has to give way loses them while another
	// goroutine waits for more of it.
	mu       sync.Mutex
	buf      *[]byte  // nil, or a pooled buffer
	file     *os.File // nil, or a file without a name
	released bool
}

// stage reads src to its end, which comes after size bytes unless that is
// bytestore.UnknownSize. The caller releases what it gets.
func (s *staging) stage(ctx context.Context, src io.Reader, size int64) (_ *staged, err error) {
	b := &staged{in: s, sum: sha256.New()}
	// A file without a name that does not close has lost nothing.
	b.claim = s.room.enter(ctx, size, func() { _ = b.free() })
	defer func() {
		if err != nil {
			err = errors.Join(err, b.release())
		}
	}()
	expected := int64(smallBuffer)
	if size != bytestore.UnknownSize {
		expected = size
	}
	if expected > s.room.limit {
		return nil, fmt.Errorf("%w: a body of %d bytes cannot be staged, as at most %d may be", bytestore.ErrOverloaded, expected, s.room.limit)
	}
	b.taken = min(expected, claimStep)
	if err := s.room.take(ctx, b.claim, b.taken); err != nil {
		return nil, err
	}
	if err := b.place(func() error { return b.makeRoom(expected) }); err != nil {
		return nil, err
	}
	if err := b.fill(ctx, src, size); err != nil {
		return nil, err
	}
	return b, s.room.complete(b.claim)
}

// fill writes exactly size bytes of src, or all when it is UnknownSize.
func (b *staged) fill(ctx context.Context, src io.Reader, size int64) error {
	buf := smallBuffers.Get().(*[]byte)
	defer smallBuffers.Put(buf)
	for end := false; !end; {
		var n int
		var err error
		if n, end, err = b.readFull(ctx, src, *buf); err != nil {
			return fmt.Errorf("read source: %w", err)
		}
		if size != bytestore.UnknownSize && int64(n) > size-b.size {
			return fmt.Errorf("%w: it goes on after %d bytes", bytestore.ErrSize, size)
		}
		if err := b.write(ctx, (*buf)[:n]); err != nil {
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
func (b *staged) readFull(ctx context.Context, src io.Reader, buf []byte) (n int, end bool, err error) {
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
			b.in.room.came(b.claim)
		} else if empty++; empty == 100 {
			return n, false, io.ErrNoProgress
		}
	}
	return n, false, nil
}

// write appends p.
func (b *staged) write(ctx context.Context, p []byte) error {
	end := b.size + int64(len(p))
	if end > b.taken {
		b.taken = max(end, (end+claimStep-1)/claimStep*claimStep)
		if err := b.in.room.take(ctx, b.claim, b.taken); err != nil {
			return err
		}
	}
	b.sum.Write(p)
	return b.place(func() error {
		if err := b.makeRoom(end); err != nil {
			return err
		}
		if b.buf != nil {
			copy((*b.buf)[b.size:], p)
		} else if _, err := b.file.Write(p); err != nil {
			return unstaged(err)
		}
		b.size = end
		return nil
	})
}

// place does something with the place of the body, unless that had to give way.
func (b *staged) place(do func() error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.released {
		return b.in.room.gaveWay()
	}
	return do()
}

// claimStep is how much a body claims at a time: what it has not sent yet must
// not keep others out.
const claimStep = 1 << 20

// makeRoom sees to a place that takes n bytes, and moves there what is staged.
func (b *staged) makeRoom(n int64) error {
	if b.file != nil || b.buf != nil && n <= int64(len(*b.buf)) {
		return nil
	}
	before := b.buf
	b.buf = b.in.buffer(n)
	if b.buf == nil {
		var err error
		if b.file, err = vfs.CreateUnnamed(b.in.dir, stagePattern); err != nil {
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

// reader reads the body from its beginning. It can seek.
func (b *staged) reader() io.ReadSeeker {
	if b.buf != nil {
		return bytes.NewReader((*b.buf)[:b.size])
	}
	return io.NewSectionReader(b.file, 0, b.size)
}

// sha256Hex is the body's SHA-256 as requests carry it.
func (b *staged) sha256Hex() string { return hex.EncodeToString(b.sum.Sum(nil)) }

// release gives back all that the body holds, and its claim.
func (b *staged) release() error {
	err := b.free()
	b.in.room.leave(b.claim)
	return err
}

// free gives back what the body holds.
func (b *staged) free() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.released {
		return nil
	}
	b.released = true
	if b.buf != nil {
		b.in.putBuffer(b.buf)
		b.buf = nil
	}
	if b.file != nil {
		return b.file.Close()
	}
	return nil
}

// unstaged wraps an error of the staging folder, as bytestore.ErrOverloaded if a
// retry may succeed.
func unstaged(err error) error {
	if err == nil {
		return nil
	}
	if vfs.IsFull(err) || vfs.IsTooManyFiles(err) {
		return fmt.Errorf("%w: the staging folder: %w", bytestore.ErrOverloaded, err)
	}
	return fmt.Errorf("the staging folder: %w", err)
}
