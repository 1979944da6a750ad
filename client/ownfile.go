package client

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// errForeign is returned for a file that this user has not made for itself alone: it may have been
// planted by another who can write to the folder.
var errForeign = errors.New("it was not made by this user for itself alone (a regular file with one name and mode 0600)")

// openOwn opens a file that an earlier call has created with createOwn. It returns errForeign if it
// is another's, if other users may access it, if it has several names, or if it is not a regular
// file: symbolic links are not followed, and a pipe is not waited for.
func openOwn(root *os.Root, name string, flag int) (*os.File, error) {
	named, err := root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !isOwn(named) {
		return nil, fmt.Errorf("%s: %w", name, errForeign)
	}
	f, err := root.OpenFile(name, flag|openOwnFlags, 0)
	if err != nil {
		return nil, err
	}
	opened, err := f.Stat()
	if err == nil && (!isOwn(opened) || !os.SameFile(named, opened)) { // replaced meanwhile
		err = fmt.Errorf("%s: %w", name, errForeign)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// createOwn creates a file that this user alone may access. It returns fs.ErrExist if the name is
// in use, even by a symbolic link.
func createOwn(root *os.Root, name string, flag int) (*os.File, error) {
	return root.OpenFile(name, flag|os.O_CREATE|os.O_EXCL, 0o600)
}

// openOrCreateOwn opens a file like openOwn, or creates it.
func openOrCreateOwn(root *os.Root, name string, flag int) (*os.File, error) {
	for {
		f, err := createOwn(root, name, flag)
		if !errors.Is(err, fs.ErrExist) {
			return f, err
		}
		f, err = openOwn(root, name, flag)
		if !errors.Is(err, fs.ErrNotExist) { // else it was removed meanwhile
			return f, err
		}
	}
}
