package localfs

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"sluice/bytestore"
	"sluice/internal/vfs"
)

// A group of files is made durable when it has so many files, or bytes, or when a file is added so
// long after its first.
const (
	groupFiles = 1024
	groupBytes = 128 << 20
	groupTime  = time.Second
)

// Batch implements bytestore.Batcher. The batch writes temporary files, syncs the whole file system
// and renames them, for a group of them at a time and while the next group is written. So no file
// has its name before its bytes are durable. Commit makes the names durable. Where the file system
// cannot be synced as a whole, each file is synced by itself, and each folder by Commit.
//
// Syncing a whole file system also writes other processes' data to disk.
func (s *Store) Batch() bytestore.Batch {
	b := &batchPut{store: s}
	b.whole, b.err = s.fs.Whole(s.root.path)
	if errors.Is(b.err, errors.ErrUnsupported) {
		b.err = nil
	}
	return b
}

type batchPut struct {
	store *Store
	whole vfs.Whole // nil if each file and folder is synced by itself

	mu    sync.Mutex
	files []written // the group that is being written
	bytes int64
	began time.Time // when its first file was written
	last  *group    // the group before, which may be running
	err   error     // the first failure
}

// group are files that are made durable, and visible as objects.
type group struct {
	files []written
	done  chan struct{} // closed once err is set
	err   error
}

// written is a temporary file, and the object that it will be.
type written struct {
	temp string
	name bytestore.Name
}

// Put implements bytestore.Batch.
func (b *batchPut) Put(ctx context.Context, name bytestore.Name, src io.Reader, size int64) error {
	return b.store.within(name, size, func() error {
		if err := b.failure(); err != nil {
			return err
		}
		temp, err := b.store.writeTemp(ctx, name, src, size, b.flush())
		if err != nil {
			return err
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		if len(b.files) == 0 {
			b.began = time.Now()
		}
		b.files = append(b.files, written{temp, name})
		if b.bytes += max(size, 0); len(b.files) >= groupFiles || b.bytes >= groupBytes || time.Since(b.began) >= groupTime {
			b.begin()
		}
		return b.err
	})
}

// flush returns how each file is written to disk. Syncing a whole file system holds up all other
// syncs on it while it writes, so that it must find little that is not written yet.
func (b *batchPut) flush() flush {
	if b.whole == nil {
		return flushSync
	}
	return flushBegin
}

func (b *batchPut) failure() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

// begin begins to make the group durable, when the one before is. The caller must hold the lock, so
// that Puts wait if two groups are complete.
func (b *batchPut) begin() {
	if b.wait(); b.err != nil {
		return
	}
	g := &group{files: b.files, done: make(chan struct{})}
	b.files, b.bytes, b.last = nil, 0, g
	go func() {
		g.err = b.publish(g.files)
		close(g.done)
	}()
}

// wait waits for the last group. The caller must hold the lock.
func (b *batchPut) wait() {
	if b.last == nil {
		return
	}
	<-b.last.done
	if b.err == nil {
		b.err = b.last.err
	}
	b.last = nil
}

// publish makes a group's bytes durable, and then visible. Objects that exist stay as they are. If
// it fails, it removes the other files.
func (b *batchPut) publish(files []written) error {
	if b.whole != nil {
		if err := b.syncWhole(); err != nil {
			return errors.Join(err, b.remove(files))
		}
	}
	for i, f := range files {
		if err := b.store.rename(f.temp, f.name); err != nil && !errors.Is(err, bytestore.ErrExists) {
			return errors.Join(err, b.remove(files[i+1:]))
		}
	}
	return nil
}

// syncWhole syncs the file system. After an error it is unknown which bytes are on disk.
func (b *batchPut) syncWhole() error {
	if err := b.whole.Sync(); err != nil {
		return b.store.syncFailed(err)
	}
	return b.store.Err()
}

// remove removes files that do not have their names yet.
func (b *batchPut) remove(files []written) (err error) {
	for _, f := range files {
		err = errors.Join(err, b.store.remove(f.temp))
	}
	return err
}

// Commit implements bytestore.Batch. It syncs all folders: an object that was there may have been
// renamed by a process that was killed before its sync.
func (b *batchPut) Commit(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.begin()
	if b.wait(); b.err == nil {
		b.err = b.syncAll()
	}
	return errors.Join(b.err, ctx.Err())
}

func (b *batchPut) syncAll() error {
	if b.whole != nil {
		return b.syncWhole()
	}
	for _, folder := range append(b.store.shards[:], b.store.root) {
		if err := folder.sync(); err != nil {
			return err
		}
	}
	return nil
}

// Close implements bytestore.Batch.
func (b *batchPut) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wait()
	var err error
	if b.err == nil {
		err = b.publish(b.files)
	} else {
		err = b.remove(b.files)
	}
	b.files = nil
	if b.whole != nil {
		err = errors.Join(err, b.whole.Close())
	}
	return err
}
