package vfs_test

import (
	"errors"
	"io"
	"io/fs"
	"runtime"
	"testing"

	"sluice/internal/vfs"
)

// systems returns the file systems, which must behave alike, each with an empty folder.
func systems(t *testing.T) map[string]struct {
	fs  vfs.FS
	dir string
} {
	crash := vfs.NewCrash()
	if err := crash.Mkdir("/work"); err != nil {
		t.Fatal(err)
	}
	type system = struct {
		fs  vfs.FS
		dir string
	}
	pass := func(_ *vfs.Op, do func() error) error { return do() }
	return map[string]system{
		"os":          {vfs.OS(), t.TempDir()},
		"crash":       {crash, "/work"},
		"intercepted": {vfs.Intercept(vfs.OS(), pass), t.TempDir()},
	}
}

func write(t *testing.T, fsys vfs.FS, name, text string, sync bool) {
	t.Helper()
	f, err := fsys.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := io.WriteString(f, text); n != len(text) || err != nil {
		t.Fatalf("write: %d, %v", n, err)
	}
	if sync {
		if err := f.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, fsys vfs.FS, name string) string {
	t.Helper()
	f, err := fsys.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(f)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func names(t *testing.T, fsys vfs.FS, dir string) []string {
	t.Helper()
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	list := []string{}
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

// hasMode reports whether a file or folder has exactly these permissions. Windows has no such
// permissions: a file inherits the access control list of its folder.
func hasMode(info fs.FileInfo, mode fs.FileMode) bool {
	return runtime.GOOS == "windows" || info.Mode().Perm() == mode
}

func wantErr(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error %v, want %v", err, want)
	}
}
