package localfs_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/bytestore"
	"sluice/bytestore/bytetest"
	"sluice/bytestore/localfs"
	"sluice/internal/vfs"
	"sluice/test/testenv"
	"sluice/test/vfstest"
)

// onOS returns a harness on the operating system's file system. Each Open closes the previous
// handle, because a folder must be used by one at a time.
func onOS(tb testing.TB) bytetest.Harness { return onOSKeeping(tb, 0) }

// onOSKeeping is onOS with files that stay open.
func onOSKeeping(tb testing.TB, files int) bytetest.Harness {
	dir := filepath.Join(testenv.MemoryDir(tb), "not", "made", "yet")
	var last *localfs.Store
	return bytetest.Harness{Open: func() (bytestore.Store, error) {
		if last != nil {
			if err := last.Close(); err != nil {
				return nil, err
			}
		}
		s, err := localfs.Open(dir, localfs.Options{Reserve: -1, OpenFiles: files})
		last = s
		return s, err
	}}
}

// onCrash returns a harness on a file system that can crash.
func onCrash(testing.TB) bytetest.Harness { return onCrashKeeping(0) }

// onCrashKeeping is onCrash with files that stay open.
func onCrashKeeping(files int) bytetest.Harness {
	disk := vfstest.NewCrash()
	return bytetest.Harness{
		Open: func() (bytestore.Store, error) {
			return localfs.Open("/srv/sluice/objects", localfs.Options{FS: disk, OpenFiles: files})
		},
		Crash: func() error {
			disk = disk.Crash()
			return nil
		},
	}
}

func TestConformance(t *testing.T) {
	t.Run("os", func(t *testing.T) { bytetest.Run(t, onOS) })
	t.Run("crash", func(t *testing.T) { bytetest.Run(t, onCrash) })
	t.Run("os, files stay open", func(t *testing.T) {
		bytetest.Run(t, func(tb testing.TB) bytetest.Harness { return onOSKeeping(tb, 2) })
	})
	t.Run("crash, files stay open", func(t *testing.T) {
		bytetest.Run(t, func(testing.TB) bytetest.Harness { return onCrashKeeping(2) })
	})
}

func mustOpen(t *testing.T, fsys vfs.FS, dir string) *localfs.Store {
	t.Helper()
	s := testenv.Must(localfs.Open(dir, localfs.Options{FS: fsys}))(t)
	return s
}

func newName() bytestore.Name { return bytestore.NewName(time.UnixMilli(1_700_000_000_000)) }

func put(t *testing.T, s *localfs.Store, name bytestore.Name, data []byte) error {
	return s.Put(t.Context(), name, bytes.NewReader(data), int64(len(data)))
}

func wantErr(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error %v, want %v", err, want)
	}
}

// files returns the names of all files below dir, relative to it.
func files(t *testing.T, fsys vfs.FS, dir string) []string {
	t.Helper()
	var all []string
	var walk func(rel string)
	walk = func(rel string) {
		entries := testenv.Must(fsys.ReadDir(filepath.Join(dir, rel)))(t)
		for _, e := range entries {
			if e.IsDir() {
				walk(filepath.Join(rel, e.Name()))
			} else {
				all = append(all, filepath.Join(rel, e.Name()))
			}
		}
	}
	walk("")
	return all
}

// noFiles fails the test if there are files below dir.
func noFiles(t *testing.T, fsys vfs.FS, dir string) {
	t.Helper()
	if left := files(t, fsys, dir); len(left) != 0 {
		t.Errorf("files left: %q", left)
	}
}

func TestLayout(t *testing.T) {
	dir := testenv.MemoryDir(t)
	s := mustOpen(t, nil, dir)
	object := newName()
	for _, k := range []bytestore.Name{object, "sluice-instance", "00-other"} {
		testenv.OK(t, put(t, s, k, []byte("hello")))
	}
	for _, name := range []string{filepath.Join(string(object[:2]), string(object)), "sluice-instance", "00-other"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Size() != 5 || info.Mode() != 0o600 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 256+2 {
		t.Errorf("%d entries in the folder, %v", len(entries), err)
	}
	testenv.Equal(t, len(files(t, vfs.OS(), dir)), 3, "files")
}

func TestReaderIsSendable(t *testing.T) {
	s := mustOpen(t, nil, testenv.MemoryDir(t))
	name := newName()
	testenv.OK(t, put(t, s, name, []byte("hello")))
	r, err := s.Open(t.Context(), name, 3, 2)
	testenv.OK(t, err)
	f, ok := r.(*os.File)
	if !ok {
		t.Fatalf("Open returned a %T", r)
	}
	if rest, err := io.ReadAll(f); string(rest) != "lo" || err != nil {
		t.Errorf("read %q, %v", rest, err)
	}
	testenv.Check(t, f.Close())
}

func TestForeignFilesAreIgnored(t *testing.T) {
	dir := testenv.MemoryDir(t)
	s := mustOpen(t, nil, dir)
	object := newName()
	wrongShard := filepath.Join("00", "ff"+string(object[2:]))
	if object[:2] == "ff" {
		wrongShard = filepath.Join("ff", "00"+string(object[2:]))
	}
	for _, name := range []string{".DS_Store", "README.txt", "lost+found", "00/.nfs0001", "00/plain-name", wrongShard} {
		testenv.OK(t, os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600))
	}
	testenv.OK(t, os.Mkdir(filepath.Join(dir, "a-folder"), 0o700))
	testenv.OK(t, put(t, s, object, nil))
	var listed []bytestore.Name
	err := s.List(t.Context(), "", func(o bytestore.Object) error { listed = append(listed, o.Name); return nil })
	if err != nil || len(listed) != 1 || listed[0] != object {
		t.Errorf("listed %q, %v", listed, err)
	}
	wantErr(t, testenv.Error(s.Open(t.Context(), "a-folder", 0, 0)), bytestore.ErrNotFound)
}

