package vfs

import (
	"errors"
	"syscall"
)

// IsFull reports whether err means that the file system, or the quota of its user, is full.
func IsFull(err error) bool { return isAny(err, full) }

// IsTooManyFiles reports whether err means that the process or the system has no file descriptor
// left.
func IsTooManyFiles(err error) bool { return isAny(err, tooManyFiles) }

func isAny(err error, list []syscall.Errno) bool {
	for _, errno := range list {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}
