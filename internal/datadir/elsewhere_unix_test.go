//go:build unix

package datadir

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/test/testenv"
)

// TestBytesAreLocked checks that the bytes are locked by whatever path they are reached, and
// unlocked by Close.
// Invariant 97.
func TestBytesAreLocked(t *testing.T) {
	root := t.TempDir()
	first, err := Open(filepath.Join(root, "first"))
	if err == nil {
		err = first.LockBytes()
	}
	testenv.OK(t, err)
	second := mustOpen(t, filepath.Join(root, "second"))
	testenv.OK(t, os.Symlink(first.Path(Bytes), second.Path(Bytes)))
	if err := second.LockBytes(); !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), "first") {
		t.Errorf("bytes that another folder uses: error %v, want ErrInUse with the place of the bytes", err)
	}
	testenv.OK(t, first.Close())
	testenv.Is(t, second.LockBytes(), nil, "bytes that are not in use any more")
}

// TestBytesElsewhere checks which folders of bytes a copy of their data folder may share.
// Invariant 97.
func TestBytesElsewhere(t *testing.T) {
	path := t.TempDir()
	check := func(when string, want bool) {
		t.Helper()
		if got, err := BytesElsewhere(path); err != nil || got != want {
			t.Errorf("%s: %t, %v; want %t", when, got, err, want)
		}
	}
	check("no bytes", false)
	testenv.OK(t, os.Mkdir(filepath.Join(path, Bytes), 0o700))
	check("a folder", false)
	testenv.OK(t, errors.Join(os.Remove(filepath.Join(path, Bytes)), os.Symlink(t.TempDir(), filepath.Join(path, Bytes))))
	check("a symbolic link", true)
	if mounted, err := isMountPoint("/", "/proc"); err == nil && !mounted {
		t.Error("/proc is not found to be a mount point")
	}
}
