package vfstest

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"sluice/internal/vfs"
)

// ErrCrashed is returned by every operation on a CrashFS, and on its files, after Crash.
var ErrCrashed = errors.New("vfstest: the file system has crashed")

// CrashFS is a file system in memory that tracks which bytes and entries were fsynced. On Crash it
// behaves as badly as POSIX permits: a file loses the writes after its last sync, and an entry that
// was created, renamed or removed after the last sync of its folder reverts to its state at that
// sync, even if the file itself was synced. The root folder "/" always exists; the volume in a
// name, as on Windows, is ignored.
type CrashFS struct {
	mu struct {
		sync.Mutex
		crashed bool
		root    *node
		used    vfs.Space // Size bytes and Inodes nodes are in use
		limit   vfs.Space // Size and Inodes; 0 means no limit
	}
}

// node is a file or a folder. The CrashFS's lock guards it.
type node struct {
	mode   fs.FileMode
	data   []byte // of a file; only grows
	synced int    // bytes of data that survive a crash

	entries map[string]*node // of a folder
	durable map[string]*node // the entries that survive a crash
}

func newFolder() *node {
	return &node{mode: fs.ModeDir | 0o700, entries: map[string]*node{}, durable: map[string]*node{}}
}

// NewCrash returns an empty CrashFS without limits.
func NewCrash() *CrashFS {
	c := &CrashFS{}
	c.mu.root = newFolder()
	return c
}

// Limit sets the file system's capacity in bytes, and in files and folders, beyond which operations
// fail with ENOSPC; 0 means no limit. Existing contents are not affected.
func (c *CrashFS) Limit(bytes, inodes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.limit = vfs.Space{Size: bytes, Inodes: inodes}
}

// Crash simulates a power failure. It returns a file system with the surviving files. All further
// operations on c and on its open files return ErrCrashed, so that goroutines that still use c have
// no effect.
func (c *CrashFS) Crash() *CrashFS { return c.crash(nil) }

// Tear is Crash, but some unsynced changes survive, chosen by r: each entry, and for each file some
// bytes that were appended, with zeros between them that the disk had not written yet.
func (c *CrashFS) Tear(r *rand.Rand) *CrashFS { return c.crash(r) }

func (c *CrashFS) crash(r *rand.Rand) *CrashFS {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.crashed = true
	after := &CrashFS{}
	after.mu.limit = c.mu.limit
	after.mu.root = c.mu.root.survivor(&after.mu.used, r)
	after.mu.used.Inodes-- // the root is not counted
	return after
}

// survivor returns n and everything below it as they survive, and adds them to used. With r, some
// unsynced changes survive.
func (n *node) survivor(used *vfs.Space, r *rand.Rand) *node {
	used.Inodes++
	if !n.mode.IsDir() {
		left := slices.Clone(n.data[:n.synced])
		if r != nil {
			left = append(left, tear(n.data[n.synced:], r)...)
		}
		used.Size += int64(len(left))
		return &node{mode: n.mode, data: left, synced: len(left)}
	}
	left := newFolder()
	for name, child := range n.durable {
		left.entries[name] = child
	}
	if r != nil {
		n.keepSome(left.entries, r)
	}
	for _, name := range slices.Sorted(maps.Keys(left.entries)) {
		left.entries[name] = left.entries[name].survivor(used, r)
	}
	left.durable = maps.Clone(left.entries)
	return left
}

// keepSome puts some changes to a folder since its last sync into survivors.
func (n *node) keepSome(survivors map[string]*node, r *rand.Rand) {
	changed := map[string]bool{}
	for name, child := range n.entries {
		changed[name] = n.durable[name] != child
	}
	for name := range n.durable {
		changed[name] = changed[name] || n.entries[name] == nil
	}
	for _, name := range slices.Sorted(maps.Keys(changed)) {
		switch {
		case !changed[name] || r.IntN(2) == 0:
		case n.entries[name] == nil:
			delete(survivors, name)
		default:
			survivors[name] = n.entries[name]
		}
	}
}

// sector is how many bytes a disk writes at once.
const sector = 512

// tear returns the part of unsynced bytes that survives.
func tear(unsynced []byte, r *rand.Rand) []byte {
	left := slices.Clone(unsynced[:r.IntN(len(unsynced)+1)])
	for at := 0; at < len(left); at += sector {
		if r.IntN(4) == 0 {
			clear(left[at:min(len(left), at+sector)])
		}
	}
	return left
}

