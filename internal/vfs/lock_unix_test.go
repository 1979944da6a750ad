//go:build unix

package vfs

import (
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestLockOfAForkedProcess: Close releases a lock although a process that was just forked still has
// the file's descriptor, as it has until it executes a program.
func TestLockOfAForkedProcess(t *testing.T) {
	name := filepath.Join(t.TempDir(), "lock")
	first, err := LockFile(name)
	if err != nil {
		t.Fatal(err)
	}
	inherited, err := unix.Dup(int(first.file.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(inherited) }()
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second, err := LockFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
}
