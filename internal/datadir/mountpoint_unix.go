//go:build unix && !linux

package datadir

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// isMountPoint reports whether another file system is mounted at name, a folder in folder.
func isMountPoint(folder, name string) (bool, error) {
	var outer, inner unix.Stat_t
	if err := unix.Stat(folder, &outer); err != nil {
		return false, fmt.Errorf("cannot read the data folder: stat %s: %w", folder, err)
	}
	if err := unix.Stat(name, &inner); err != nil {
		return false, fmt.Errorf("cannot read the data folder: stat %s: %w", name, err)
	}
	return outer.Dev != inner.Dev, nil
}
