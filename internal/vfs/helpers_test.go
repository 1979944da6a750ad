package vfs_test

import (
	"errors"
	"io/fs"
	"runtime"
	"testing"

	"sluice/internal/vfs"
	"sluice/test/testenv"
	"sluice/test/vfstest"
)

// systems returns the file systems, which must behave alike, each with an empty folder.
func systems(t *testing.T) map[string]struct {
	fs  vfs.FS
	dir string
} {
	crash := vfstest.NewCrash()
	testenv.OK(t, crash.Mkdir("/work"))
	type system = struct {
		fs  vfs.FS
		dir string
	}
	pass := func(_ *vfstest.Op, do func() error) error { return do() }
	return map[string]system{
		"os":          {vfs.OS(), t.TempDir()},
		"crash":       {crash, "/work"},
		"intercepted": {vfstest.Intercept(vfs.OS(), pass), t.TempDir()},
	}
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
