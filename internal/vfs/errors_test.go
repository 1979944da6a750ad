package vfs_test

import (
	"fmt"
	"syscall"
	"testing"

	"sluice/internal/vfs"
)

func TestErrorClasses(t *testing.T) {
	for _, tc := range []struct {
		err                error
		full, tooManyFiles bool
	}{
		{nil, false, false},
		{syscall.EIO, false, false},
		{syscall.ENOSPC, true, false},
		{fmt.Errorf("write: %w", syscall.EDQUOT), true, false},
		{syscall.EMFILE, false, true},
		{fmt.Errorf("open: %w", syscall.ENFILE), false, true},
	} {
		if vfs.IsFull(tc.err) != tc.full || vfs.IsTooManyFiles(tc.err) != tc.tooManyFiles {
			t.Errorf("%v: IsFull %t, IsTooManyFiles %t", tc.err, !tc.full, !tc.tooManyFiles)
		}
	}
}
