// Package cached is a bytestore.Store that keeps what is read of another one,
// in production a remote one, in a folder of a local disk.
//
// Objects never change and keys made by bytestore.NewKey are never used twice,
// so nothing in the cache is ever out of date. Objects under other keys are not
// cached. Puts and listings pass through; what is put is not cached before it
// is read.
//
// An object is cached in blocks of 1 MiB, counted from its start: those that
// package blob checks whole. A block of which only the first bytes are asked
// for is fetched and kept up to there, since nothing tells where the object
// ends; who asks for more of it later lets it be fetched again. So a range
// inside one block costs the transfer of that block from its start. Package
// blob pays that anyway, as it checks each block whole.
//
// A block that several readers miss is fetched once. The fetch belongs to all
// who wait: it goes on while one of them does. A reader lets the next blocks of
// its range be fetched while it reads one.
//
// Layout of the folder:
//
//	sluice-cache-lock    locked while a Store has the folder
//	00/ … ff/            256 shards, by a checksum of the key, made when needed
//	3f/KEY.2.9ac1…       block 2 of the object, under a random tag
//	3f/.put-KEY.2.9ac1…  a block that is being written; removed by Open
//
// A file is a header of 256 bytes and the bytes of the block; see the header
// type. The header names the block and holds a CRC-32C of each 32 KiB, which
// are checked whenever they are read: damage, also the damage of a power cut as
// nothing is ever synced, is fetched again and never served. Because of the
// header and the check a reader is no file that could be sent without a copy: a
// hit costs one copy and one checksum, little beside what the fetch did.
//
// Trouble with the folder never fails a read. When it is full or broken, reads
// go to the store beneath, and Stats and Err tell.
package cached

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"sync"

	"sluice/bytestore"
	"sluice/internal/vfs"
)

// blockSize is the length of the blocks of an object, but for its last one.
const blockSize = 1 << 20

// MinSize is the least that Options.Size may be, in bytes: one block's file.
const MinSize = (headerSize + blockSize + diskBlock - 1) / diskBlock * diskBlock

// Options of Open. Only Size is required.
type Options struct {
	// Size is how many bytes the files in the folder take at most, each
	// rounded up to 4 KiB; at least MinSize. Files that are removed while they
	// are read stay on the disk until then, and are not counted.
	Size int64
	// Fetches is how many blocks are fetched at once, at most; each takes 1 MiB
	// of memory until it is written. Who finds them all stalled for a second
	// reads past the cache. Default 64.
	Fetches int
	// Ahead is how many blocks of its range are fetched for a reader beyond
	// the one it reads. Half of Fetches is the limit for all readers together.
	// Default 4; below 0: none.
	Ahead int
	// FS is what the folder is reached through, nil for the file system of the
	// operating system itself. The lock does not go through it.
	FS vfs.FS
}

// Store is a cache in front of another store. It implements bytestore.Store.
type Store struct {
	inner bytestore.Store
	fs    vfs.FS
	dir   string
	size  int64
	ahead int

	folder sync.Mutex // held while the lock of the folder is looked at
	lock   *vfs.Lock  // of the folder

	slots      chan struct{} // one for each fetch that runs
	aheadSlots chan struct{} // one for each that no reader waits for yet
	reserve    int64         // bytes of the file system that are left free
	counts     counts

	ctx     context.Context // ends with Close
	cancel  context.CancelCauseFunc
	running sync.WaitGroup // the fetches

	mu      sync.Mutex
	closed  bool
	used    int64 // bytes of the files that are there, and of those about to be
	blocks  *index
	flights map[span]*flight
}

var _ bytestore.Store = (*Store)(nil)

// Open opens the cache in the folder dir, which it makes when it is not there,
// in front of inner. A folder that is removed later is made anew, with the next
// block that is kept. It refuses a folder that another Store has, in this
// process or another, and one that holds anything but a cache. What is cached
// there already stays, the most recently written of it when Size is smaller
// than it was; that takes a listing of all files. The caller closes the Store,
// and inner after it.
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

// Close ends the fetches under way, waits for them, and gives the folder free.
// Later calls fail with fs.ErrClosed, and so do open readers once they need a
// block that they do not have open. A second Close does nothing.
func (s *Store) Close() error {
	if !s.close() {
		return nil
	}
	s.cancel(fs.ErrClosed)
	s.running.Wait()
	return s.lock.Close()
}

// close lets no further fetch begin; false when that was so before.
func (s *Store) close() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.closed
	s.closed = true
	return !was
}

// usable is nil while calls may go on.
func (s *Store) usable(ctx context.Context) error {
	if s.ctx.Err() != nil {
		return fs.ErrClosed
	}
	return ctx.Err()
}

// Put implements bytestore.Store: it is that of the store beneath.
func (s *Store) Put(ctx context.Context, key bytestore.Key, src io.Reader, size int64) error {
	if s.ctx.Err() != nil {
		return fmt.Errorf("cached: put %s: %w", key, fs.ErrClosed)
	}
	return s.inner.Put(ctx, key, src, size)
}

// List implements bytestore.Store: it is that of the store beneath.
func (s *Store) List(ctx context.Context, after bytestore.Key, fn func(bytestore.Object) error) error {
	if s.ctx.Err() != nil {
		return fmt.Errorf("cached: list: %w", fs.ErrClosed)
	}
	return s.inner.List(ctx, after, fn)
}
