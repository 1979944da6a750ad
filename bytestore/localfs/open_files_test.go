package localfs_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"sluice/bytestore"
	"sluice/bytestore/localfs"
	"sluice/internal/vfs"
	"sluice/test/testenv"
	"sluice/test/vfstest"
)

// keeping opens a store that keeps files open.
func keeping(t *testing.T, fsys vfs.FS, dir string, files int) *localfs.Store {
	t.Helper()
	s := testenv.Must(localfs.Open(dir, localfs.Options{FS: fsys, OpenFiles: files, Reserve: -1}))(t)
	testenv.AtEnd(t, s.Close)
	return s
}

// putNew stores a new object with a content that depends on its name.
func putNew(t *testing.T, s *localfs.Store) bytestore.Name {
	t.Helper()
	name := newName()
	testenv.OK(t, put(t, s, name, contentOf(name)))
	return name
}

func contentOf(name bytestore.Name) []byte { return bytes.Repeat([]byte(name), 100) }

// mustRead reads an object, and checks its content.
func mustRead(t *testing.T, s *localfs.Store, name bytestore.Name) {
	t.Helper()
	want := contentOf(name)
	if got := readBack(t, s, name); !bytes.Equal(got, want) {
		t.Fatalf("%d bytes were read of %s, want %d different ones", len(got), name, len(want))
	}
}

// opens fails the test unless so many files are open.
func opens(t *testing.T, s *localfs.Store, want int64, when string) {
	t.Helper()
	testenv.Equal(t, s.Stats().Open, want, "open files %s", when)
}

// TestFilesStayOpen reads objects in an order that needs the files which were read last.
func TestFilesStayOpen(t *testing.T) {
	opened := 0
	s := keeping(t, vfstest.Intercept(vfstest.NewCrash(), func(op *vfstest.Op, do func() error) error {
		if op.Kind == vfstest.KindOpen {
			opened++
		}
		return do()
	}), "/objects", 2)
	a, b, c := putNew(t, s), putNew(t, s), putNew(t, s)
	for _, step := range []struct {
		name   bytestore.Name
		opened int
	}{{a, 1}, {a, 1}, {b, 2}, {a, 2}, {c, 3}, {a, 3}, {b, 4}, {a, 4}} {
		mustRead(t, s, step.name)
		testenv.Equal(t, opened, step.opened, "files that were opened")
	}
	stats := s.Stats()
	testenv.Equal(t, stats, localfs.Stats{Hits: 4, Misses: 4, Open: 2}, "the counts")
	s.Invalidate(a)
	mustRead(t, s, a)
	testenv.Equal(t, opened, 5, "files that were opened after one was invalidated")
}

// TestOnlySmallObjectsStayOpen reads objects around the greatest size, and one without this option.
func TestOnlySmallObjectsStayOpen(t *testing.T) {
	s := keeping(t, vfstest.NewCrash(), "/objects", 10)
	for size, want := range map[int]int64{1 << 20: 1, 1<<20 + 1: 0} {
		name := newName()
		testenv.OK(t, put(t, s, name, make([]byte, size)))
		testenv.Equal(t, len(readBack(t, s, name)), size, "bytes that were read")
		opens(t, s, want, fmt.Sprintf("of %d bytes", size))
		testenv.OK(t, s.Delete(t.Context(), name))
	}
	without := keeping(t, vfstest.NewCrash(), "/objects", 0)
	mustRead(t, without, putNew(t, without))
	testenv.Equal(t, without.Stats(), localfs.Stats{}, "the counts without files that stay open")
}

// TestDeleteClosesTheFile deletes two objects with files that are kept, one while it is read.
func TestDeleteClosesTheFile(t *testing.T) {
	s := keeping(t, nil, testenv.MemoryDir(t), 10)
	idle, read := putNew(t, s), putNew(t, s)
	mustRead(t, s, idle)
	first := testenv.Must(s.Open(t.Context(), read, 0, 1))(t)
	second := testenv.Must(s.Open(t.Context(), read, 10, 1))(t)
	opens(t, s, 2, "before the Delete")
	testenv.OK(t, s.Delete(t.Context(), idle, read))
	opens(t, s, 1, "after the Delete")
	for _, name := range []bytestore.Name{idle, read} {
		wantErr(t, testenv.Error(s.Open(t.Context(), name, 0, 1)), bytestore.ErrNotFound)
	}
	testenv.OK(t, first.Close())
	opens(t, s, 1, "while one reader is left")
	rest, err := io.ReadAll(second)
	if err != nil || !bytes.Equal(rest, contentOf(read)[10:]) {
		t.Errorf("the reader that is left reads %d bytes, %v", len(rest), err)
	}
	testenv.OK(t, second.Close())
	opens(t, s, 0, "after the last reader")
	if second.Close() == nil {
		t.Error("a reader was closed twice")
	}
	opens(t, s, 0, "after another Close")
}

