package vfs

import (
	"errors"
	"os"
)

// Lock is an exclusive lock on a file. It is held until Close or until the process ends, however it
// ends. Its methods may be called concurrently.
type Lock struct{ file *os.File }

// LockFile locks the named file, which it creates if necessary for its owner alone (mode 0600),
// without waiting. It returns ErrLocked if the file is locked. The lock is advisory: it excludes
// only other callers of LockFile. The caller must Close it.
func LockFile(name string) (*Lock, error) {
	for {
		f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return nil, err
		}
		lock := &Lock{f}
		err = lockExclusive(f)
		if err == nil && lock.Current() {
			return lock, nil
		}
		if err := errors.Join(err, f.Close()); err != nil {
			return nil, err
		}
		// The file was removed before it was locked: its lock excludes no process.
	}
}

// Current reports whether the locked file's name still refers to it. It does not if the file, or a
// folder above it, was removed or replaced: then another process can lock the same name.
func (l *Lock) Current() bool {
	locked, err := l.file.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(l.file.Name())
	return err == nil && os.SameFile(locked, named)
}

// Close releases the lock. It does not remove the file. A process that was started meanwhile has
// the file until it executes its program, so closing it would not be enough.
func (l *Lock) Close() error { return errors.Join(unlock(l.file), l.file.Close()) }
