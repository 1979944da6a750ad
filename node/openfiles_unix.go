//go:build unix

package node

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// openFileLimit returns how many files this process may have open.
func openFileLimit() (uint64, error) {
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return 0, fmt.Errorf("reading the limit of open files: %w", err)
	}
	return uint64(files.Cur), nil
}
