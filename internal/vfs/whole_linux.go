package vfs

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// wholeTypes are file systems on disks. Other kinds, such as FUSE and overlayfs, do not pass a sync
// or its errors on.
var wholeTypes = []int64{unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC}

// openWhole opens a folder to call syncfs(2), which reports only errors since the open, and none
// before Linux 5.8.
func openWhole(dir string) (Whole, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return nil, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	if !slices.Contains(wholeTypes, int64(st.Type)) {
		return nil, fmt.Errorf("%w: syncfs of a file system of the type %#x", errors.ErrUnsupported, st.Type)
	}
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return nil, os.NewSyscallError("uname", err)
	}
	if release := unix.ByteSliceToString(name.Release[:]); !reportsErrors(release) {
		return nil, fmt.Errorf("%w: syncfs of Linux %s reports no errors", errors.ErrUnsupported, release)
	}
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	return wholeFolder{f}, nil
}

// reportsErrors reports whether syncfs in a Linux release, such as "6.1.0-13-amd64", reports
// errors: those from 5.8 on do.
func reportsErrors(release string) bool {
	major, rest, _ := strings.Cut(release, ".")
	end := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(rest)
	}
	x, err1 := strconv.Atoi(major)
	y, err2 := strconv.Atoi(rest[:end])
	return errors.Join(err1, err2) == nil && (x > 5 || x == 5 && y >= 8)
}

type wholeFolder struct{ f *os.File }

func (w wholeFolder) Sync() error {
	for {
		err := unix.Syncfs(int(w.f.Fd()))
		if !errors.Is(err, unix.EINTR) {
			return os.NewSyscallError("syncfs", err)
		}
	}
}

func (w wholeFolder) Close() error { return w.f.Close() }