// TestFileOpenedDuringADelete deletes an object after its file was opened, and before Open returns.
// The file must not stay open.
func TestFileOpenedDuringADelete(t *testing.T) {
	var s *localfs.Store
	armed := false
	s = keeping(t, vfstest.Intercept(vfs.OS(), func(op *vfstest.Op, do func() error) error {
		err := do()
		if armed && op.Kind == vfstest.KindOpen {
			armed = false
			err = errors.Join(err, s.Delete(context.Background(), bytestore.Name(filepath.Base(op.Name))))
		}
		return err
	}), testenv.MemoryDir(t), 10)
	name := putNew(t, s)
	armed = true
	mustRead(t, s, name)
	opens(t, s, 0, "after the reader was closed")
	wantErr(t, testenv.Error(s.Open(t.Context(), name, 0, 1)), bytestore.ErrNotFound)
}

// TestFileOfAPutThatFails reads an object between the rename and the sync of its folder, which
// fails. The object is gone then.
func TestFileOfAPutThatFails(t *testing.T) {
	var s *localfs.Store
	var name bytestore.Name
	s = keeping(t, vfstest.Intercept(vfs.OS(), func(op *vfstest.Op, do func() error) error {
		if name == "" || op.Kind != vfstest.KindSyncDir {
			return do()
		}
		mustRead(t, s, name)
		opens(t, s, 1, "during the Put")
		return syscall.EIO
	}), testenv.MemoryDir(t), 10)
	next := newName()
	name = next
	wantErr(t, put(t, s, next, contentOf(next)), syscall.EIO)
	opens(t, s, 0, "after the Put")
	wantErr(t, testenv.Error(s.Open(t.Context(), next, 0, 1)), bytestore.ErrNotFound)
}

// TestDescriptorsAreGivenBack lets each operation that needs a descriptor fail as long as files are
// kept. The store closes them and succeeds.
func TestDescriptorsAreGivenBack(t *testing.T) {
	var s *localfs.Store
	fired := map[vfstest.Kind]int{}
	scarce := vfstest.Kind("")
	s = keeping(t, vfstest.Intercept(vfstest.NewCrash(), func(op *vfstest.Op, do func() error) error {
		if op.Kind != scarce || s.Stats().Open == 0 {
			return do()
		}
		fired[op.Kind]++
		if op.Kind == vfstest.KindSyncDir {
			return fmt.Errorf("%w: %w", vfs.ErrNotOpened, syscall.EMFILE)
		}
		return syscall.EMFILE
	}), "/objects", 10)
	other := putNew(t, s)
	for _, kind := range []vfstest.Kind{vfstest.KindOpen, vfstest.KindCreate, vfstest.KindSyncDir} {
		name := putNew(t, s)
		mustRead(t, s, name)
		scarce = kind
		mustRead(t, s, other)
		putNew(t, s)
		scarce = ""
		testenv.Equal(t, fired[kind], 1, "failures of %s", kind)
	}
	// With a reader it cannot be closed, and there is no second attempt that would fail as well.
	r := testenv.Must(s.Open(t.Context(), other, 0, 1))(t)
	scarce = vfstest.KindOpen
	fired[scarce] = 0
	wantErr(t, testenv.Error(s.Open(t.Context(), putNew(t, s), 0, 1)), bytestore.ErrOverloaded)
	testenv.Equal(t, fired[scarce], 1, "failures with a reader")
	testenv.OK(t, r.Close())
}

// TestCloseClosesTheFiles closes a store with a file that is read and one that is not.
func TestCloseClosesTheFiles(t *testing.T) {
	s := keeping(t, nil, testenv.MemoryDir(t), 10)
	idle, read := putNew(t, s), putNew(t, s)
	mustRead(t, s, idle)
	r := testenv.Must(s.Open(t.Context(), read, 0, 1))(t)
	testenv.OK(t, s.Close())
	opens(t, s, 1, "after the store was closed")
	if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, contentOf(read)) {
		t.Errorf("%d bytes were read after the store was closed, %v", len(got), err)
	}
	testenv.OK(t, r.Close())
	opens(t, s, 0, "after the reader was closed")
}

