// Package localfs is a bytestore.Store in a folder of a local file system.
//
// Layout of the folder:
//
//	00/ … ff/            256 shards, made by Open
//	3f/3f-0199…-9a2c…    objects whose key bytestore.NewKey made, one file
//	                     each, in the shard of the key's first two characters
//	sluice-instance      objects with any other key, beside the shards
//	.put-…               a Put under way, beside its target; what a crash
//	                     leaves of them is removed by Open
//
// A file holds the object's bytes and nothing else. Names that are not valid
// keys (in particular names with a dot) are never taken for objects. The folder
// belongs to one Store at a time, which its user sees to: Open removes the
// files of Puts that are under way in another.
//
// A Put writes a file under a temporary name, fsyncs it, gives it its name by a
// rename that replaces nothing, and fsyncs the folder, sharing that last step
// with the other Puts into the same folder. After an fsync that failed nobody
// can tell what the kernel still knows; then the Store refuses further Puts
// ([ErrSyncFailed]) until it is opened anew. Reads and deletes go on. A folder
// that could not even be opened for its fsync costs the Puts that waited for
// that one alone: the kernel was not asked, so it forgot nothing.
package localfs

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"sluice/bytestore"
	"sluice/internal/vfs"
)

// ErrSyncFailed is the error of a Put whose fsync failed and of every later one
// until the Store is opened anew. What was acknowledged before is not in doubt.
// It is a bytestore.ErrOverloaded: once the store was opened anew, the same Put
// may succeed.
var ErrSyncFailed = fmt.Errorf("localfs: an fsync failed; the store takes no more objects until it is opened again: %w", bytestore.ErrOverloaded)

// shards is the number of shard folders, one for each value of a key's first
// two hex digits.
const shards = 256

// tempPrefix begins the names of files that are not objects yet. The dot keeps
// them apart from all keys.
const tempPrefix = ".put-"

// Options of Open. The zero value works.
type Options struct {
	// Reserve is how many bytes of the file system Puts leave free, for
	// deletes and for what else lives there. 0 means 64 MiB, or a twentieth of
	// a file system that is smaller than 1.25 GiB; negative means none.
	Reserve int64
	// FS is the file system, nil for that of the operating system.
	FS vfs.FS
}

// Store keeps objects in a folder. It implements bytestore.Store.
type Store struct {
	fs     vfs.FS
	root   *folder
	shards [shards]*folder
	space  *space
	large  chan struct{} // full when as many Puts as may have a large buffer

	broken  atomic.Pointer[error] // the first fsync that failed
	stopped chan struct{}         // closed with it

	// puts is held for reading by each Put under way, so that Close waits.
	puts   sync.RWMutex
	closed atomic.Bool
}

var _ bytestore.Store = (*Store)(nil)

// Open opens the store in the folder dir, which it makes, durably, when it is
// not there, and removes what Puts that a crash cut short have left. That takes
// a listing of the whole store.
func Open(dir string, opt Options) (*Store, error) {
	s, err := open(dir, opt)
	if err != nil {
		return nil, fmt.Errorf("localfs: open %s: %w", dir, err)
	}
	return s, nil
}

func open(dir string, opt Options) (*Store, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	s := &Store{fs: opt.FS, large: make(chan struct{}, largePuts), stopped: make(chan struct{})}
	if s.fs == nil {
		s.fs = vfs.OS()
	}
	s.root = newFolder(s.fs, dir, s.unsynced)
	for i := range s.shards {
		s.shards[i] = newFolder(s.fs, filepath.Join(dir, shardName(i)), s.unsynced)
	}
	if err := s.makeFolders(); err != nil {
		return nil, err
	}
	if err := s.removeLeftovers(); err != nil {
		return nil, err
	}
	s.space, err = newSpace(s.fs, dir, opt.Reserve)
	return s, err
}

func shardName(i int) string { return fmt.Sprintf("%02x", i) }

// makeFolders makes the folders that are missing, durably.
func (s *Store) makeFolders() error {
	if err := vfs.MkdirAll(s.fs, s.root.path); err != nil {
		return err
	}
	for _, shard := range s.shards {
		if err := s.fs.Mkdir(shard.path); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	// Also when none was made: an earlier Open may have ended right here, and
	// an object beside the shards may have been renamed but not acknowledged,
	// and callers are about to see it.
	return s.fs.SyncDir(s.root.path)
}

// removeLeftovers removes the temporary files of Puts that a crash cut short.
func (s *Store) removeLeftovers() error {
	for _, folder := range append(s.shards[:], s.root) {
		entries, err := s.fs.ReadDir(folder.path)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if !strings.HasPrefix(e.Name(), tempPrefix) {
				continue
			}
			if err := s.fs.Remove(filepath.Join(folder.path, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// Close waits for the Puts under way and makes all later calls fail with
// fs.ErrClosed. Readers that are open stay readable. A second Close does
// nothing.
func (s *Store) Close() error {
	s.puts.Lock()
	defer s.puts.Unlock()
	s.closed.Store(true)
	return nil
}

// Space reports whether there is room for n more bytes: nil, or
// bytestore.ErrNoSpace when they would take the file system below the reserve,
// or when it is down to the reserve already, in bytes or in inodes. n is at
// least 0. For n > 0 it counts what the Puts under way have claimed, as for a
// Put that begins now; Space(0) does not: it tells of the disk alone.
func (s *Store) Space(n int64) error {
	if s.closed.Load() {
		return fmt.Errorf("localfs: space: %w", fs.ErrClosed)
	}
	if err := s.space.check(n); err != nil {
		return fmt.Errorf("localfs: space: %w", err)
	}
	return nil
}

// Err tells why no further object is taken ([ErrSyncFailed] with its cause); nil
// while Puts may succeed.
func (s *Store) Err() error { return s.trusted() }

// Stopped is closed when an fsync has failed: the process should end what it
// does and open the store anew.
func (s *Store) Stopped() <-chan struct{} { return s.stopped }

// unsynced is the error of those who waited for a sync of a folder that failed
// with err. Only an fsync that was tried leaves a doubt.
func (s *Store) unsynced(err error) error {
	if errors.Is(err, vfs.ErrNotOpened) {
		return native(err)
	}
	return s.distrust(err)
}

// distrust notes the first fsync that failed, and returns its error for the
// caller of that fsync.
func (s *Store) distrust(err error) error {
	if s.broken.CompareAndSwap(nil, &err) {
		close(s.stopped)
	}
	return fmt.Errorf("%w: %w", ErrSyncFailed, err)
}

// trusted is nil until an fsync has failed.
func (s *Store) trusted() error {
	if first := s.broken.Load(); first != nil {
		return fmt.Errorf("%w: %w", ErrSyncFailed, *first)
	}
	return nil
}

// folder is where the object lives, or would.
func (s *Store) folder(key bytestore.Key) *folder {
	if _, made := key.Created(); !made {
		return s.root
	}
	return s.shards[hexDigit(key[0])<<4|hexDigit(key[1])]
}

func hexDigit(c byte) int {
	if c <= '9' {
		return int(c - '0')
	}
	return int(c-'a') + 10
}

func (s *Store) path(key bytestore.Key) string {
	return filepath.Join(s.folder(key).path, string(key))
}
