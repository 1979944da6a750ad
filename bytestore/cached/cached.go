// Package cached implements bytestore.Store as a cache in a folder on a local disk, in front of
// another store, which is usually remote.
//
// Objects are immutable and names made by bytestore.NewName are never reused, so the cache is never
// stale. Objects with other names are not cached. Puts and listings are passed to the underlying
// store; an object is cached when it is first read, because most are not read soon by the node that
// stored them. The least recently used block is evicted first.
//
// An object is cached in blocks of 1 MiB, counted from its start, which are the blocks that package
// blob checks whole. If only a block's first bytes are requested, the block is fetched and cached
// up to there, because the object's size is not known; a later request for more fetches it again. A
// range within one block therefore costs the transfer of that block from its start. Package blob
// needs that anyway, because it checks blocks whole. Caching whole objects would make a seek in a
// large blob fetch 16 MiB.
//
// A block that several readers need is fetched once. The fetch continues while at least one of them
// waits. While a reader reads one block, the next blocks of its range are prefetched.
//
// The folder's layout:
//
//	sluice-cache-lock     locked while a Store uses the folder
//	00/ … ff/             256 shards, by a checksum of the name, created on demand
//	3f/NAME.2.9ac1…       the object's block 2, with a random tag
//	3f/.put-NAME.2.9ac1…  a block that is being written; removed by Open
//
// A file consists of a header of 256 bytes and the block's bytes; see the header type. The header
// identifies the block and holds a CRC-32C of each segment of 32 KiB, which is checked whenever the
// segment is read. Nothing is synced: damage, also by a power failure, is detected, and the block
// is fetched again. Because of the header and the checks a reader is not a file that could be sent
// without copying: a cache hit costs one copy and one checksum, and takes twice as long as localfs.
//
// The folder's errors never fail a read. If the folder is full or broken, reads bypass the cache,
// and Stats and Err report it.
package cached

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"path/filepath"
	"sync"

	"sluice/bytestore"
	"sluice/internal/vfs"
)

// MinSize is the least value of Options.Size in bytes: one block's file.
const MinSize = (headerSize + blockSize + diskBlock - 1) / diskBlock * diskBlock

// Options are the options of Open. Only Size is required.
type Options struct {
	// Size is the greatest total size of all files in the folder in bytes, each rounded up to 4
	// KiB. It must be at least MinSize. Files that were removed while they are read remain on the
	// disk until then and are not counted.
	Size int64
	// Fetches is the greatest number of concurrent fetches of blocks; each takes 1 MiB of memory
	// until its block is written. A reader that waits for a second while all of them are in use
	// bypasses the cache. Default 64.
	Fetches int
	// Ahead is the number of blocks that are prefetched for a reader. All readers together prefetch
	// at most half as many blocks as Fetches. Default 4; a negative value disables prefetching.
	Ahead int
	// FS is the file system. If it is nil, vfs.OS() is used. The lock does not use it.
	FS vfs.FS
}

// Store is a cache in front of another store. It implements bytestore.Store.
type Store struct {
	inner bytestore.Store
	fs    vfs.FS
	dir   string
	size  int64
	ahead int

	lockMu sync.Mutex // guards lock
	lock   *vfs.Lock  // of the folder

	slots      chan struct{} // semaphore of fetches
	aheadSlots chan struct{} // semaphore of prefetches
	reserve    int64         // bytes that are kept free in the file system
	counts     counts

	ctx     context.Context // ends with Close
	cancel  context.CancelCauseFunc
	running sync.WaitGroup // the fetches

	mu      sync.Mutex
	closed  bool
	used    int64 // bytes in files that exist or are about to be written
	blocks  *index
	flights map[span]*flight
}

var _ bytestore.Store = (*Store)(nil)

// Open opens the cache in the folder dir in front of inner. It creates the folder if necessary,
// also later if it is removed. It returns an error if another Store, of this process or another,
// uses the folder, or if the folder contains anything but a cache. Blocks that are in the folder
// remain cached, the most recently written ones if Size is smaller than before; to find them, Open
// lists all files. The caller must Close the Store, and then inner.
func Open(inner bytestore.Store, dir string, opt Options) (*Store, error) {
	s, err := open(inner, dir, opt)
	if err != nil {
		return nil, fmt.Errorf("cached: open %s: %w", dir, err)
	}
	return s, nil
}

func open(inner bytestore.Store, dir string, opt Options) (_ *Store, err error) {
	if opt.Size < MinSize {
		return nil, fmt.Errorf("a cache of %d bytes is too small: it needs %d", opt.Size, int64(MinSize))
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	s := &Store{inner: inner, fs: opt.FS, dir: dir, size: opt.Size, ahead: opt.Ahead,
		blocks: newIndex(), flights: map[span]*flight{}}
	if s.fs == nil {
		s.fs = vfs.OS()
	}
	if s.ahead == 0 {
		s.ahead = 4
	}
	fetches := opt.Fetches
	if fetches <= 0 {
		fetches = 64
	}
	s.slots = make(chan struct{}, fetches)
	s.aheadSlots = make(chan struct{}, fetches/2)
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	if s.lock, err = lockFolder(s.fs, dir); err != nil {
		return nil, err
	}
	if err := s.load(); err != nil {
		return nil, errors.Join(err, s.lock.Close())
	}
	return s, nil
}

// Close ends the fetches in progress, waits for them, and unlocks the folder. Later calls fail with
// fs.ErrClosed, and so do open readers when they need a block that they have not opened. Close is
// idempotent.
func (s *Store) Close() error {
	if !s.close() {
		return nil
	}
	s.cancel(fs.ErrClosed)
	s.running.Wait()
	return s.lock.Close()
}

// close prevents further fetches. It returns false if the Store was closed before.
func (s *Store) close() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.closed
	s.closed = true
	return !was
}

// usable returns the reason why a call must fail, or nil.
func (s *Store) usable(ctx context.Context) error {
	if s.ctx.Err() != nil {
		return fs.ErrClosed
	}
	return ctx.Err()
}

// Put implements bytestore.Store by the underlying store.
func (s *Store) Put(ctx context.Context, name bytestore.Name, src io.Reader, size int64) error {
	if s.ctx.Err() != nil {
		return fmt.Errorf("cached: put %s: %w", name, fs.ErrClosed)
	}
	return s.inner.Put(ctx, name, src, size)
}

// List implements bytestore.Store by the underlying store.
func (s *Store) List(ctx context.Context, after bytestore.Name, fn func(bytestore.Object) error) error {
	if s.ctx.Err() != nil {
		return fmt.Errorf("cached: list: %w", fs.ErrClosed)
	}
	return s.inner.List(ctx, after, fn)
}

// shard returns the folder for an object's blocks.
func (s *Store) shard(name bytestore.Name) string {
	return filepath.Join(s.dir, shardName(crc32.Checksum([]byte(name), castagnoli)%shards))
}

func (s *Store) path(e *entry) string { return filepath.Join(s.shard(e.object), e.fileName()) }

// ownsFolder reports whether this Store has the folder locked. If the folder was removed while the
// Store is open, it is created and locked again, unless another Store has done that.
func (s *Store) ownsFolder() bool {
	s.lockMu.Lock()
	defer s.lockMu.Unlock()
	if s.lock.Current() {
		return true
	}
	lock, err := lockFolder(s.fs, s.dir)
	if s.counts.noteError(err) {
		return false
	}
	s.counts.noteError(s.lock.Close())
	s.lock = lock
	for s.evict() { // the files were removed with the folder
	}
	return true
}