// TestMediumIsOpenedAnew removes a file by hand. OpenMedium notices that although the file is kept.
func TestMediumIsOpenedAnew(t *testing.T) {
	dir := testenv.MemoryDir(t)
	s := keeping(t, nil, dir, 10)
	name := putNew(t, s)
	mustRead(t, s, name)
	testenv.OK(t, os.Remove(filepath.Join(dir, string(name[:2]), string(name))))
	wantErr(t, testenv.Error(s.OpenMedium(t.Context(), name, 0, 1)), bytestore.ErrNotFound)
	mustRead(t, s, name)
}

// TestFilesAreOpenedAnewInTime replaces an object's file by hand, which is noticed a minute later,
// and cuts off a file, which the read that fails notices.
func TestFilesAreOpenedAnewInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := testenv.MemoryDir(t)
		s := keeping(t, nil, dir, 10)
		name := putNew(t, s)
		path := filepath.Join(dir, string(name[:2]), string(name))
		mustRead(t, s, name)
		testenv.OK(t, errors.Join(os.Remove(path), os.WriteFile(path, []byte("replaced"), 0o600)))
		time.Sleep(time.Minute - time.Second)
		mustRead(t, s, name)
		time.Sleep(time.Second)
		testenv.Equal(t, string(readBack(t, s, name)), "replaced", "the bytes a minute later")

		testenv.OK(t, os.WriteFile(path, []byte("cut"), 0o600))
		testenv.Equal(t, string(readBack(t, s, name)), "cut", "the bytes that are left")
		wantErr(t, testenv.Error(s.Open(t.Context(), name, 0, 8)), bytestore.ErrTruncated)
		testenv.OK(t, os.WriteFile(path, []byte("replaced again"), 0o600))
		r := testenv.Must(s.Open(t.Context(), name, 9, 5))(t)
		got, err := io.ReadAll(r)
		testenv.OK(t, errors.Join(err, r.Close()))
		testenv.Equal(t, string(got), "again", "the bytes of a longer file")
	})
}

// TestReadersOfOthersKeepNothing opens a folder for reading that another process may write to.
func TestReadersOfOthersKeepNothing(t *testing.T) {
	dir := testenv.MemoryDir(t)
	s := keeping(t, nil, dir, 10)
	name := putNew(t, s)
	r := testenv.Must(localfs.OpenReader(dir, localfs.Options{OpenFiles: 10}))(t)
	f := testenv.Must(r.Open(t.Context(), name, 0, 1))(t)
	if _, ok := f.(*os.File); !ok {
		t.Errorf("Open returned a %T", f)
	}
	testenv.OK(t, errors.Join(f.Close(), r.Close()))
}

// TestReadsDeletesAndPutsRace lets goroutines store, read and delete the same names. A read that
// succeeds has the object's bytes, no deleted object is found, and in the end no file is open.
func TestReadsDeletesAndPutsRace(t *testing.T) {
	s := keeping(t, nil, testenv.MemoryDir(t), 3)
	names := make([]bytestore.Name, 8)
	for i := range names {
		names[i] = newName()
	}
	var owners [8]sync.RWMutex // held for writing by whoever stores or deletes, so that it knows which objects exist
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(g), 1))
			for range 400 {
				i := rng.IntN(len(names))
				name := names[i]
				if rng.IntN(4) > 0 {
					r, err := s.Open(context.Background(), name, 7, 20)
					if errors.Is(err, bytestore.ErrNotFound) {
						continue
					}
					got := make([]byte, 20)
					if err == nil {
						_, err = io.ReadFull(r, got)
						err = errors.Join(err, r.Close())
					}
					if err != nil || !bytes.Equal(got, contentOf(name)[7:27]) {
						t.Errorf("%q was read of %s, %v", got, name, err)
					}
					continue
				}
				owners[i].Lock()
				err := s.Put(context.Background(), name, bytes.NewReader(contentOf(name)), bytestore.UnknownSize)
				if errors.Is(err, bytestore.ErrExists) {
					err = s.Delete(context.Background(), name)
					if r, found := s.Open(context.Background(), name, 0, 1); !errors.Is(found, bytestore.ErrNotFound) {
						t.Errorf("a deleted object is found: %v", found)
						testenv.Check(t, r.Close())
					}
				}
				owners[i].Unlock()
				testenv.Check(t, err)
			}
		})
	}
	all.Wait()
	if open := s.Stats().Open; open > 3 {
		t.Errorf("%d files are open without readers, want at most 3", open)
	}
	testenv.OK(t, s.Delete(t.Context(), names...))
	opens(t, s, 0, "when nothing is stored")
}
