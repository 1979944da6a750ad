package datadir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// lockFolder locks the folder at path.
func lockFolder(path string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(path, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot lock the data folder: %w", err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, errors.Join(fmt.Errorf("the data folder %s %w: stop that process, or name another folder with --data DIR", path, ErrInUse), f.Close())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot lock the data folder %s: %w", path, err), f.Close())
	}
	return f, nil
}
