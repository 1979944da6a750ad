//go:build unix

package client

import (
	"errors"
	"os"
)

// share sets the mode on a file that createOwn has made. It is the mode that the umask and the
// folder's default access control list assign to new files. To find it, share creates a file named
// probe in root, and removes it.
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
