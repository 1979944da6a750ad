//go:build unix

package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"sluice/test/testenv"
)

// TestOpenRefusesSpecialFiles opens files that are not regular, which must neither succeed nor wait
// for another process.
func TestOpenRefusesSpecialFiles(t *testing.T) {
	dir := t.TempDir()
	pipe, link, file := filepath.Join(dir, "pipe"), filepath.Join(dir, "link"), filepath.Join(dir, "file")
	testenv.OK(t, unix.Mkfifo(pipe, 0o600))
	testenv.OK(t, os.Symlink(pipe, link))
	for _, name := range []string{pipe, link, dir, os.DevNull} {
		testenv.Is(t, testenv.Error(OS().Open(name)), ErrIrregular, "opening %s", name)
	}
	testenv.OK(t, os.WriteFile(file, []byte("text"), 0o600))
	testenv.OK(t, os.Remove(link))
	testenv.OK(t, os.Symlink(file, link))
	f := testenv.Must(OS().Open(link))(t)
	testenv.Equal(t, string(testenv.Must(io.ReadAll(f))(t)), "text", "a link to a file")
	testenv.OK(t, f.Close())
}

// TestLinkNoReplace tests the fallback for kernels and file systems without RENAME_NOREPLACE, which
// test machines rarely have.
func TestLinkNoReplace(t *testing.T) {
	dir := t.TempDir()
	a, b, c := filepath.Join(dir, "a"), filepath.Join(dir, "b"), filepath.Join(dir, "c")
	for _, name := range []string{a, b} {
		testenv.OK(t, os.WriteFile(name, []byte(name), 0o600))
	}
	if err := linkNoReplace(a, b); !errors.Is(err, fs.ErrExist) {
		t.Fatalf("onto a file: %v", err)
	}
	testenv.OK(t, linkNoReplace(a, c))
	if got, err := os.ReadFile(c); string(got) != a || err != nil {
		t.Fatalf("%q, %v", got, err)
	}
	if got, err := os.ReadFile(b); string(got) != b || err != nil {
		t.Fatalf("the file that was there: %q, %v", got, err)
	}
	if _, err := os.Stat(a); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("the old name: %v", err)
	}
}
