package vfs

import (
	"os"

	"golang.org/x/sys/unix"
)

// DropCached asks the system to drop a file's n bytes from offset on from the page cache. It is
// only a hint, and does nothing for a file from another file system than OS().
func DropCached(f File, offset, n int64) {
	file, ok := f.(*os.File)
	if !ok {
		return
	}
	c, err := file.SyscallConn()
	if err != nil {
		return
	}
	_ = c.Control(func(fd uintptr) {
		_ = unix.Fadvise(int(fd), offset, n, unix.FADV_DONTNEED)
	})
}
