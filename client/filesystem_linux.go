package client

import (
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// fileSystem is a file system that can be synced as a whole; nil is none.
type fileSystem struct {
	folder *os.File
	device uint64
}

// openFileSystem opens a folder's file system. It returns nil if its syncfs(2) cannot be relied on:
// before Linux 5.8 that reports no errors, and FUSE and overlayfs need not pass it on. It reports
// only errors since the open.
func openFileSystem(root *os.Root) (*fileSystem, error) {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil || !syncReportsErrors(unix.ByteSliceToString(name.Release[:])) {
		return nil, err
	}
	folder, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	var info unix.Statfs_t
	if err := unix.Fstatfs(int(folder.Fd()), &info); err != nil || !slices.Contains([]int64{unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC}, int64(info.Type)) {
		return nil, errors.Join(err, folder.Close())
	}
	device, err := deviceOf(folder)
	if err != nil {
		return nil, errors.Join(err, folder.Close())
	}
	return &fileSystem{folder, device}, nil
}

// syncReportsErrors reports whether a Linux release, such as "6.1.0-13-amd64", is 5.8 or later.
func syncReportsErrors(release string) bool {
	major, rest, _ := strings.Cut(release, ".")
	minor := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))]
	x, err1 := strconv.Atoi(major)
	y, err2 := strconv.Atoi(minor)
	return errors.Join(err1, err2) == nil && (x > 5 || x == 5 && y >= 8)
}

func deviceOf(f *os.File) (uint64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Sys().(*syscall.Stat_t).Dev, nil
}

// has reports whether a file is in the file system.
func (s *fileSystem) has(f *os.File) bool {
	if s == nil {
		return false
	}
	device, err := deviceOf(f)
	return err == nil && device == s.device
}

func (s *fileSystem) sync() error {
	for {
		if err := unix.Syncfs(int(s.folder.Fd())); !errors.Is(err, unix.EINTR) {
			return os.NewSyscallError("syncfs", err)
		}
	}
}

func (s *fileSystem) close() error {
	if s == nil {
		return nil
	}
	return s.folder.Close()
}
