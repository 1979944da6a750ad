//go:build unix

package vfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"sluice/internal/testenv"
)

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