func TestOpenRemovesLeftovers(t *testing.T) {
	dir := testenv.MemoryDir(t)
	s := mustOpen(t, nil, dir)
	object := newName()
	testenv.OK(t, put(t, s, object, []byte("kept")))
	testenv.OK(t, s.Close())
	for _, name := range []string{".put-A", "00/.put-B", "ff/.put-C"} {
		testenv.OK(t, os.WriteFile(filepath.Join(dir, name), []byte("torn"), 0o600))
	}
	mustOpen(t, nil, dir)
	if got := files(t, vfs.OS(), dir); len(got) != 1 || filepath.Base(got[0]) != string(object) {
		t.Errorf("files after Open: %q", got)
	}
}

func TestOpenRefusesFile(t *testing.T) {
	name := filepath.Join(testenv.MemoryDir(t), "file")
	testenv.OK(t, os.WriteFile(name, nil, 0o600))
	wantErr(t, testenv.Error(localfs.Open(name, localfs.Options{})), syscall.ENOTDIR)
}

func TestClosed(t *testing.T) {
	s, ctx, object := mustOpen(t, vfstest.NewCrash(), "/objects"), t.Context(), newName()
	testenv.OK(t, errors.Join(put(t, s, object, []byte("x")), s.Close(), s.Close()))
	_, openErr := s.Open(ctx, object, 0, 1)
	for name, err := range map[string]error{
		"Put": put(t, s, newName(), nil), "Open": openErr, "Delete": s.Delete(ctx, object), "Space": s.Space(0),
		"List": s.List(ctx, "", func(bytestore.Object) error { return nil }),
	} {
		testenv.Is(t, err, fs.ErrClosed, "%s", name)
	}
}

// TestNegativeRange checks that a range with either bound negative is refused.
func TestNegativeRange(t *testing.T) {
	s := mustOpen(t, vfstest.NewCrash(), "/objects")
	wantErr(t, put(t, s, "key", body[:10]), nil)
	for _, span := range [][2]int64{{-1, 1}, {0, -1}, {-1, -1}} {
		if r, err := s.Open(t.Context(), "key", span[0], span[1]); err == nil {
			t.Errorf("%d bytes at %d were opened", span[1], span[0])
			wantErr(t, r.Close(), nil)
		}
	}
}

// TestCloseWaitsForPuts checks that no Put uses the folder after Close has returned.
func TestCloseWaitsForPuts(t *testing.T) {
	s := mustOpen(t, vfstest.NewCrash(), "/objects")
	reading, goOn, closed, done := make(chan bool), make(chan bool), make(chan error, 1), make(chan error, 1)
	src := readerFunc(func([]byte) (int, error) {
		reading <- true
		<-goOn
		if len(closed) > 0 {
			return 0, errors.New("Close did not wait")
		}
		return 0, io.EOF
	})
	go func() { done <- s.Put(context.WithoutCancel(t.Context()), newName(), src, 0) }()
	select {
	case <-reading:
	case err := <-done:
		t.Fatalf("the put ended before it read its source: %v", err)
	}
	go func() { closed <- s.Close() }()
	goOn <- true
	wantErr(t, <-done, nil)
	wantErr(t, <-closed, nil)
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// TestJournalOfAnEarlierVersion opens a folder in which an earlier version was killed. The error
// names its journal, and the folder does not change.
// Invariant 115.
func TestJournalOfAnEarlierVersion(t *testing.T) {
	dir := t.TempDir()
	journal := filepath.Join(dir, ".journal-X")
	testenv.OK(t, os.WriteFile(journal, []byte("objects"), 0o600))
	_, err := localfs.Open(dir, localfs.Options{})
	_, readerErr := localfs.OpenReader(dir, localfs.Options{})
	for _, err := range []error{err, readerErr} {
		if err == nil || !strings.Contains(err.Error(), journal+" has objects") {
			t.Errorf("opened: %v", err)
		}
	}
	testenv.Equal(t, string(testenv.Must(os.ReadFile(journal))(t)), "objects", "the journal")
	testenv.Equal(t, len(testenv.Must(os.ReadDir(dir))(t)), 1, "entries of the folder")
}
