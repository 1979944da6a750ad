//go:build unix

package client

import (
	"errors"
	"os"
)

// share gives a file that createOwn has made the mode of a file that is created in the folder of root as
// usual: the umask and the default access control list of the folder decide. probe is the name of a file that
// it creates to see, and removes.
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
