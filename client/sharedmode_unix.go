//go:build unix

package client

import (
	"errors"
	"os"
)

// share sets the mode of a file that createOwn has made. The mode is the one that the umask and the folder's
// default access control list assign to new files. To find it, share creates a file named probe in the folder
// of root, and removes it.
func share(root *os.Root, f *os.File, probe string) error {
	if err := removeIfExists(root, probe); err != nil {
		return err
	}
	p, err := root.OpenFile(probe, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	info, err := p.Stat()
	if err = errors.Join(err, p.Close(), root.Remove(probe)); err != nil {
		return err
	}
	return f.Chmod(info.Mode().Perm())
}
