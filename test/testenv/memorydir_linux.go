package testenv

import (
	"os"
	"syscall"
)

// MemoryRoot returns a folder in memory in which tests have enough space, or "" for the default
// folder of temporary files: if there is none, or if TMPDIR names another. Examples, which have no
// testing.TB, make their folders in it; tests call MemoryDir.
func MemoryRoot() string {
	const (
		shared = "/dev/shm"
		tmpfs  = 0x01021994
		enough = 2 << 30
	)
	if os.Getenv("TMPDIR") != "" {
		return ""
	}
	var s syscall.Statfs_t
	if err := syscall.Statfs(shared, &s); err != nil || int64(s.Type) != tmpfs || int64(s.Bavail)*s.Bsize < enough {
		return ""
	}
	return shared
}
