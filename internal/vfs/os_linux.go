package vfs

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// renameNoReplace calls renameat2(2), or link(2) if the file system does not support
// RENAME_NOREPLACE (NFS and old FUSE file systems).
func renameNoReplace(oldname, newname string) error {
	for {
		err := unix.Renameat2(unix.AT_FDCWD, oldname, unix.AT_FDCWD, newname, unix.RENAME_NOREPLACE)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS):
			return linkNoReplace(oldname, newname)
		}
		return &os.LinkError{Op: "renameat2", Old: oldname, New: newname, Err: err}
	}
}

// identity calls statx(2). A file's birth distinguishes it from earlier files with its inode, and
// is the same after the machine's start, which a device's number may not be. Not every file system
// records it.
func identity(name string) (string, error) {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, name, 0, unix.STATX_INO|unix.STATX_BTIME, &st)
	switch {
	case errors.Is(err, unix.ENOSYS):
		return inode(name)
	case err != nil:
		return "", &os.PathError{Op: "statx", Path: name, Err: err}
	case st.Mask&unix.STATX_BTIME == 0:
		return inode(name)
	}
	return fmt.Sprintf("inode %d born %d.%09d", st.Ino, st.Btime.Sec, st.Btime.Nsec), nil
}

func statfs(dir string) (Space, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return Space{}, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	// FUSE counts blocks in fragments (frsize), which the kernel sets for every file system.
	unit := int64(st.Frsize)
	return Space{
		Size:       int64(st.Blocks) * unit,
		Free:       int64(st.Bavail) * unit,
		Inodes:     int64(st.Files),
		FreeInodes: int64(st.Ffree),
	}, nil
}
