package secretfile_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"sluice/internal/secretfile"
	"sluice/test/testenv"
)

func TestFiles(t *testing.T) {
	name := filepath.Join(t.TempDir(), "new", "folder", "secret")
	testenv.Is(t, testenv.Error(secretfile.Read(name)), fs.ErrNotExist, "Read of no file")
	testenv.OK(t, secretfile.Create(name, []byte("first")))
	testenv.Is(t, secretfile.Create(name, []byte("second")), fs.ErrExist, "Create of an existing file")
	if text, err := secretfile.Read(name); err != nil || string(text) != "first" {
		t.Errorf("Read: %q, %v", text, err)
	}
	testenv.OK(t, secretfile.Replace(name, []byte("second")))
	if text, err := secretfile.Read(name); err != nil || string(text) != "second" {
		t.Errorf("Read: %q, %v", text, err)
	}
	testenv.OK(t, secretfile.Replace(name, make([]byte, secretfile.MaxSize+1)))
	if _, err := secretfile.Read(name); err == nil {
		t.Error("a large file is read")
	}
	entries, err := os.ReadDir(filepath.Dir(name))
	if err != nil || len(entries) != 1 {
		t.Errorf("the folder has %v, %v, want one file", entries, err)
	}
	if runtime.GOOS == "windows" {
		return
	}
	for _, path := range []string{name, filepath.Dir(name)} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v, %v, want no access for others", path, info.Mode(), err)
		}
	}
	for _, mode := range []os.FileMode{0o660, 0o604, 0o644, 0o620} {
		testenv.OK(t, os.Chmod(name, mode))
		want := fmt.Sprintf("the file %s has a key, and others may access it (mode %04o): chmod 600 %s", name, mode, name)
		if _, err := secretfile.Read(name); err == nil || err.Error() != want {
			t.Errorf("mode %o: %v, want %s", mode, err, want)
		}
	}
}

// TestConcurrentCreates checks that exactly one call creates the file if several are concurrent.
func TestConcurrentCreates(t *testing.T) {
	name := filepath.Join(t.TempDir(), "secret")
	var created atomic.Int32
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			switch err := secretfile.Create(name, []byte{byte(i)}); {
			case err == nil:
				created.Add(1)
			case !errors.Is(err, fs.ErrExist):
				t.Error(err)
			}
		})
	}
	group.Wait()
	if created.Load() != 1 {
		t.Errorf("%d calls created the file", created.Load())
	}
}
