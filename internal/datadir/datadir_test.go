package datadir

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"sluice/bytestore"
)

func mustOpen(t *testing.T, path string) *Dir {
	t.Helper()
	d, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// TestFolderIsLocked checks that a folder can be opened once, and again after Close.
func TestFolderIsLocked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "data")
	d, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path); !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), path) {
		t.Errorf("a second Open returns %v, want ErrInUse with the path", err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	mustOpen(t, path)
}

// TestForeignFolderIsRejected checks that a folder with other files is not used, unless
// it has a database, and that an interrupted first start does not prevent the next.
func TestForeignFolderIsRejected(t *testing.T) {
	path := t.TempDir()
	write := func(name string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(path, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{lockFile, ballastFile, Returns, "lost+found"} {
		write(name)
	}
	reopen := func() error {
		d, err := Open(path)
		if err != nil {
			return err
		}
		return d.Close()
	}
	if err := reopen(); err != nil {
		t.Fatal(err)
	}
	write("thesis.txt")
	if err := reopen(); err == nil || !strings.Contains(err.Error(), "thesis.txt") {
		t.Errorf("a folder with another file: error %v, want one that names the file", err)
	}
	write(Database)
	if err := reopen(); err != nil {
		t.Errorf("a folder with a database: %v", err)
	}
}

// TestDatabaseIsPrivate checks the mode of a new database, and that an existing one is
// not changed.
func TestDatabaseIsPrivate(t *testing.T) {
	d := mustOpen(t, filepath.Join(t.TempDir(), "data"))
	if HasDatabase(d.path) || Require(d.path, Database) == nil {
		t.Error("a new folder has a database")
	}
	if err := d.CreateDatabase(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(d.Path(Database), []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(d.CreateDatabase(), d.Sync(), Require(d.path, Database)); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(d.Path(Database))
	private := runtime.GOOS == "windows" || err == nil && info.Mode().Perm()&0o077 == 0
	if err != nil || !private || info.Size() != int64(len("content")) || !HasDatabase(d.path) {
		t.Errorf("the database is %v, %v", info, err)
	}
}

// TestBallast checks that the ballast occupies its size, is removed once, and is
// created again only if there is space.
func TestBallast(t *testing.T) {
	d := mustOpen(t, filepath.Join(t.TempDir(), "data"))
	var noSpace error
	var asked int64
	b := d.Ballast(func(n int64) error {
		asked = n
		return noSpace
	})
	if err := b.Restore(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(d.Path(ballastFile)); err != nil || info.Size() != ballastSize || asked != 2*ballastSize {
		t.Errorf("the ballast is %v, %v; want %d bytes", info, err, asked)
	}
	if !b.Drop() || b.Drop() {
		t.Error("the ballast was not dropped exactly once")
	}
	noSpace = bytestore.ErrNoSpace
	if err := b.Restore(); err != nil || b.Drop() {
		t.Errorf("without space Restore returns %v, or has created the ballast", err)
	}
}
