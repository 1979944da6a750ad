// Package ephemeral creates folders for instances that leave nothing behind: the data is in the
// system's temporary folder, and the database in memory where the system has a file system for
// that.
//
// Each folder has a lock, which its process holds until the folder is removed. A folder that a
// killed process has left behind is therefore known by its lock, which is free, and Create removes
// it.
package ephemeral

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"sluice/internal/vfs"
)

// prefix begins the folders' names.
const prefix = "sluice-ephemeral-"

// A folder's contents.
const (
	lockFile = "lock" // locked while the folder is in use
	content  = "data"
)

// minMemory is how many bytes must be free in memory to keep the database there. In containers the
// file system often has 64 MiB in all.
const minMemory = 256 << 20

// Folders are an ephemeral instance's folders, for its owner alone (mode 0700).
type Folders struct {
	Data     string // data folder
	Database string // the database's folder, in memory; "": the data folder

	locked []locked
}

type locked struct {
	path string
	lock *vfs.Lock
}

// Create removes folders that earlier processes of this user have left behind, and creates new
// ones. It returns the folders' names that it removed, even with an error. Folders in use are not
// touched. The caller must Remove the new folders when nothing in them is open any more.
func Create() (f *Folders, removed []string, err error) {
	parents := []string{os.TempDir()}
	if runtime.GOOS == "linux" {
		parents = append(parents, "/dev/shm")
	}
	return create(parents, hasSpace(parents[len(parents)-1]))
}

func hasSpace(dir string) bool {
	space, err := vfs.OS().Space(dir)
	return err == nil && space.Free >= minMemory
}

// create creates a folder in the first of parents and, if inMemory is set, one in the second, which
// is in memory, unless this user may not write there. Earlier processes may have used all of them.
func create(parents []string, inMemory bool) (f *Folders, removed []string, err error) {
	for _, parent := range parents {
		swept, err := sweep(parent)
		removed = append(removed, swept...)
		if err != nil {
			return nil, removed, fmt.Errorf("cannot remove an earlier instance's folder: %w", err)
		}
	}
	f = &Folders{}
	if f.Data, err = f.add(parents[0]); err == nil && inMemory && len(parents) > 1 {
		f.Database, err = f.add(parents[1])
		if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
			err = nil
		}
	}
	if err != nil {
		return nil, removed, errors.Join(fmt.Errorf("cannot create a temporary data folder: %w", err), f.Remove())
	}
	return f, removed, nil
}

// add creates a folder, locks it, and returns the path of its content.
func (f *Folders) add(parent string) (string, error) {
	for {
		path, err := os.MkdirTemp(parent, prefix)
		if err != nil {
			return "", err
		}
		lock, err := vfs.LockFile(filepath.Join(path, lockFile))
		if errors.Is(err, vfs.ErrLocked) || errors.Is(err, fs.ErrNotExist) {
			continue // another process, which is starting, took it for one that was left behind, and removes it
		}
		if err != nil {
			return "", errors.Join(err, os.Remove(path))
		}
		f.locked = append(f.locked, locked{path, lock})
		return filepath.Join(path, content), nil
	}
}

// Remove removes the folders with everything in them.
func (f *Folders) Remove() error {
	var errs []error
	for _, l := range f.locked {
		_, err := l.remove()
		errs = append(errs, err)
	}
	f.locked = nil
	return errors.Join(errs...)
}

// sweep removes the folders in parent that are not in use, and returns their names. It does not
// touch folders that other users own, or could have put there, and finds nothing in a parent that
// this user may not list.
func sweep(parent string) (removed []string, err error) {
	entries, err := os.ReadDir(parent)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, e := range entries {
		path := filepath.Join(parent, e.Name())
		if !strings.HasPrefix(e.Name(), prefix) || !ours(path) {
			continue
		}
		lock, err := vfs.LockFile(filepath.Join(path, lockFile))
		if errors.Is(err, vfs.ErrLocked) || errors.Is(err, fs.ErrNotExist) {
			continue // it is in use, or another process has removed it
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		gone, err := locked{path, lock}.remove()
		if gone {
			removed = append(removed, path)
		}
		errs = append(errs, err)
	}
	return removed, errors.Join(errs...)
}

// remove removes the folder and reports whether it is gone. It is not if another process locked it
// again once the lock was removed: then it is that one's to use or to remove. The lock is removed
// last, so that the next sweep removes the rest after an interruption, and is held until then,
// except on Windows, where a file that is open cannot be removed.
func (l locked) remove() (gone bool, err error) {
	if err := os.RemoveAll(filepath.Join(l.path, content)); err != nil {
		return false, errors.Join(err, l.lock.Close())
	}
	if runtime.GOOS == "windows" {
		err = l.lock.Close()
	} else {
		defer func() { err = errors.Join(err, l.lock.Close()) }()
	}
	if err != nil {
		return false, err
	}
	err = os.Remove(filepath.Join(l.path, lockFile))
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		err = os.Remove(l.path)
	}
	switch {
	case errors.Is(err, fs.ErrExist): // it is not empty: locked again
		return false, nil
	case errors.Is(err, fs.ErrNotExist):
		return true, nil
	}
	return err == nil, err
}
