//go:build unix

package ephemeral

import (
	"os"
	"syscall"
)

// ours reports whether the path is a folder, and no link to one, which belongs to this user and is
// accessible to no other: only that can be one that this package created.
func ours(path string) bool {
	info, err := os.Lstat(path)
	if err != nil || !info.IsDir() || info.Mode().Perm()&0o077 != 0 {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Getuid()
}
