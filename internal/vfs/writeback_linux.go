package vfs

import (
	"os"

	"golang.org/x/sys/unix"
)

// StartWriteback asks the system to begin to write a file's n bytes from offset on to disk, or all
// from there on if n is zero, so that a later Sync takes less time. It is only a hint: Sync reports
// the errors. It does nothing for a file from another file system than OS().
func StartWriteback(f File, offset, n int64) {
	file, ok := f.(*os.File)
	if !ok {
		return
	}
	c, err := file.SyscallConn()
	if err != nil {
		return
	}
	_ = c.Control(func(fd uintptr) {
		_ = unix.SyncFileRange(int(fd), offset, n, unix.SYNC_FILE_RANGE_WRITE)
	})
}
