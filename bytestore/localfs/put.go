package localfs

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"sync"

	"sluice/bytestore"
	"sluice/internal/vfs"
)

// bufferSize is how much of a source is gathered for one write: large enough
// that the system calls do not count. A Put holds its buffer for as long as its
// source takes, so only largePuts have that much at once, and all others
// smallBufferSize.
const (
	bufferSize      = 512 << 10
	largePuts       = 64
	smallBufferSize = 32 << 10
)

var (
	buffers      = sync.Pool{New: func() any { return new([bufferSize]byte) }}
	smallBuffers = sync.Pool{New: func() any { return new([smallBufferSize]byte) }}
)

// withBuffer calls f with a buffer that there is room for.
func (s *Store) withBuffer(f func(buf []byte) error) error {
	select {
	case s.large <- struct{}{}:
		defer func() { <-s.large }()
		buf := buffers.Get().(*[bufferSize]byte)
		defer buffers.Put(buf)
		return f(buf[:])
	default:
		buf := smallBuffers.Get().(*[smallBufferSize]byte)
		defer smallBuffers.Put(buf)
		return f(buf[:])
	}
}

// Put implements bytestore.Store. It is refused with ErrNoSpace before src is
// read when the size is known and does not fit above the reserve and what other
// Puts have claimed; later, when others have used up the room meanwhile: a Put
// claims at most about 4 MiB ahead of its source, so that slow sources do not
// keep the disk from others. It fails with ErrOverloaded when the process has
// no file descriptor left; with [ErrSyncFailed] after an fsync has failed. The context is looked at between
// reads of src: a Read that blocks is not interrupted, and once the object is
// written the Put runs to its end. An object appears to Open and List shortly
// before its Put returns. ErrExists says nothing of whether the object that was
// there first is durable yet: its own Put does.
func (s *Store) Put(ctx context.Context, key bytestore.Key, src io.Reader, size int64) error {
	if !key.Valid() {
		return fmt.Errorf("localfs: put %q: %w", key, bytestore.ErrInvalidKey)
	}
	s.puts.RLock()
	defer s.puts.RUnlock()
	if err := s.put(ctx, key, src, size); err != nil {
		if vfs.IsFull(err) {
			err = s.space.explain(err, size)
		}
		return fmt.Errorf("localfs: put %s: %w", key, err)
	}
	return nil
}

func (s *Store) put(ctx context.Context, key bytestore.Key, src io.Reader, size int64) error {
	if s.closed.Load() {
		return fs.ErrClosed
	}
	if err := errors.Join(s.trusted(), ctx.Err()); err != nil {
		return err
	}
	if size < 0 && size != bytestore.UnknownSize {
		return fmt.Errorf("%w: %d bytes", bytestore.ErrSize, size)
	}
	first := size
	if size == bytestore.UnknownSize {
		first = bufferSize
	}
	room, err := s.space.claim(first)
	if err != nil {
		return err
	}
	defer room.release()
	temp := filepath.Join(s.folder(key).path, tempPrefix+rand.Text())
	err = s.write(ctx, temp, src, size, room)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return errors.Join(err, s.remove(temp))
	}
	return s.publish(temp, key)
}

// write makes a file that holds exactly size bytes of src, and syncs it.
func (s *Store) write(ctx context.Context, name string, src io.Reader, size int64, room *claim) error {
	f, err := s.fs.Create(name)
	if err != nil {
		return native(err)
	}
	err = s.withBuffer(func(buf []byte) error { return fill(ctx, f, src, size, room, buf) })
	if err != nil {
		return errors.Join(err, f.Close())
	}
	if err := f.Sync(); err != nil {
		err = native(err)
		// A full disk or quota that shows this late costs this file alone,
		// and it goes; anything else may be the end of the disk.
		if !errors.Is(err, bytestore.ErrNoSpace) {
			err = s.distrust(err)
		}
		return errors.Join(err, f.Close())
	}
	return native(f.Close())
}

// fill writes exactly size bytes of src to f, or all when it is UnknownSize, by
// way of buf.
func fill(ctx context.Context, f io.Writer, src io.Reader, size int64, room *claim, buf []byte) error {
	written, end := int64(0), false
	for !end {
		left := int64(len(buf))
		if size != bytestore.UnknownSize {
			left = size - written
		}
		if err := room.cover(left); err != nil {
			return err
		}
		var n int
		var err error
		if n, end, err = readFull(ctx, src, buf); err != nil {
			return fmt.Errorf("read source: %w", err)
		}
		if size != bytestore.UnknownSize && int64(n) > size-written {
			return fmt.Errorf("%w: it goes on after %d bytes", bytestore.ErrSize, size)
		}
		if n == 0 {
			break
		}
		if _, err := f.Write(buf[:n]); err != nil {
			return native(err)
		}
		written += int64(n)
		room.spend(int64(n))
	}
	if size != bytestore.UnknownSize && written != size {
		return fmt.Errorf("%w: it ended after %d of %d bytes", bytestore.ErrSize, written, size)
	}
	return nil
}

// readFull reads until buf is full, or to the end of src, or until src fails.
// Unlike with io.ReadFull an end is not an error, and io.ErrUnexpectedEOF comes
// from src alone.
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

// publish gives the synced file its name, durably, or leaves nothing of it.
func (s *Store) publish(temp string, key bytestore.Key) error {
	target := s.path(key)
	if err := s.fs.Rename(temp, target); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return errors.Join(fmt.Errorf("%w: %w", bytestore.ErrExists, err), s.remove(temp))
		}
		gone := s.fs.Remove(temp)
		if errors.Is(gone, fs.ErrNotExist) {
			gone = s.remove(target) // the rename was done, only its answer failed
		}
		return errors.Join(native(err), gone)
	}
	if err := s.folder(key).sync(); err != nil {
		return errors.Join(err, s.remove(target))
	}
	// A sync of this folder that failed before ours may have cost our entry,
	// and the kernel reports such a thing once.
	if err := s.trusted(); err != nil {
		return errors.Join(err, s.remove(target))
	}
	return nil
}

// remove removes a file that may be gone already.
func (s *Store) remove(name string) error {
	if err := s.fs.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// native adds the contract's error to one of the file system.
func native(err error) error {
	switch {
	case vfs.IsFull(err):
		return fmt.Errorf("%w: %w", bytestore.ErrNoSpace, err)
	case vfs.IsTooManyFiles(err):
		return fmt.Errorf("%w: %w", bytestore.ErrOverloaded, err)
	}
	return err
}
