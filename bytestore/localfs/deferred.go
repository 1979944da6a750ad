package localfs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"sluice/bytestore"
	"sluice/bytestore/localfs/internal/journal"
	"sluice/internal/vfs"
)

// SyncLater makes Put return for a small object before it is durable, from now on. The caller must
// call Sync before it relies on its Puts, for example before a commit that refers to their objects.
// So Puts that are committed together share an fsync, and wait once.
func (s *Store) SyncLater() { s.later.Store(true) }

// Sync returns nil once all objects are durable that were Put before the call, and at once if they
// are. After the journal's fsync has failed, it returns [ErrSyncFailed] until the Store is
// reopened: objects that were Put may be lost.
func (s *Store) Sync() error {
	if err := s.drains.sync(); err != nil {
		return fmt.Errorf("localfs: sync: %w", contractError(err))
	}
	return nil
}

// putDeferred stores an object in a file that is not synced, and then in the journal. Where the
// journal has no room, it stores the object as without one.
func (s *Store) putDeferred(ctx context.Context, name bytestore.Name, src io.Reader, size int64) error {
	return s.buffers.with(func(buf []byte) error {
		if int64(len(buf)) < journal.Room+size+1 {
			return s.putSynced(ctx, name, src, size)
		}
		if err := s.readBody(ctx, src, buf[journal.Room:], size); err != nil {
			return err
		}
		buf = buf[:journal.Room+size]
		body := func() io.Reader { return bytes.NewReader(buf[journal.Room:]) }
		temp, err := s.writeTemp(ctx, name, body(), size, flushNothing)
		if err != nil {
			return err
		}
		if err := s.rename(temp, name); err != nil {
			return err
		}
		// Only now: Open writes the journal's object in place of any file with the name.
		if err = s.drains.append(name, buf); err == nil && !s.later.Load() {
			err = s.drains.sync()
		}
		if err == nil {
			return nil
		}
		if err = errors.Join(err, s.removeObject(name)); !errors.Is(err, journal.ErrFull) && !vfs.IsFull(err) {
			return contractError(err)
		}
		return s.putSynced(ctx, name, body(), size)
	})
}

// readBody reads all of src, which must have size bytes, into buf, which must have room for one
// byte more.
func (s *Store) readBody(ctx context.Context, src io.Reader, buf []byte, size int64) error {
	if s.closed.Load() {
		return fs.ErrClosed
	}
	if err := errors.Join(s.Err(), ctx.Err()); err != nil {
		return err
	}
	source, err := bytestore.NewSource(ctx, src, size)
	if err != nil {
		return err
	}
	_, _, err = source.Fill(buf[:size+1], nil)
	return err
}
