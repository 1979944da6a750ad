package localfs

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"sluice/bytestore"
	"sluice/internal/vfs"
)

// Put implements bytestore.Store. In addition to the contract's errors, it returns
//
//   - ErrNoSpace before it reads src, if size is known and does not fit above the reserve and other
//     Puts' reservations, and later if the space was used since. A Put reserves at most about 4 MiB
//     more than it has written, so that slow sources do not fill the disk with reservations;
//   - ErrOverloaded if the process has no file descriptor left;
//   - [ErrSyncFailed] after an fsync has failed.
//
// It checks the context between reads of src: it does not interrupt a Read that blocks, and once
// the object is written the Put is completed. An object becomes visible to Open and List shortly
// before its Put returns. ErrExists does not imply that the existing object is durable already:
// that is reported by its own Put.
func (s *Store) Put(ctx context.Context, name bytestore.Name, src io.Reader, size int64) error {
	return s.within(name, size, func() error {
		temp, err := s.writeTemp(ctx, name, src, size, flushSync)
		if err != nil {
			return err
		}
		return s.publish(temp, name)
	})
}

// within calls put while the store is kept from being closed, and explains its error.
func (s *Store) within(name bytestore.Name, size int64, put func() error) error {
	if !name.Valid() {
		return fmt.Errorf("localfs: put %q: %w", name, bytestore.ErrInvalidName)
	}
	s.puts.RLock()
	defer s.puts.RUnlock()
	if err := put(); err != nil {
		if vfs.IsFull(err) {
			err = s.space.explain(err, size)
		}
		return fmt.Errorf("localfs: put %s: %w", name, err)
	}
	return nil
}

// flush is how a file's written bytes get to disk.
type flush int

const (
	flushBegin flush = iota // the system begins to write them to disk
	flushSync               // they are synced
)

// writeTemp writes the bytes of src to a temporary file in the object's folder. It leaves no file
// if it returns an error.
func (s *Store) writeTemp(ctx context.Context, name bytestore.Name, src io.Reader, size int64, end flush) (temp string, err error) {
	if s.closed.Load() {
		return "", fs.ErrClosed
	}
	if err := errors.Join(s.Err(), ctx.Err()); err != nil {
		return "", err
	}
	source, err := bytestore.NewSource(ctx, src, size)
	if err != nil {
		return "", err
	}
	first := size
	if size == bytestore.UnknownSize {
		first = bufferSize
	}
	res, err := s.space.reserve(first)
	if err != nil {
		return "", err
	}
	defer res.release()
	temp = filepath.Join(s.folder(name).path, tempPrefix+rand.Text())
	err = s.write(temp, &source, size, res, end)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return "", errors.Join(err, s.remove(temp))
	}
	return temp, nil
}

// write creates a file with the bytes of src.
func (s *Store) write(name string, src *bytestore.Source, size int64, res *reservation, end flush) error {
	f, err := s.fs.Create(name)
	if err != nil {
		return contractError(err)
	}
	err = s.buffers.with(func(buf []byte) error { return copySource(f, src, size, res, buf) })
	if err != nil {
		return errors.Join(err, f.Close())
	}
	if end == flushBegin {
		vfs.StartWriteback(f, 0, 0)
	}
	if end != flushSync {
		return contractError(f.Close())
	}
	if err := f.Sync(); err != nil {
		err = contractError(err)
		// A disk or quota that turns out to be full here affects only this file, which is removed.
		// Anything else may be the disk's failure.
		if !errors.Is(err, bytestore.ErrNoSpace) {
			err = s.syncFailed(err)
		}
		return errors.Join(err, f.Close())
	}
	return contractError(f.Close())
}

// writebackStep is how many bytes are written before the system is asked to begin to write them to
// disk. Otherwise it would begin with the fsync, and the disk would be idle while src is read.
const writebackStep = 4 << 20

// copySource writes src to f through buf, and keeps res ahead of its writes.
func copySource(f vfs.File, src *bytestore.Source, size int64, res *reservation, buf []byte) error {
	written, begun := int64(0), int64(0) // begun: bytes that the system was asked to write to disk
	for end := false; !end; {
		left := int64(len(buf))
		if size != bytestore.UnknownSize {
			left = size - written
		}
		if err := res.cover(left); err != nil {
			return err
		}
		var n int
		var err error
		if n, end, err = src.Fill(buf, nil); err != nil {
			return err
		}
		if n == 0 {
			break
		}
		if _, err := f.Write(buf[:n]); err != nil {
			return contractError(err)
		}
		written += int64(n)
		res.spend(int64(n))
		if written-begun >= writebackStep && !end && written != size {
			vfs.StartWriteback(f, begun, written-begun)
			begun = written
		}
	}
	return nil
}

// publish renames the synced file to its name, durably. If it fails, it removes the file.
func (s *Store) publish(temp string, name bytestore.Name) error {
	if err := s.rename(temp, name); err != nil {
		return err
	}
	if err := s.folder(name).sync(); err != nil {
		return errors.Join(err, s.removeObject(name))
	}
	// The kernel reports a failed fsync once: an earlier sync of this folder may have lost our
	// entry and left ours to succeed.
	if err := s.Err(); err != nil {
		return errors.Join(err, s.removeObject(name))
	}
	return nil
}

// rename renames a temporary file to an object's name. If that fails, it removes the file.
func (s *Store) rename(temp string, name bytestore.Name) error {
	err := s.fs.Rename(temp, s.path(name))
	if err == nil {
		return nil
	}
	if errors.Is(err, fs.ErrExist) {
		return errors.Join(fmt.Errorf("%w: %w", bytestore.ErrExists, err), s.remove(temp))
	}
	removeErr := s.fs.Remove(temp)
	if errors.Is(removeErr, fs.ErrNotExist) {
		removeErr = s.removeObject(name) // the rename took effect although it reported an error
	}
	return errors.Join(contractError(err), removeErr)
}

// remove removes a file, which need not exist.
func (s *Store) remove(name string) error {
	if err := s.fs.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// removeObject removes an object's file, which need not exist. Until it returns, a reader may open
// the object, and afterwards only those readers have its space that were open before.
func (s *Store) removeObject(name bytestore.Name) error {
	err := s.remove(s.path(name))
	// Afterwards, because a file that is opened before the removal can be kept until this.
	s.files.drop(name)
	return err
}
