package datadir

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"sluice/bytestore"
	"sluice/test/testenv"
)

func mustOpen(t *testing.T, path string) *Dir {
	t.Helper()
	d := testenv.Must(Open(path))(t)
	testenv.AtEnd(t, d.Close)
	return d
}

// TestFolderIsLocked checks that a folder can be opened once, and again after Close.
func TestFolderIsLocked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "data")
	d := testenv.Must(Open(path))(t)
	if _, err := Open(path); !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), path) {
		t.Errorf("a second Open returns %v, want ErrInUse with the path", err)
	}
	testenv.Equal(t, InUse(path), true, "a locked folder is in use")
	testenv.OK(t, d.Close())
	testenv.Equal(t, InUse(path), false, "a folder that nobody has locked is in use")
	mustOpen(t, path)
	other := t.TempDir()
	testenv.Equal(t, InUse(other), false, "another folder is in use")
	if left, err := os.ReadDir(other); err != nil || len(left) > 0 {
		t.Errorf("it made %v, %v", left, err)
	}
}

// TestServersLock checks that OpenForServer returns ErrServed while a server has the folder, and
// ErrInUse while a command has it or after the server has called Leave.
func TestServersLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data")
	fails := func(open func(string) (*Dir, error), want error, when string) {
		t.Helper()
		_, err := open(path)
		testenv.Is(t, err, want, "%s", when)
	}
	command := testenv.Must(Open(path))(t)
	fails(OpenForServer, ErrInUse, "a server beside a command")
	testenv.OK(t, command.Close())

	server := testenv.Must(OpenForServer(path))(t)
	fails(OpenForServer, ErrServed, "a server beside a server")
	fails(Open, ErrInUse, "a command beside a server")
	testenv.OK(t, server.Leave())
	fails(OpenForServer, ErrInUse, "a server beside one that has left")
	testenv.OK(t, server.Close())
	server = testenv.Must(OpenForServer(path))(t)
	testenv.OK(t, server.Close())
	testenv.OK(t, testenv.Must(OpenForServer(path))(t).Close())
}

// TestUnused checks which folders have nothing in them.
func TestUnused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data")
	testenv.Equal(t, Unused(path), true, "a folder that does not exist is unused")
	testenv.OK(t, os.Mkdir(path, 0o700))
	testenv.Equal(t, Unused(path), true, "an empty folder is unused")
	mustOpen(t, path)
	testenv.Equal(t, Unused(path), false, "a folder that was opened is unused")
}

// TestForeignFolderIsRejected checks that a folder with other files is not used, unless it has a
// database, and that an interrupted first start does not prevent the next.
func TestForeignFolderIsRejected(t *testing.T) {
	path := t.TempDir()
	write := func(name string) {
		t.Helper()
		testenv.OK(t, os.WriteFile(filepath.Join(path, name), nil, 0o600))
	}
	for _, name := range []string{lockFile, serverLock, ballastFile, Returns, "lost+found"} {
		write(name)
	}
	reopen := func() error {
		d, err := Open(path)
		if err != nil {
			return err
		}
		return d.Close()
	}
	testenv.OK(t, reopen())
	write("thesis.txt")
	if err := reopen(); err == nil || !strings.Contains(err.Error(), "thesis.txt") {
		t.Errorf("a folder with another file: error %v, want one that names the file", err)
	}
	write(Database)
	testenv.Is(t, reopen(), nil, "a folder with a database")
}

// TestDatabaseIsPrivate checks a new database's mode, and that an existing one is not changed.
func TestDatabaseIsPrivate(t *testing.T) {
	d := mustOpen(t, filepath.Join(t.TempDir(), "data"))
	if HasDatabase(d.path) || Require(d.path, Database) == nil {
		t.Error("a new folder has a database")
	}
	testenv.Equal(t, testenv.Must(d.CreateDatabase())(t), true, "a new folder's database was created")
	testenv.OK(t, os.WriteFile(d.Path(Database), []byte("content"), 0o600))
	testenv.Equal(t, testenv.Must(d.CreateDatabase())(t), false, "an existing database was created")
	testenv.OK(t, errors.Join(d.Sync(), Require(d.path, Database)))
	info, err := os.Stat(d.Path(Database))
	private := runtime.GOOS == "windows" || err == nil && info.Mode().Perm()&0o077 == 0
	if err != nil || !private || info.Size() != int64(len("content")) || !HasDatabase(d.path) {
		t.Errorf("the database is %v, %v", info, err)
	}
}

// TestBallast checks that the ballast occupies its size, is removed once, and is created again only
// if there is space.
func TestBallast(t *testing.T) {
	d := mustOpen(t, filepath.Join(t.TempDir(), "data"))
	var noSpace error
	var asked int64
	b := d.Ballast(func(n int64) error {
		asked = n
		return noSpace
	})
	testenv.OK(t, b.Restore())
	if info, err := os.Stat(d.Path(ballastFile)); err != nil || info.Size() != ballastSize || asked != 2*ballastSize {
		t.Errorf("the ballast is %v, %v; want %d bytes", info, err, asked)
	}
	if !b.Drop() || b.Drop() {
		t.Error("the ballast was not dropped exactly once")
	}
	// As a process that was killed leaves it.
	testenv.OK(t, os.WriteFile(d.Path(ballastFile), make([]byte, 100), 0o600))
	testenv.OK(t, b.Restore())
	if info, err := os.Stat(d.Path(ballastFile)); err != nil || info.Size() != ballastSize || !b.Drop() {
		t.Errorf("the ballast is %v, %v; it was begun before", info, err)
	}
	noSpace = bytestore.ErrNoSpace
	if err := b.Restore(); err != nil || b.Drop() {
		t.Errorf("without space Restore returns %v, or has created the ballast", err)
	}
}
