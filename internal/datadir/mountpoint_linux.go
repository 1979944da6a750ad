package datadir

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// isMountPoint reports whether a file system is mounted at name, which may be part of the same one
// (a bind mount). It must be a folder in folder.
func isMountPoint(folder, name string) (bool, error) {
	var outer, inner unix.Statx_t
	for path, stat := range map[string]*unix.Statx_t{folder: &outer, name: &inner} {
		if err := unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_BASIC_STATS, stat); err != nil {
			return false, fmt.Errorf("cannot read the data folder: statx %s: %w", path, err)
		}
	}
	if inner.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT != 0 {
		return inner.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0, nil
	}
	return outer.Dev_major != inner.Dev_major || outer.Dev_minor != inner.Dev_minor, nil // a kernel before 5.8
}
