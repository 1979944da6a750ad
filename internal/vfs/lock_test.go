package vfs_test

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"sluice/internal/vfs"
)

func TestLockFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	name := filepath.Join(dir, "lock")
	_, err := vfs.LockFile(name)
	wantErr(t, err, os.ErrNotExist)
	wantErr(t, os.Mkdir(dir, 0o700), nil)

	first, err := vfs.LockFile(name)
	wantErr(t, err, nil)
	if !first.Current() {
		t.Fatal("a new lock is not current")
	}
	if info, err := os.Stat(name); err != nil || !hasMode(info, 0o600) {
		t.Fatalf("the lock file: %v, %v", info, err)
	}
	_, err = vfs.LockFile(name)
	wantErr(t, err, vfs.ErrLocked)

	// Once the folder is replaced the old lock excludes no process.
	err = os.RemoveAll(dir)
	if runtime.GOOS == "windows" { // a file that is open cannot be removed
		if err == nil || !first.Current() {
			t.Fatalf("a locked file was removed: %v", err)
		}
		wantErr(t, first.Close(), nil)
		again, err := vfs.LockFile(name)
		wantErr(t, err, nil)
		wantErr(t, again.Close(), nil)
		return
	}
	wantErr(t, err, nil)
	if first.Current() {
		t.Fatal("the lock of a removed file is current")
	}
	wantErr(t, os.Mkdir(dir, 0o700), nil)
	second, err := vfs.LockFile(name)
	wantErr(t, err, nil)
	if first.Current() || !second.Current() {
		t.Fatalf("after a replacement the first lock is current: %t, the second: %t", first.Current(), second.Current())
	}
	wantErr(t, first.Close(), nil)
	wantErr(t, second.Close(), nil)

	third, err := vfs.LockFile(name)
	wantErr(t, err, nil)
	wantErr(t, third.Close(), nil)
}
