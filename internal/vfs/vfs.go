// Package vfs is the seam between sluice and the file system: the few
// operations that keeping immutable files durably needs, and no more.
//
// OS is the real thing. NewCrash is a file system in memory that forgets, on
// Crash, all that was not fsynced. Intercept, and Trace and Inject made of it,
// wrap any of them, to watch the operations or to make them fail.
package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"syscall"
)

// ErrNotOpened is the error of a SyncDir that could not open the folder.
var ErrNotOpened = errors.New("vfs: folder not opened, so not synced")

// FS is a file system. Names are absolute paths in the form of the operating
// system. All methods may be called at once from many goroutines. Their errors
// satisfy errors.Is with fs.ErrExist, fs.ErrNotExist and the syscall.Errno
// where there is one.
type FS interface {
	// Open opens a file for reading, at its first byte.
	Open(name string) (File, error)
	// Create makes a new, empty file and opens it for writing; fs.ErrExist
	// when the name is taken. Only its owner may read it (mode 0600).
	Create(name string) (File, error)
	// Rename gives a file another name on the same file system. A name that is
	// taken is fs.ErrExist and is never replaced, also not in a race: of two
	// renames to one name exactly one succeeds.
	Rename(oldname, newname string) error
	// Remove removes a file or an empty folder.
	Remove(name string) error
	// Mkdir makes one folder, for its owner alone (mode 0700); fs.ErrExist
	// when the name is taken.
	Mkdir(dir string) error
	// ReadDir lists a folder in byte order of the names. Info of an entry may
	// find that the file is gone (fs.ErrNotExist).
	ReadDir(dir string) ([]fs.DirEntry, error)
	// SyncDir returns when the entries of the folder, as they were at the
	// call, survive a power cut. It says nothing of what is in the files.
	// ErrNotOpened, with the cause, means that no fsync was tried: a later
	// SyncDir may still succeed, and then tells the truth. After any other
	// error nobody can tell which entries survive.
	SyncDir(dir string) error
	// Space tells how full the file system is that holds dir.
	Space(dir string) (Space, error)
}

// File is an open file. Like *os.File it is for one goroutine at a time.
type File interface {
	fs.File // Stat, Read, Close
	io.Seeker
	io.Writer
	// Sync returns when the bytes written so far survive a power cut. It says
	// nothing of the file's entry in its folder.
	Sync() error
}

// Space is the room of a file system.
type Space struct {
	Size int64 // bytes in all
	Free int64 // bytes that this process may still use
	// Inodes and FreeInodes count files and folders: all that there can be,
	// and those still to be made. Inodes is 0 where there is no such limit.
	Inodes, FreeInodes int64
}

// MkdirAll makes dir and the folders above it where they are missing, so that
// they survive a power cut when it returns nil. What an earlier call that was
// cut short has left undone is done.
func MkdirAll(fsys FS, dir string) error {
	parent := filepath.Dir(dir)
	if parent == dir {
		return nil
	}
	_, err := fsys.Space(dir) // which needs no permission on dir itself
	existed := err == nil
	if errors.Is(err, fs.ErrNotExist) {
		// From the top down: so a run that was cut short leaves at most the
		// lowest folder that exists without a durable entry.
		if err := MkdirAll(fsys, parent); err != nil {
			return err
		}
		err = fsys.Mkdir(dir)
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("vfs: make folder: %w", err)
	}
	// Also when it existed: it may be that lowest folder.
	if err := fsys.SyncDir(parent); err != nil && (!existed || !foreign(err)) {
		return fmt.Errorf("vfs: sync the folder of %s: %w", dir, err)
	}
	return nil
}

// foreign reports whether a folder that cannot be synced is one that we could
// not have written to either: not ours to read, or on a read-only system.
func foreign(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) || errors.Is(err, syscall.EINVAL)
}
