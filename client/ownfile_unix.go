//go:build unix

package client

import (
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// openOwnFlags are the flags with which openOwn opens a file.
const openOwnFlags = unix.O_NOFOLLOW | unix.O_NONBLOCK

// isOwn reports whether a file is a regular one of this user, with one name, that no other user may
// access. A file with a second name may have nothing to do with transfers.
func isOwn(info fs.FileInfo) bool {
	s, known := info.Sys().(*syscall.Stat_t)
	return known && info.Mode().IsRegular() && info.Mode().Perm()&0o077 == 0 && int(s.Uid) == os.Geteuid() && s.Nlink == 1
}
