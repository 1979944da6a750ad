package client

import (
	"os"

	"golang.org/x/sys/unix"
)

// startWriteback asks the system to begin to write n bytes from a file's offset on to disk, so that
// a later Sync takes less time. It is only a hint: Sync reports errors.
func startWriteback(f *os.File, offset, n int64) {
	connection, err := f.SyscallConn()
	if err != nil {
		return
	}
	_ = connection.Control(func(fd uintptr) {
		_ = unix.SyncFileRange(int(fd), offset, n, unix.SYNC_FILE_RANGE_WRITE)
	})
}
