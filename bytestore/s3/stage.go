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

// A body is staged in a small buffer, a large buffer or a file: the smallest that is large enough.
const (
	smallBuffer = 64 << 10
	largeBuffer = 1 << 20
)

var (
	smallBuffers = sync.Pool{New: func() any { b := make([]byte, smallBuffer); return &b }}
	largeBuffers = sync.Pool{New: func() any { b := make([]byte, largeBuffer); return &b }}
)

// stagePattern matches the names that staging files have until their name is removed.
const stagePattern = "sluice-stage-*"

type staging struct {
	dir    string
	quota  *stagingQuota // for all bodies
	memory budget        // of those in buffers
}

// prepare creates the folder, accessible to its owner only, and removes files that remain after a
// crash.
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

// remove removes a file, which need not exist.
func remove(name string) error {
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// staged is a complete body that can be sent as often as needed.
type staged struct {
	in       *staging
	size     int64
	reserved int64 // bytes in the quota
	res      *reservation
	sum      hash.Hash // SHA-256

	// Where the bytes are. A body may be evicted, and lose its storage, while another goroutine
	// waits for more of it.
	mu       sync.Mutex
	buf      *[]byte  // a pooled buffer, or nil
	file     *os.File // a file without a name, or nil
	released bool
}

// stage reads src to its end, which must be after size bytes unless size is bytestore.UnknownSize.
// The caller must release the result.
func (s *staging) stage(ctx context.Context, src *bytestore.Source, size int64) (_ *staged, err error) {
	b := &staged{in: s, sum: sha256.New()}
	// An error of closing an evicted body's file has no consequence.
	b.res = s.quota.admit(ctx, size, func() { _ = b.free() })
	defer func() {
		if err != nil {
			err = errors.Join(err, b.release())
		}
	}()
	expected := int64(smallBuffer)
	if size != bytestore.UnknownSize {
		expected = size
	}
	if expected > s.quota.limit {
		return nil, fmt.Errorf("%w: a body of %d bytes cannot be staged: the limit is %d bytes", bytestore.ErrOverloaded, expected, s.quota.limit)
	}
	b.reserved = min(expected, reserveStep)
	if err := s.quota.grow(ctx, b.res, b.reserved); err != nil {
		return nil, err
	}
	if err := b.withStorage(func() error { return b.ensureStorage(expected) }); err != nil {
		return nil, err
	}
	if err := b.fill(ctx, src); err != nil {
		return nil, err
	}
	return b, s.quota.complete(b.res)
}

func (b *staged) fill(ctx context.Context, src *bytestore.Source) error {
	buf := smallBuffers.Get().(*[]byte)
	defer smallBuffers.Put(buf)
	progress := func() { b.in.quota.progress(b.res) }
	for end := false; !end; {
		var n int
		var err error
		if n, end, err = src.Fill(*buf, progress); err != nil {
			return err
		}
		if err := b.write(ctx, (*buf)[:n]); err != nil {
			return err
		}
	}
	return nil
}

func (b *staged) write(ctx context.Context, p []byte) error {
	end := b.size + int64(len(p))
	if end > b.reserved {
		b.reserved = max(end, (end+reserveStep-1)/reserveStep*reserveStep)
		if err := b.in.quota.grow(ctx, b.res, b.reserved); err != nil {
			return err
		}
	}
	b.sum.Write(p)
	return b.withStorage(func() error {
		if err := b.ensureStorage(end); err != nil {
			return err
		}
		if b.buf != nil {
			copy((*b.buf)[b.size:], p)
		} else if _, err := b.file.Write(p); err != nil {
			return stagingError(err)
		}
		b.size = end
		return nil
	})
}

// withStorage calls do with the storage locked. It returns an error if the body was evicted.
func (b *staged) withStorage(do func() error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.released {
		return b.in.quota.errEvicted()
	}
	return do()
}

// reserveStep is how many bytes a body reserves at a time, so that a body does not keep out other
// bodies before it is received.
const reserveStep = 1 << 20

// ensureStorage ensures that the storage holds n bytes, and moves staged bytes if necessary.
func (b *staged) ensureStorage(n int64) error {
	if b.file != nil || b.buf != nil && n <= int64(len(*b.buf)) {
		return nil
	}
	before := b.buf
	b.buf = b.in.buffer(n)
	if b.buf == nil {
		var err error
		if b.file, err = vfs.CreateUnnamed(b.in.dir, stagePattern); err != nil {
			b.buf = before
			return stagingError(err)
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
	return stagingError(err)
}

// buffer returns a buffer for n bytes. It returns nil if there is none of that size, or if the
// limit of memory is reached.
func (s *staging) buffer(n int64) *[]byte {
	pool, size := &smallBuffers, int64(smallBuffer)
	if n > smallBuffer {
		pool, size = &largeBuffers, largeBuffer
	}
	if n > largeBuffer || !s.memory.tryAcquire(size) {
		return nil
	}
	return pool.Get().(*[]byte)
}

func (s *staging) putBuffer(b *[]byte) {
	s.memory.release(int64(len(*b)))
	if len(*b) == smallBuffer {
		smallBuffers.Put(b)
		return
	}
	largeBuffers.Put(b)
}

// reader returns a reader for the whole body.
func (b *staged) reader() io.ReadSeeker {
	if b.buf != nil {
		return bytes.NewReader((*b.buf)[:b.size])
	}
	return io.NewSectionReader(b.file, 0, b.size)
}

// sha256Hex returns the body's SHA-256 in the request header's form.
func (b *staged) sha256Hex() string { return hex.EncodeToString(b.sum.Sum(nil)) }

// release releases the storage and the reservation.
func (b *staged) release() error {
	err := b.free()
	b.in.quota.release(b.res)
	return err
}

// free releases the storage.
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

// unstaged wraps the staging folder's error, as bytestore.ErrOverloaded if a retry may succeed.
func stagingError(err error) error {
	if err == nil {
		return nil
	}
	if vfs.IsFull(err) || vfs.IsTooManyFiles(err) {
		return fmt.Errorf("%w: the staging folder: %w", bytestore.ErrOverloaded, err)
	}
	return fmt.Errorf("the staging folder: %w", err)
}