// find returns the node with the given name. The caller must hold the lock.
func (c *CrashFS) find(op, name string) (*node, error) {
	if c.mu.crashed {
		return nil, &fs.PathError{Op: op, Path: name, Err: ErrCrashed}
	}
	n := c.mu.root
	path := strings.TrimPrefix(name, filepath.VolumeName(name))
	for part := range strings.SplitSeq(filepath.ToSlash(filepath.Clean(path)), "/") {
		if part == "" {
			continue
		}
		if !n.mode.IsDir() {
			return nil, &fs.PathError{Op: op, Path: name, Err: syscall.ENOTDIR}
		}
		next := n.entries[part]
		if next == nil {
			return nil, &fs.PathError{Op: op, Path: name, Err: syscall.ENOENT}
		}
		n = next
	}
	return n, nil
}

// folder returns the folder with the given name. The caller must hold the lock.
func (c *CrashFS) folder(op, dir string) (*node, error) {
	n, err := c.find(op, dir)
	if err != nil {
		return nil, err
	}
	if !n.mode.IsDir() {
		return nil, &fs.PathError{Op: op, Path: dir, Err: syscall.ENOTDIR}
	}
	return n, nil
}

// add adds a node with a name that must be free. The caller must hold the lock.
func (c *CrashFS) add(op, name string, n *node) error {
	parent, err := c.folder(op, filepath.Dir(name))
	if err != nil {
		return err
	}
	if parent.entries[filepath.Base(name)] != nil {
		return &fs.PathError{Op: op, Path: name, Err: syscall.EEXIST}
	}
	if c.mu.limit.Inodes > 0 && c.mu.used.Inodes >= c.mu.limit.Inodes {
		return &fs.PathError{Op: op, Path: name, Err: syscall.ENOSPC}
	}
	c.mu.used.Inodes++
	parent.entries[filepath.Base(name)] = n
	return nil
}

// Open implements vfs.FS.
func (c *CrashFS) Open(name string) (vfs.File, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, err := c.find("open", name)
	if err != nil {
		return nil, err
	}
	return &crashFile{fs: c, node: n, name: name}, nil
}

// Create implements vfs.FS.
func (c *CrashFS) Create(name string) (vfs.File, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := &node{mode: 0o600}
	if err := c.add("create", name, n); err != nil {
		return nil, err
	}
	return &crashFile{fs: c, node: n, name: name, writable: true}, nil
}

// Mkdir implements vfs.FS.
func (c *CrashFS) Mkdir(dir string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.add("mkdir", dir, newFolder())
}

// Rename implements vfs.FS.
func (c *CrashFS) Rename(oldname, newname string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, err := c.find("rename", oldname)
	if err != nil {
		return err
	}
	to, err := c.folder("rename", filepath.Dir(newname))
	if err != nil {
		return err
	}
	if to.entries[filepath.Base(newname)] != nil {
		return &fs.PathError{Op: "rename", Path: newname, Err: syscall.EEXIST}
	}
	from, err := c.folder("rename", filepath.Dir(oldname))
	if err != nil {
		return err
	}
	delete(from.entries, filepath.Base(oldname))
	to.entries[filepath.Base(newname)] = n
	return nil
}

// Remove implements vfs.FS. A file's space is freed immediately, even while it is open.
func (c *CrashFS) Remove(name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, err := c.find("remove", name)
	if err != nil {
		return err
	}
	if len(n.entries) > 0 {
		return &fs.PathError{Op: "remove", Path: name, Err: syscall.ENOTEMPTY}
	}
	parent, err := c.folder("remove", filepath.Dir(name))
	if err != nil {
		return err
	}
	delete(parent.entries, filepath.Base(name))
	c.mu.used.Inodes--
	c.mu.used.Size -= int64(len(n.data))
	return nil
}

// ReadDir implements vfs.FS.
func (c *CrashFS) ReadDir(dir string) ([]fs.DirEntry, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, err := c.folder("readdir", dir)
	if err != nil {
		return nil, err
	}
	var list []fs.DirEntry
	for name, child := range n.entries {
		list = append(list, fs.FileInfoToDirEntry(child.info(name)))
	}
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	return list, nil
}

// SyncDir implements vfs.FS.
func (c *CrashFS) SyncDir(dir string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, err := c.folder("fsync folder", dir)
	if err != nil {
		return fmt.Errorf("%w: %w", vfs.ErrNotOpened, err)
	}
	n.durable = maps.Clone(n.entries)
	return nil
}

// Whole implements vfs.FS.
func (c *CrashFS) Whole(dir string) (vfs.Whole, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, err := c.folder("open", dir); err != nil {
		return nil, err
	}
	return crashWhole{c}, nil
}

type crashWhole struct{ fs *CrashFS }

func (w crashWhole) Sync() error {
	w.fs.mu.Lock()
	defer w.fs.mu.Unlock()
	root, err := w.fs.find("syncfs", "/")
	if err == nil {
		root.sync()
	}
	return err
}

func (w crashWhole) Close() error { return nil }

// sync makes everything below n durable.
func (n *node) sync() {
	n.synced = len(n.data)
	n.durable = maps.Clone(n.entries)
	for _, child := range n.entries {
		child.sync()
	}
}

