package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/windows"

	"sluice/test/testenv"
)

// TestErrorsOfWindows checks that the system's errors are classified, even when they are wrapped.
func TestErrorsOfWindows(t *testing.T) {
	for _, errno := range []error{windows.ERROR_DISK_FULL, windows.ERROR_HANDLE_DISK_FULL, windows.ERROR_DISK_QUOTA_EXCEEDED} {
		if err := (&os.PathError{Op: "write", Path: "f", Err: errno}); !IsFull(err) || IsTooManyFiles(err) {
			t.Errorf("%v is not a full disk", err)
		}
	}
	if !IsTooManyFiles(windows.ERROR_TOO_MANY_OPEN_FILES) || IsFull(windows.ERROR_ACCESS_DENIED) {
		t.Error("errors are classified wrongly")
	}
}

// TestOpenFileCanBeMoved renames and removes a file while it is open for reading, which readers of
// blobs depend on.
func TestOpenFileCanBeMoved(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	testenv.OK(t, os.WriteFile(a, []byte("text"), 0o600))
	f := testenv.Must(openFile(a))(t)
	testenv.OK(t, errors.Join(renameNoReplace(a, b), os.Remove(b)))
	got, err := io.ReadAll(f)
	if err := errors.Join(err, f.Close()); string(got) != "text" || err != nil {
		t.Fatalf("%q, %v", got, err)
	}
	if _, err := os.Stat(b); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("the removed file: %v", err)
	}
}

// TestUnnamedFileIsRemoved checks that a file of CreateUnnamed is gone once it is closed.
func TestUnnamedFileIsRemoved(t *testing.T) {
	dir := t.TempDir()
	f := testenv.Must(CreateUnnamed(dir, "part-*.tmp"))(t)
	testenv.Must(io.WriteString(f, "text"))(t)
	testenv.Must(f.Seek(0, io.SeekStart))(t)
	got, err := io.ReadAll(f)
	if err := errors.Join(err, f.Close()); string(got) != "text" || err != nil {
		t.Fatalf("%q, %v", got, err)
	}
	if entries, err := os.ReadDir(dir); len(entries) > 0 || err != nil {
		t.Fatalf("the folder has %v, %v", entries, err)
	}
}
