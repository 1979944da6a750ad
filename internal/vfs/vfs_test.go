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
)

// TestSyncDirNotOpened checks that a folder that cannot be opened is distinguished from a
// failed fsync.
func TestSyncDirNotOpened(t *testing.T) {
	for name, sys := range systems(t) {
		t.Run(name, func(t *testing.T) {
			err := sys.fs.SyncDir(filepath.Join(sys.dir, "missing"))
			wantErr(t, err, vfs.ErrNotOpened)
			wantErr(t, err, fs.ErrNotExist)
			wantErr(t, sys.fs.SyncDir(sys.dir), nil)
		})
	}
	boom := vfs.Inject(vfs.OS(), &vfs.Fault{Moment: vfs.After, Err: syscall.EIO})
	if err := boom.SyncDir(t.TempDir()); !errors.Is(err, syscall.EIO) || errors.Is(err, vfs.ErrNotOpened) {
		t.Errorf("a failed fsync: %v", err)
	}
}

func TestBehaviour(t *testing.T) {
	for name, sys := range systems(t) {
		t.Run(name, func(t *testing.T) {
			fsys, a, b := sys.fs, filepath.Join(sys.dir, "a"), filepath.Join(sys.dir, "b")
			write(t, fsys, a, "hello", true)
			_, err := fsys.Create(a)
			wantErr(t, err, fs.ErrExist)
			write(t, fsys, b, "other", false)
			wantErr(t, fsys.Rename(a, b), fs.ErrExist)
			if got := read(t, fsys, b); got != "other" {
				t.Fatalf("rename replaced: %q", got)
			}

			f, err := fsys.Open(a)
			if err != nil {
				t.Fatal(err)
			}
			if info, err := f.Stat(); err != nil || info.Size() != 5 || !info.Mode().IsRegular() {
				t.Fatalf("stat: %v, %v", info, err)
			}
			if pos, err := f.Seek(3, io.SeekStart); pos != 3 || err != nil {
				t.Fatalf("seek: %d, %v", pos, err)
			}
			if err := fsys.Remove(a); err != nil {
				t.Fatal(err)
			}
			if rest, err := io.ReadAll(f); string(rest) != "lo" || err != nil {
				t.Fatalf("reading on after remove: %q, %v", rest, err)
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			wantErr(t, f.Close(), fs.ErrClosed)

			_, err = fsys.Open(a)
			wantErr(t, err, fs.ErrNotExist)
			wantErr(t, fsys.Remove(a), fs.ErrNotExist)
			wantErr(t, fsys.Rename(a, b+"x"), fs.ErrNotExist)
			if err := fsys.Rename(b, a); err != nil {
				t.Fatal(err)
			}
			sub := filepath.Join(sys.dir, "sub")
			if err := fsys.Mkdir(sub); err != nil {
				t.Fatal(err)
			}
			wantErr(t, fsys.Mkdir(sub), fs.ErrExist)
			write(t, fsys, filepath.Join(sub, "x"), "", true)
			if err := fsys.Remove(sub); err == nil || runtime.GOOS != "windows" && !errors.Is(err, syscall.ENOTEMPTY) {
				t.Fatalf("remove of a folder that is not empty: %v", err)
			}
			if got := names(t, fsys, sys.dir); !slices.Equal(got, []string{"a", "sub"}) {
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
					write(t, sys.fs, fmt.Sprintf("%s.%d", target, i), fmt.Sprint(i), false)
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
				if got := read(t, sys.fs, target); got != fmt.Sprint(won) {
					t.Fatalf("winner %d, content %q", won, got)
				}
			}
		})
	}
}

func TestOSFilesAreSendable(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	write(t, vfs.OS(), name, "x", false)
	f, err := vfs.OS().Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { wantErr(t, f.Close(), nil) }()
	if _, ok := f.(*os.File); !ok {
		t.Fatalf("Open returned a %T", f)
	}
}

func TestCrash(t *testing.T) {
	c := vfs.NewCrash()
	for _, dir := range []string{"/d", "/lost"} {
		if err := c.Mkdir(dir); err != nil {
			t.Fatal(err)
		}
		write(t, c, dir+"/f", "x", true)
		wantErr(t, c.SyncDir(dir), nil)
		if dir == "/d" {
			wantErr(t, c.SyncDir("/"), nil)
		}
	}
	write(t, c, "/d/whole", "abc", true)
	write(t, c, "/d/torn", "abc", false)
	write(t, c, "/d/old", "renamed", true)
	write(t, c, "/d/gone", "removed", true)
	f, err := c.Create("/d/partly")
	if err != nil {
		t.Fatal(err)
	}
	_, err1 := io.WriteString(f, "sync")
	err2 := f.Sync()
	_, err3 := io.WriteString(f, "lost")
	wantErr(t, errors.Join(err1, err2, err3, c.SyncDir("/d")), nil)
	wantErr(t, c.Rename("/d/old", "/d/new"), nil)
	wantErr(t, c.Remove("/d/gone"), nil)
	write(t, c, "/d/unlisted", "abc", true)

	after := c.Crash()
	want := []string{"f", "gone", "old", "partly", "torn", "whole"}
	if got := names(t, after, "/d"); !slices.Equal(got, want) {
		t.Fatalf("survivors: %q, want %q", got, want)
	}
	for name, want := range map[string]string{
		"f": "x", "gone": "removed", "old": "renamed", "partly": "sync", "torn": "", "whole": "abc",
	} {
		if got := read(t, after, "/d/"+name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if got := names(t, after, "/"); !slices.Equal(got, []string{"d"}) {
		t.Fatalf("root after the crash: %q", got)
	}

	_, err = c.Open("/d/whole")
	wantErr(t, err, vfs.ErrCrashed)
	_, err = f.Write([]byte("late"))
	wantErr(t, err, vfs.ErrCrashed)
	wantErr(t, c.SyncDir("/d"), vfs.ErrCrashed)
	if again := after.Crash(); read(t, again, "/d/partly") != "sync" {
		t.Fatal("a second crash lost what the first one kept")
	}
}

func TestLimit(t *testing.T) {
	c := vfs.NewCrash()
	c.Limit(10, 3)
	write(t, c, "/a", "1234567", true)
	f, err := c.Create("/b")
	if err != nil {
		t.Fatal(err)
	}
	n, err := f.Write([]byte("12345"))
	if n != 3 {
		t.Fatalf("wrote %d bytes into room for 3", n)
	}
	wantErr(t, err, syscall.ENOSPC)
	write(t, c, "/c", "", true)
	_, err = c.Create("/d")
	wantErr(t, err, syscall.ENOSPC)
	if s, err := c.Space("/"); s != (vfs.Space{Size: 10, Inodes: 3}) || err != nil {
		t.Fatalf("space: %+v, %v", s, err)
	}
	wantErr(t, c.Remove("/a"), nil)
	if s, err := c.Space("/"); s.Free != 7 || s.FreeInodes != 1 || err != nil {
		t.Fatalf("space after remove: %+v, %v", s, err)
	}
}

func TestMkdirAllIsDurable(t *testing.T) {
	// Whichever operation interrupts the first call, a second call completes it.
	for nth := int64(0); ; nth++ {
		c := vfs.NewCrash()
		fault := &vfs.Fault{Nth: nth, Moment: vfs.Before, Err: syscall.EIO}
		err := vfs.MkdirAll(vfs.Inject(c, fault), "/a/b/c")
		if fault.Fired() {
			wantErr(t, err, syscall.EIO)
			wantErr(t, vfs.MkdirAll(c, "/a/b/c"), nil)
		} else {
			wantErr(t, err, nil)
		}
		if _, err := c.Crash().ReadDir("/a/b/c"); err != nil {
			t.Fatalf("cut at %d: %v", nth, err)
		}
		if !fault.Fired() {
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
	write(t, vfs.OS(), file, "", false)
	if err := vfs.MkdirAll(vfs.OS(), filepath.Join(file, "x")); err == nil || runtime.GOOS != "windows" && !errors.Is(err, syscall.ENOTDIR) {
		t.Fatalf("a folder in a file: %v", err)
	}
}

func TestTrace(t *testing.T) {
	var lines []string
	fsys := vfs.Trace(vfs.NewCrash(), func(line string) { lines = append(lines, line) })
	wantErr(t, fsys.Mkdir("/d"), nil)
	write(t, fsys, "/d/f", "abc", true)
	wantErr(t, fsys.Rename("/d/f", "/d/g"), nil)
	wantErr(t, fsys.SyncDir("/d"), nil)
	wantErr(t, fsys.Remove("/d/f"), fs.ErrNotExist)
	want := []string{
		"mkdir /d", "create /d/f", "write /d/f 3", "fsync /d/f", "close /d/f",
		"rename /d/f /d/g", "fsync folder /d", "remove /d/f: remove /d/f: " + syscall.ENOENT.Error(),
	}
	if !slices.Equal(lines, want) {
		t.Fatalf("trace:\n%q\nwant:\n%q", lines, want)
	}
}

func TestInject(t *testing.T) {
	for _, tc := range []struct {
		moment vfs.Moment
		want   string // of a write of "abcdef" that fails
	}{{vfs.Before, ""}, {vfs.Short, "abc"}, {vfs.After, "abcdef"}} {
		t.Run(string(tc.moment), func(t *testing.T) {
			c := vfs.NewCrash()
			fault := &vfs.Fault{
				Nth: 1, Moment: tc.moment, Err: syscall.EIO,
				Match: func(op vfs.Op) bool { return op.Kind == vfs.KindWrite },
			}
			f, err := vfs.Inject(c, fault).Create("/f")
			if err != nil {
				t.Fatal(err)
			}
			_, err = f.Write(nil)
			wantErr(t, err, nil)
			if fault.Fired() {
				t.Fatal("the fault struck too early")
			}
			n, err := f.Write([]byte("abcdef"))
			wantErr(t, err, syscall.EIO)
			if got := read(t, c, "/f"); got != tc.want || n != len(got) {
				t.Fatalf("wrote %q, reported %d, want %q", got, n, tc.want)
			}
			_, err = f.Write([]byte("!"))
			wantErr(t, err, nil)
			if !fault.Fired() {
				t.Fatal("the fault did not strike")
			}
		})
	}
	t.Run("open after", func(t *testing.T) {
		c := vfs.NewCrash()
		fault := &vfs.Fault{Moment: vfs.After, Err: syscall.EIO}
		if f, err := vfs.Inject(c, fault).Create("/f"); f != nil || !errors.Is(err, syscall.EIO) {
			t.Fatalf("%v, %v", f, err)
		}
		if got := read(t, c, "/f"); got != "" {
			t.Fatalf("content %q", got)
		}
	})
}
