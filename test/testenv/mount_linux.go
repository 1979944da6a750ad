package testenv

import (
	"errors"
	"os"
	"syscall"
)

// MountTmpfs mounts an empty tmpfs on dir. Its capacity is size, in the syntax of mount(8) ("64m").
// The caller must Unmount it.
func MountTmpfs(dir, size string) error {
	return syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size)
}

// Unmount unmounts the file system on dir.
func Unmount(dir string) error {
	return syscall.Unmount(dir, 0)
}

// checkRootMount mounts a tmpfs and unmounts it again.
func checkRootMount() (err error) {
	dir, err := os.MkdirTemp("", "sluice-mount-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(dir)) }()
	if err := MountTmpfs(dir, "1m"); err != nil {
		return err
	}
	return Unmount(dir)
}
