// Package localfs implements bytestore.Store in a folder on a local file system.
//
// The folder's layout:
//
//	00/ … ff/            256 shards, created by Open
//	3f/3f-0199…-9a2c…    objects with a name made by bytestore.NewName, one file
//	                     each, in the shard named by the first two characters
//	sluice-instance      objects with any other name
//	.put-…               a Put in progress, in the folder of its target; Open
//	                     removes those that remain after a crash
//
// A file contains the object's bytes and nothing else. Files without valid names are ignored, in
// particular names with a dot. The folder must be used by one Store at a time, which the caller
// must ensure: Open removes the files of Puts that are in progress in another Store.
//
// A Put writes a temporary file, asks the system to write it to disk meanwhile, fsyncs it, renames
// it without replacing anything, and fsyncs the folder; Puts into the same folder share that last
// fsync. After a failed fsync it is unknown which bytes the kernel has written, so the Store
// rejects further Puts with [ErrSyncFailed] until it is reopened. Reads and deletes continue. If a
// folder could not even be opened for its fsync, only the Puts that waited for that fsync fail: as
// no fsync was attempted, nothing was lost. A Batch does the same for many files at once, with
// syncfs where it can be relied on.
package localfs

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
	"sync/atomic"

	"sluice/bytestore"
	"sluice/internal/vfs"
)

// shards is the number of shards, one for each value of a name's first two hex digits.
const shards = 256

// tempPrefix begins the names of temporary files. No name contains a dot.
const tempPrefix = ".put-"

// Options are the options of Open. The zero value is valid.
type Options struct {
	// Reserve is how many bytes Puts leave free in the file system, for deletes and for its other
	// users. 0 means 64 MiB, or a twentieth if the file system is smaller than 1.25 GiB; a negative
	// value means none.
	Reserve int64
	// OpenFiles is how many files of at most 1 MiB stay open, at most, after their readers were
	// closed, so that an object that is read often is not opened each time. Readers share such a
	// file. Those that wait for their readers alone are not counted. 0 or less means none.
	OpenFiles int
	// FS is the file system. If it is nil, vfs.OS() is used.
	FS vfs.FS
}

// Store stores objects in a folder. It implements bytestore.Store.
type Store struct {
	fs      vfs.FS
	root    *folder
	shards  [shards]*folder
	space   *space
	buffers buffers
	files   *openFiles

	mayLackShards bool // it is read only

	failure *failure

	// puts is held for reading by each Put in progress, so that Close waits for it.
	puts   sync.RWMutex
	closed atomic.Bool
}

var (
	_ bytestore.Store       = (*Store)(nil)
	_ bytestore.Invalidator = (*Store)(nil)
)

// newStore returns a store in dir, an absolute path, without its space. It does not look at dir.
func newStore(dir string, opt Options) *Store {
	s := &Store{fs: opt.FS, buffers: newBuffers(), files: newOpenFiles(opt.OpenFiles), failure: newFailure()}
	if s.fs == nil {
		s.fs = vfs.OS()
	}
	s.fs = relieved{s.fs, s.files}
	s.root = newFolder(s.fs, dir, s.folderSyncFailed)
	for i := range s.shards {
		s.shards[i] = newFolder(s.fs, filepath.Join(dir, shardName(i)), s.folderSyncFailed)
	}
	return s
}

func shardName(i int) string { return fmt.Sprintf("%02x", i) }

// Close waits for the Puts in progress, and makes all later calls fail with fs.ErrClosed. Open
// readers remain readable. Close is idempotent.
func (s *Store) Close() error {
	s.puts.Lock()
	defer s.puts.Unlock()
	if s.closed.Swap(true) {
		return nil
	}
	s.files.close()
	return nil
}

// Space returns nil if n more bytes fit on the file system, and bytestore.ErrNoSpace if they would
// use the reserve, in bytes or inodes, or if the reserve is in use already. n must not be negative.
// If n is positive, Space counts bytes that Puts in progress have reserved as used, as a new Put
// would; Space(0) considers only the disk.
func (s *Store) Space(n int64) error {
	if s.closed.Load() {
		return fmt.Errorf("localfs: space: %w", fs.ErrClosed)
	}
	if err := s.space.check(n); err != nil {
		return fmt.Errorf("localfs: space: %w", err)
	}
	return nil
}

// Disk returns the file system's space, and how many free bytes are kept in reserve.
func (s *Store) Disk() (now vfs.Space, reserve int64, err error) {
	now, err = s.fs.Space(s.root.path)
	return now, s.space.keptBytes, err
}

// Err returns [ErrSyncFailed] with its cause after an fsync has failed, and nil otherwise.
func (s *Store) Err() error { return s.failure.err() }

// Stopped returns a channel that is closed once an fsync has failed: the process should then finish
// its work and reopen the store.
func (s *Store) Stopped() <-chan struct{} { return s.failure.stopped }

// folderSyncFailed returns the error for the Puts that waited for a folder's sync, which failed
// with err.
func (s *Store) folderSyncFailed(err error) error {
	if errors.Is(err, vfs.ErrNotOpened) {
		return contractError(err)
	}
	return s.syncFailed(err)
}

// syncFailed records the first fsync that failed, and returns the error for the Put that needed it.
func (s *Store) syncFailed(err error) error { return s.failure.set(err) }

func (s *Store) folder(name bytestore.Name) *folder {
	if _, made := name.Created(); !made {
		return s.root
	}
	return s.shards[hexDigit(name[0])<<4|hexDigit(name[1])]
}

func hexDigit(c byte) int {
	if c <= '9' {
		return int(c - '0')
	}
	return int(c-'a') + 10
}

func (s *Store) path(name bytestore.Name) string {
	return filepath.Join(s.folder(name).path, string(name))
}
