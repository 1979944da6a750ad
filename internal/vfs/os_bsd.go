//go:build darwin || freebsd || dragonfly

package vfs

import (
	"os"

	"golang.org/x/sys/unix"
)

func renameNoReplace(oldname, newname string) error { return linkNoReplace(oldname, newname) }

func identity(name string) (string, error) { return inode(name) }

func statfs(dir string) (Space, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return Space{}, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	unit := int64(st.Bsize)
	return Space{
		Size:       int64(st.Blocks) * unit,
		Free:       int64(st.Bavail) * unit,
		Inodes:     int64(st.Files),
		FreeInodes: int64(st.Ffree),
	}, nil
}

// NetworkFS returns the name of a folder's file system if its data are on another machine, and ""
// otherwise.
func NetworkFS(dir string) (string, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil || st.Flags&unix.MNT_LOCAL != 0 {
		return "", err
	}
	return unix.ByteSliceToString(st.Fstypename[:]), nil
}
