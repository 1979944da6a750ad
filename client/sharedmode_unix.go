//go:build unix

package client

import (
	"errors"
	"os"
)

// newFileMode returns the mode that the umask and the folder's default access control list assign
// to new files. To find it, it creates a file named probe in root, and removes it.
func newFileMode(root *os.Root, probe string) (os.FileMode, error) {
	if err := removeIfExists(root, probe); err != nil {
		return 0, err
	}
	p, err := root.OpenFile(probe, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return 0, err
	}
	info, err := p.Stat()
	if err = errors.Join(err, p.Close(), root.Remove(probe)); err != nil {
		return 0, err
	}
	return info.Mode().Perm(), nil
}

// share sets a mode on a file that createOwn has made.
func share(f *os.File, mode os.FileMode) error { return f.Chmod(mode) }
