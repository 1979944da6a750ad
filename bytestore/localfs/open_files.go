package localfs

import (
	"errors"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"sluice/bytestore"
	"sluice/internal/vfs"
)

const (
	// maxKeptSize is the greatest size in bytes of a file that stays open. Opening a file costs
	// little compared to sending more than that.
	maxKeptSize = 1 << 20
	// maxKeptAge is how long a file stays open before it is opened anew, so that a file that
	// somebody has removed or replaced by hand is noticed.
	maxKeptAge = time.Minute
)

// openFiles keeps the files of objects open that were read lately, at most limit of them. Objects
// do not change, so a file and its size are exact until the object is deleted. Its methods may be
// called concurrently.
type openFiles struct {
	limit        int
	hits, misses atomic.Int64
	open         atomic.Int64 // files, including those that only their readers keep open

	mu        sync.Mutex
	kept      map[bytestore.Name]*openFile
	recent    openFile // the ring of kept files: recent.next was used last
	deletions uint64   // calls of drop
	closed    bool
}

// openFile is an object's file, which its readers share. Its users are counted under the lock of
// openFiles: its readers and, as long as it is kept, openFiles. The last one closes it.
type openFile struct {
	vfs.File
	raw    syscall.RawConn // nil: it is not the operating system's
	name   bytestore.Name
	size   int64
	opened time.Time
	users  int

	prev, next *openFile
}

func newOpenFiles(limit int) *openFiles {
	c := &openFiles{limit: limit, kept: map[bytestore.Name]*openFile{}}
	c.recent.prev, c.recent.next = &c.recent, &c.recent
	return c
}

// find returns an object's file if it is kept and has n bytes at the offset off, with the caller as
// a user. Otherwise it returns the number of deletions, for add.
func (c *openFiles) find(name bytestore.Name, off, n int64) (f *openFile, deletions uint64) {
	c.mu.Lock()
	f = c.kept[name]
	if f != nil && f.size-off >= n && time.Since(f.opened) < maxKeptAge {
		c.unlink(f)
		c.link(f)
		f.users++
		c.mu.Unlock()
		c.hits.Add(1)
		return f, 0
	}
	deletions = c.deletions
	c.mu.Unlock()
	c.misses.Add(1)
	return nil, deletions
}

// add keeps a file that was opened after find returned deletions, with the caller as a user. It
// does not keep it if the object may have been deleted since.
func (c *openFiles) add(file vfs.File, name bytestore.Name, size int64, deletions uint64) *openFile {
	f := &openFile{File: file, name: name, size: size, opened: time.Now(), users: 1}
	if conn, ok := file.(syscall.Conn); ok {
		if raw, err := conn.SyscallConn(); err == nil {
			f.raw = raw
		}
	}
	c.open.Add(1)
	var unused [2]*openFile
	c.mu.Lock()
	if !c.closed && deletions == c.deletions {
		if before := c.kept[name]; before != nil {
			unused[0] = c.forget(before)
		}
		if len(c.kept) == c.limit {
			unused[1] = c.forget(c.recent.prev)
		}
		f.users++
		c.kept[name] = f
		c.link(f)
	}
	c.mu.Unlock()
	for _, f := range unused {
		c.closeUnused(f)
	}
	return f
}

// release ends a use of f, and closes f after its last one.
func (c *openFiles) release(f *openFile) error {
	c.mu.Lock()
	f.users--
	last := f.users == 0
	c.mu.Unlock()
	if !last {
		return nil
	}
	c.open.Add(-1)
	return f.Close()
}

// drop no longer keeps an object's file, after the file was removed or has failed.
func (c *openFiles) drop(name bytestore.Name) {
	var unused *openFile
	c.mu.Lock()
	c.deletions++
	if f := c.kept[name]; f != nil {
		unused = c.forget(f)
	}
	c.mu.Unlock()
	c.closeUnused(unused)
}

// dropAll ends the keeping of all files. It reports whether that has closed one.
func (c *openFiles) dropAll() (some bool) {
	var unused []*openFile
	c.mu.Lock()
	for _, f := range c.kept {
		if c.forget(f) != nil {
			unused = append(unused, f)
		}
	}
	c.mu.Unlock()
	for _, f := range unused {
		c.closeUnused(f)
	}
	return len(unused) > 0
}

// close is dropAll, and nothing is kept afterwards.
func (c *openFiles) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.dropAll()
}

// forget ends the keeping of f. It returns f if the caller must close it, and otherwise nil. The
// caller must hold the lock.
func (c *openFiles) forget(f *openFile) (unused *openFile) {
	delete(c.kept, f.name)
	c.unlink(f)
	if f.users--; f.users == 0 {
		return f
	}
	return nil
}

// closeUnused closes a file that was returned by forget, which can be nil.
func (c *openFiles) closeUnused(f *openFile) {
	if f == nil {
		return
	}
	c.open.Add(-1)
	_ = f.Close() // nothing was written to it, and all of its readers have read their bytes
}

func (c *openFiles) link(f *openFile) {
	f.prev, f.next = &c.recent, c.recent.next
	f.prev.next, f.next.prev = f, f
}

func (c *openFiles) unlink(f *openFile) { f.prev.next, f.next.prev = f.next, f.prev }

// relieved is a file system that calls an operation again, after the kept files were closed, if the
// process had no descriptor left for it.
type relieved struct {
	vfs.FS
	files *openFiles
}

// Open implements vfs.FS.
func (r relieved) Open(name string) (f vfs.File, err error) {
	err = r.do(func() (err error) { f, err = r.FS.Open(name); return err })
	return f, err
}

// Create implements vfs.FS.
func (r relieved) Create(name string) (f vfs.File, err error) {
	err = r.do(func() (err error) { f, err = r.FS.Create(name); return err })
	return f, err
}

// SyncDir implements vfs.FS. Nothing was synced if there was no descriptor.
func (r relieved) SyncDir(dir string) error {
	err := r.FS.SyncDir(dir)
	if errors.Is(err, vfs.ErrNotOpened) && vfs.IsTooManyFiles(err) && r.files.dropAll() {
		err = r.FS.SyncDir(dir)
	}
	return err
}

func (r relieved) do(operation func() error) error {
	err := operation()
	if vfs.IsTooManyFiles(err) && r.files.dropAll() {
		err = operation()
	}
	return err
}
