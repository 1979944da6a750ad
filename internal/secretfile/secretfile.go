// Package secretfile keeps files that hold secrets, such as keys: only their owner may access them,
// and if root owns them, this process's group may read them.
package secretfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"sluice/internal/vfs"
)

// MaxSize is the largest size that Read permits, in bytes.
const MaxSize = 64 << 10

// Read returns a file's bytes. It returns an error, with the remedy, if Check does, or if the file
// has more than MaxSize bytes.
func Read(name string) (_ []byte, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if err := Check(name, info); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, MaxSize+1))
	if err == nil && len(text) > MaxSize {
		err = fmt.Errorf("the file %s is too large to be one with a key", name)
	}
	return text, err
}

// Create creates a file with mode 0600, durably. It returns fs.ErrExist if the name is in use. The
// folder is created, for its owner alone, if it does not exist.
func Create(name string, text []byte) error {
	if _, err := os.Lstat(name); err == nil {
		return &fs.PathError{Op: "create", Path: name, Err: fs.ErrExist}
	}
	return write(name, text, func(temporary, name string) error { return vfs.OS().Rename(temporary, name) })
}

// Replace creates a file or replaces it, durably and atomically. The new one has mode 0600. The
// folder is created, for its owner alone, if it does not exist.
func Replace(name string, text []byte) error { return write(name, text, os.Rename) }

func write(name string, text []byte, rename func(temporary, name string) error) (err error) {
	name, err = filepath.Abs(name)
	if err != nil {
		return err
	}
	dir := filepath.Dir(name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".sluice-*") // its mode is 0600
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	if err := rename(f.Name(), name); err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return vfs.OS().SyncDir(dir)
}
