package bytetest_test

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"sluice/bytestore"
	"sluice/bytestore/bytetest"
	"sluice/bytestore/localfs"
	"sluice/internal/vfs"
	"sluice/test/vfstest"
)

// overCrash returns a harness of localfs stores on a file system that can crash. The store uses
// that file system as wrapped by wrap.
func overCrash(wrap func(vfs.FS) vfs.FS) bytetest.Harness {
	disk := vfstest.NewCrash()
	return bytetest.Harness{
		Open: func() (bytestore.Store, error) {
			return localfs.Open("/data", localfs.Options{FS: wrap(disk)})
		},
		Crash: func() error {
			disk = disk.Crash()
			return nil
		},
	}
}

// without returns a file system that reports success for operations with the given kinds and does
// nothing.
func without(kinds ...vfstest.Kind) func(vfs.FS) vfs.FS {
	return func(fsys vfs.FS) vfs.FS {
		return vfstest.Intercept(fsys, func(op *vfstest.Op, do func() error) error {
			if slices.Contains(kinds, op.Kind) {
				return nil
			}
			return do()
		})
	}
}

// mutant is a store that violates one promise and fails its check.
type mutant struct {
	name  string
	check string
	wrap  func(vfs.FS) vfs.FS
}

// TestBrokenStoresAreCaught checks that the suite detects broken promises of a disk. Broken stores
// are planted in packages memory and localfs.
// Invariant 10.
func TestBrokenStoresAreCaught(t *testing.T) {
	for _, m := range brokenDisks {
		t.Run(m.name, func(t *testing.T) {
			i := slices.IndexFunc(bytetest.Checks(), func(c bytetest.Check) bool { return c.Name == m.check })
			if bytetest.Checks()[i].Run(t.Context(), overCrash(m.wrap)) == nil {
				t.Errorf("check %q did not catch it", m.check)
			}
		})
	}
}

// brokenDisks are correct stores over a file system that breaks a promise.
var brokenDisks = []mutant{
	{"acknowledges before the file's fsync", "crash after put", without(vfstest.KindSync)},
	{"loses the folder's entry", "crash after put", without(vfstest.KindSyncDir)},
	{"syncs no more after the shards were made", "crash after put", syncsOnce},
	{"replaces on rename", "put overtaken by another of its name", replaces},
	{"lists temporary files", "a put is invisible until it is whole", listsTemporary},
}

// syncsOnce returns a file system that syncs each folder only once, like a store that lets late
// callers share a running sync.
func syncsOnce(fsys vfs.FS) vfs.FS {
	var synced sync.Map
	return vfstest.Intercept(fsys, func(op *vfstest.Op, do func() error) error {
		if op.Kind != vfstest.KindSyncDir {
			return do()
		}
		if _, again := synced.LoadOrStore(op.Name, true); again {
			return nil
		}
		return do()
	})
}

// replaces returns a file system with a rename that replaces, like rename(2).
func replaces(fsys vfs.FS) vfs.FS {
	return vfstest.Intercept(fsys, func(op *vfstest.Op, do func() error) error {
		if op.Kind == vfstest.KindRename {
			if err := fsys.Remove(op.To); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		return do()
	})
}

// listsTemporary returns a file system that shows temporary files under names that are valid names.
func listsTemporary(fsys vfs.FS) vfs.FS { return disguising{fsys} }

type disguising struct{ vfs.FS }

func (d disguising) ReadDir(dir string) ([]fs.DirEntry, error) {
	entries, err := d.FS.ReadDir(dir)
	for i, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			entries[i] = renamed{e, filepath.Base(dir) + "-000000000000-" + strings.Repeat("0", 32)}
		}
	}
	return entries, err
}

type renamed struct {
	fs.DirEntry
	name string
}

func (r renamed) Name() string { return r.name }
