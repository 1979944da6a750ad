// Package vfs is the boundary between sluice and the file system. Its FS interface has only the
// operations that are needed to keep immutable files durably.
//
// OS returns the operating system's file system. LockFile locks a file against other processes.
// Package vfstest has file systems for tests, which lose writes that were not fsynced or fail on
// request.
//
// On Windows two guarantees are weaker. Folders cannot be synced: SyncDir only reports whether the
// folder exists. A rename is written through to the disk, but a power failure may lose a folder, or
// a removal, that SyncDir has reported as durable. And a file may be removed while it is open only
// if it was opened by Open or CreateUnnamed: a file being written and a locked file may not.
package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"syscall"
)

// ErrIrregular means that a name is not a regular file's: it is a named pipe's, a device's, or a
// folder's.
var ErrIrregular = errors.New("not a regular file")

// ErrNotOpened is returned by FS.SyncDir if the folder could not be opened, so that no fsync was
// attempted.
var ErrNotOpened = errors.New("vfs: folder not opened, so not synced")

// ErrLocked is returned by LockFile if the file is locked by another process, or by another Lock of
// this one.
var ErrLocked = errors.New("vfs: the file is locked")

// FS is a file system. Names are absolute paths in the operating system's form. All methods may be
// called concurrently. Errors match fs.ErrExist, fs.ErrNotExist and, where there is one, the
// syscall.Errno by errors.Is; see also [IsFull] and [IsTooManyFiles].
type FS interface {
	// Open opens a file for reading, positioned at its first byte.
	Open(name string) (File, error)

	// Create creates an empty file that only its owner may access (mode 0600) and opens it for
	// writing. It returns fs.ErrExist if the name is in use.
	Create(name string) (File, error)

	// Rename renames a file within one file system. It never replaces a file: it returns
	// fs.ErrExist if the new name is in use, and of concurrent renames to one name exactly one
	// succeeds.
	Rename(oldname, newname string) error

	// Remove removes a file or an empty folder.
	Remove(name string) error

	// Mkdir creates one folder that only its owner may access (mode 0700). It returns fs.ErrExist
	// if the name is in use.
	Mkdir(dir string) error

	// ReadDir returns a folder's entries in byte order by name. An entry's Info method returns
	// fs.ErrNotExist if the file was removed since.
	ReadDir(dir string) ([]fs.DirEntry, error)

	// SyncDir returns nil once the folder's entries, as they were at the call, survive a power
	// failure. It does not sync the files' contents. If it returns ErrNotOpened, with the cause, no
	// fsync was attempted: a later SyncDir may succeed and its result can be relied on. After any
	// other error it is unknown which entries survive.
	SyncDir(dir string) error

	// Whole opens the file system that dir is in. It returns an error that matches
	// errors.ErrUnsupported where its Sync could not be relied on.
	Whole(dir string) (Whole, error)

	// Space returns the capacity and the free space in dir's file system.
	Space(dir string) (Space, error)
}

// File is an open file. Like *os.File, it must be used by one goroutine at a time, except for
// ReadAt, which does not use the file's position, and Sync, which may run beside a Write.
type File interface {
	fs.File // Stat, Read, Close
	io.Seeker
	io.ReaderAt
	io.Writer

	// Sync returns nil once the bytes written so far survive a power failure. It does not sync the
	// file's entry in its folder.
	Sync() error
}

// Whole is a file system that is synced at once, which for many new files takes much less time than
// to sync each of them and their folders.
type Whole interface {
	// Sync returns nil once everything survives a power failure that was written to any file in the
	// file system before the call, by any process, and all entries of folders as they were. It
	// returns an error if something that was written since Whole returned could not be kept: it is
	// then unknown which bytes survive.
	Sync() error
	// Close closes it without syncing.
	Close() error
}

// Space is a file system's capacity and free space.
type Space struct {
	Size int64 // capacity in bytes
	Free int64 // bytes that this process may still use

	// Inodes is the number of files and folders that the file system can hold, and FreeInodes how
	// many can still be created. Inodes is 0 if there is no such limit.
	Inodes, FreeInodes int64
}

// Reserve returns how many bytes should be kept free by default: 64 MiB, or a twentieth if the file
// system is smaller than 1.25 GiB.
func (s Space) Reserve() int64 { return min(64<<20, s.Size/20) }

// MkdirAll creates dir and its missing parents. Once it returns nil they survive a power failure,
// including those that an interrupted earlier call created without syncing them.
func MkdirAll(fsys FS, dir string) error {
	parent := filepath.Dir(dir)
	if parent == dir {
		return nil
	}
	_, err := fsys.Space(dir) // needs no permission on dir itself
	existed := err == nil
	if errors.Is(err, fs.ErrNotExist) {
		// Parents first: an interrupted call leaves at most the deepest existing folder without a
		// durable entry.
		if err := MkdirAll(fsys, parent); err != nil {
			return err
		}
		err = fsys.Mkdir(dir)
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("vfs: create folder: %w", err)
	}
	// An existing folder may be the one that an interrupted call left unsynced.
	if err := fsys.SyncDir(parent); err != nil && (!existed || !notWritable(err)) {
		return fmt.Errorf("vfs: sync the parent folder of %s: %w", dir, err)
	}
	return nil
}

// notWritable reports whether a folder could not be synced because this process may not read it or
// because its file system is read-only: then this process cannot have created an entry there.
func notWritable(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) || errors.Is(err, syscall.EINVAL)
}
