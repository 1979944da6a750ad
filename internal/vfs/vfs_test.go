package vfs_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"

	"sluice/internal/vfs"
	"sluice/test/fault"
	"sluice/test/testenv"
	"sluice/test/vfstest"
)

// TestSyncDirNotOpened checks that a folder that cannot be opened is distinguished from a failed
// fsync.
func TestSyncDirNotOpened(t *testing.T) {
	for name, sys := range systems(t) {
		t.Run(name, func(t *testing.T) {
			err := sys.fs.SyncDir(filepath.Join(sys.dir, "missing"))
			wantErr(t, err, vfs.ErrNotOpened)
			wantErr(t, err, fs.ErrNotExist)
			wantErr(t, sys.fs.SyncDir(sys.dir), nil)
		})
	}
	boom := vfstest.Inject(vfs.OS(), &vfstest.Fault{Kind: fault.Lose, Err: syscall.EIO})
	if err := boom.SyncDir(t.TempDir()); !errors.Is(err, syscall.EIO) || errors.Is(err, vfs.ErrNotOpened) {
		t.Errorf("a failed fsync: %v", err)
	}
}

func TestBehaviour(t *testing.T) {
	for name, sys := range systems(t) {
		t.Run(name, func(t *testing.T) {
			fsys, a, b := sys.fs, filepath.Join(sys.dir, "a"), filepath.Join(sys.dir, "b")
			vfstest.Write(t, fsys, a, "hello", true)
			_, err := fsys.Create(a)
			wantErr(t, err, fs.ErrExist)
			vfstest.Write(t, fsys, b, "other", false)
			wantErr(t, fsys.Rename(a, b), fs.ErrExist)
			if got := vfstest.Read(t, fsys, b); got != "other" {
				t.Fatalf("rename replaced: %q", got)
			}

			f := testenv.Must(fsys.Open(a))(t)
			if info, err := f.Stat(); err != nil || info.Size() != 5 || !info.Mode().IsRegular() {
				t.Fatalf("stat: %v, %v", info, err)
			}
			if pos, err := f.Seek(3, io.SeekStart); pos != 3 || err != nil {
				t.Fatalf("seek: %d, %v", pos, err)
			}
			testenv.OK(t, fsys.Remove(a))
			if rest, err := io.ReadAll(f); string(rest) != "lo" || err != nil {
				t.Fatalf("reading on after remove: %q, %v", rest, err)
			}
			testenv.OK(t, f.Close())
			wantErr(t, f.Close(), fs.ErrClosed)

			_, err = fsys.Open(a)
			wantErr(t, err, fs.ErrNotExist)
			wantErr(t, fsys.Remove(a), fs.ErrNotExist)
			wantErr(t, fsys.Rename(a, b+"x"), fs.ErrNotExist)
			testenv.OK(t, fsys.Rename(b, a))
			sub := filepath.Join(sys.dir, "sub")
			testenv.OK(t, fsys.Mkdir(sub))
			wantErr(t, fsys.Mkdir(sub), fs.ErrExist)
			vfstest.Write(t, fsys, filepath.Join(sub, "x"), "", true)
			if err := fsys.Remove(sub); err == nil || runtime.GOOS != "windows" && !errors.Is(err, syscall.ENOTEMPTY) {
				t.Fatalf("remove of a folder that is not empty: %v", err)
			}
			if got := vfstest.Names(t, fsys, sys.dir); !slices.Equal(got, []string{"a", "sub"}) {
				t.Fatalf("names: %q", got)
			}
			space, err := fsys.Space(sys.dir)
			if err != nil || space.Size < space.Free || space.Free <= 0 {
				t.Fatalf("space: %+v, %v", space, err)
			}
		})
	}
}

func TestRenameRace(t *testing.T) {
	for name, sys := range systems(t) {
		t.Run(name, func(t *testing.T) {
			for round := range 20 {
				const racers = 8
				target := filepath.Join(sys.dir, fmt.Sprintf("target%d", round))
				errs := make([]error, racers)
				for i := range errs {
					vfstest.Write(t, sys.fs, fmt.Sprintf("%s.%d", target, i), fmt.Sprint(i), false)
				}
				var wg sync.WaitGroup
				for i := range errs {
					wg.Go(func() { errs[i] = sys.fs.Rename(fmt.Sprintf("%s.%d", target, i), target) })
				}
				wg.Wait()
				won := slices.Index(errs, nil)
				for i, err := range errs {
					if i != won {
						wantErr(t, err, fs.ErrExist)
					}
				}
				if got := vfstest.Read(t, sys.fs, target); got != fmt.Sprint(won) {
					t.Fatalf("winner %d, content %q", won, got)
				}
			}
		})
	}
}

func TestOSFilesAreSendable(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	vfstest.Write(t, vfs.OS(), name, "x", false)
	f := testenv.Must(vfs.OS().Open(name))(t)
	defer func() { wantErr(t, f.Close(), nil) }()
	if _, ok := f.(*os.File); !ok {
		t.Fatalf("Open returned a %T", f)
	}
}

func TestMkdirAllIsDurable(t *testing.T) {
	// Whichever operation interrupts the first call, a second call completes it.
	for nth := int64(0); ; nth++ {
		c := vfstest.NewCrash()
		point := &vfstest.Fault{K: nth, Kind: fault.Fail, Err: syscall.EIO}
		err := vfs.MkdirAll(vfstest.Inject(c, point), "/a/b/c")
		if point.Struck() {
			wantErr(t, err, syscall.EIO)
			wantErr(t, vfs.MkdirAll(c, "/a/b/c"), nil)
		} else {
			wantErr(t, err, nil)
		}
		if _, err := c.Crash().ReadDir("/a/b/c"); err != nil {
			t.Fatalf("cut at %d: %v", nth, err)
		}
		if !point.Struck() {
			break
		}
	}
	dir := filepath.Join(t.TempDir(), "a", "b")
	for range 2 {
		wantErr(t, vfs.MkdirAll(vfs.OS(), dir), nil)
	}
	if info, err := os.Stat(dir); err != nil || !hasMode(info, 0o700) {
		t.Fatalf("%v, %v", info, err)
	}
	file := filepath.Join(dir, "file")
	vfstest.Write(t, vfs.OS(), file, "", false)
	if err := vfs.MkdirAll(vfs.OS(), filepath.Join(file, "x")); err == nil || runtime.GOOS != "windows" && !errors.Is(err, syscall.ENOTDIR) {
		t.Fatalf("a folder in a file: %v", err)
	}
}