// Space implements vfs.FS.
func (c *CrashFS) Space(dir string) (vfs.Space, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, err := c.find("statfs", dir); err != nil {
		return vfs.Space{}, err
	}
	space := vfs.Space{Size: cmp.Or(c.mu.limit.Size, 1<<50), Inodes: c.mu.limit.Inodes}
	space.Free = max(0, space.Size-c.mu.used.Size)
	space.FreeInodes = max(0, space.Inodes-c.mu.used.Inodes)
	return space, nil
}

// crashFile is an open file in a CrashFS.
type crashFile struct {
	fs       *CrashFS
	node     *node
	name     string
	writable bool
	pos      int64
	closed   bool
}

// begin acquires the lock for an operation on the file. The caller must release it, even after an
// error.
func (f *crashFile) begin(op string) error {
	f.fs.mu.Lock()
	switch {
	case f.fs.mu.crashed:
		return &fs.PathError{Op: op, Path: f.name, Err: ErrCrashed}
	case f.closed:
		return &fs.PathError{Op: op, Path: f.name, Err: fs.ErrClosed}
	}
	return nil
}

func (f *crashFile) Read(p []byte) (int, error) {
	defer f.fs.mu.Unlock()
	if err := f.begin("read"); err != nil {
		return 0, err
	}
	n, err := f.read(p, f.pos)
	f.pos += int64(n)
	return n, err
}

func (f *crashFile) ReadAt(p []byte, off int64) (int, error) {
	defer f.fs.mu.Unlock()
	if err := f.begin("read"); err != nil {
		return 0, err
	}
	n, err := f.read(p, off)
	if err == nil && n < len(p) {
		err = io.EOF
	}
	return n, err
}

// read reads the file's bytes from an offset on. The caller must hold the lock.
func (f *crashFile) read(p []byte, off int64) (int, error) {
	switch {
	case f.writable:
		return 0, &fs.PathError{Op: "read", Path: f.name, Err: syscall.EBADF}
	case len(p) == 0:
		return 0, nil
	case off >= int64(len(f.node.data)):
		return 0, io.EOF
	}
	return copy(p, f.node.data[off:]), nil
}

// Write appends p: a file is written once, from its first byte to its last.
func (f *crashFile) Write(p []byte) (int, error) {
	defer f.fs.mu.Unlock()
	if err := f.begin("write"); err != nil {
		return 0, err
	}
	if !f.writable {
		return 0, &fs.PathError{Op: "write", Path: f.name, Err: syscall.EBADF}
	}
	var full error
	if room := f.fs.mu.limit.Size - f.fs.mu.used.Size; f.fs.mu.limit.Size > 0 && int64(len(p)) > room {
		p = p[:max(0, room)]
		full = &fs.PathError{Op: "write", Path: f.name, Err: syscall.ENOSPC}
	}
	f.node.data = append(f.node.data, p...)
	f.fs.mu.used.Size += int64(len(p))
	return len(p), full
}

func (f *crashFile) Seek(offset int64, whence int) (int64, error) {
	defer f.fs.mu.Unlock()
	if err := f.begin("seek"); err != nil {
		return 0, err
	}
	switch whence {
	case io.SeekCurrent:
		offset += f.pos
	case io.SeekEnd:
		offset += int64(len(f.node.data))
	}
	if offset < 0 || f.writable {
		return 0, &fs.PathError{Op: "seek", Path: f.name, Err: syscall.EINVAL}
	}
	f.pos = offset
	return offset, nil
}

func (f *crashFile) Stat() (fs.FileInfo, error) {
	defer f.fs.mu.Unlock()
	if err := f.begin("fstat"); err != nil {
		return nil, err
	}
	return f.node.info(filepath.Base(f.name)), nil
}

func (f *crashFile) Sync() error {
	defer f.fs.mu.Unlock()
	if err := f.begin("fsync"); err != nil {
		return err
	}
	f.node.synced = len(f.node.data)
	return nil
}

func (f *crashFile) Close() error {
	defer f.fs.mu.Unlock()
	if err := f.begin("close"); err != nil {
		return err
	}
	f.closed = true
	return nil
}

// info describes the node's current state. The caller must hold the lock.
func (n *node) info(name string) fs.FileInfo {
	return crashInfo{name: name, size: int64(len(n.data)), mode: n.mode}
}

type crashInfo struct {
	name string
	size int64
	mode fs.FileMode
}

func (i crashInfo) Name() string       { return i.name }
func (i crashInfo) Size() int64        { return i.size }
func (i crashInfo) Mode() fs.FileMode  { return i.mode }
func (i crashInfo) ModTime() time.Time { return time.Time{} }
func (i crashInfo) IsDir() bool        { return i.mode.IsDir() }
func (i crashInfo) Sys() any           { return nil }
