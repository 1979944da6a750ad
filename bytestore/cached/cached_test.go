package cached_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"sluice/bytestore"
	"sluice/bytestore/bytetest"
	"sluice/bytestore/cached"
	"sluice/bytestore/localfs"
	"sluice/bytestore/memory"
	"sluice/internal/vfs"
	"sluice/test/testenv"
	"sluice/test/vfstest"
)

// harness is one over the handles that inner makes. Each Open closes the cache before, as a folder
// belongs to one at a time.
func harness(tb testing.TB, opt cached.Options, inner bytetest.Harness) bytetest.Harness {
	dir := filepath.Join(testenv.MemoryDir(tb), "not", "made", "yet")
	var last *cached.Store
	closeLast := func() error {
		if last == nil {
			return nil
		}
		return last.Close()
	}
	testenv.AtEnd(tb, closeLast)
	h := bytetest.Harness{
		Crash: inner.Crash,
		Open: func() (bytestore.Store, error) {
			beneath, err := inner.Open()
			if err == nil {
				err = closeLast()
			}
			if err != nil {
				return nil, err
			}
			last, err = cached.Open(beneath, dir, opt)
			return last, err
		},
	}
	return h
}

func overMemory(opt cached.Options) func(testing.TB) bytetest.Harness {
	return func(tb testing.TB) bytetest.Harness {
		m := memory.New()
		return harness(tb, opt, bytetest.Harness{Open: func() (bytestore.Store, error) { return m, nil }})
	}
}

func overLocalfs(tb testing.TB) bytetest.Harness {
	disk := vfstest.NewCrash()
	return harness(tb, cached.Options{Size: 64 * mib}, bytetest.Harness{
		Open: func() (bytestore.Store, error) { return localfs.Open("/objects", localfs.Options{FS: disk}) },
		Crash: func() error {
			disk = disk.Crash()
			return nil
		},
	})
}

func TestConformance(t *testing.T) {
	t.Run("memory", func(t *testing.T) { bytetest.Run(t, overMemory(cached.Options{Size: 64 * mib})) })
	t.Run("localfs that crashes", func(t *testing.T) { bytetest.Run(t, overLocalfs) })
	t.Run("room for one block", func(t *testing.T) {
		bytetest.Run(t, overMemory(cached.Options{Size: cached.MinSize, Fetches: 1}))
	})
	t.Run("no read-ahead", func(t *testing.T) {
		bytetest.Run(t, overMemory(cached.Options{Size: 8 * mib, Fetches: 2, Ahead: -1}))
	})
}

// TestHitsDoNotReadTheStore reads cached bytes with buffers of several sizes.
func TestHitsDoNotReadTheStore(t *testing.T) {
	inner := watch()
	s := mustOpen(t, inner, testenv.MemoryDir(t), cached.Options{})
	name, data := put(t, s, 1, 5*mib/2)
	wantRead(t, s, name, data, 0, len(data))
	inner.opened(t, 3)
	for _, size := range []int{1000, 4096, 32 << 10, 33_000, mib, 3 * mib} {
		for _, off := range []int{0, 1, 32 << 10, mib - 1, mib, 2*mib + 7} {
			r, err := s.Open(t.Context(), name, int64(off), int64(len(data)-off))
			testenv.OK(t, err)
			var got bytes.Buffer
			// The struct hides io.WriterTo, which would use its own buffer.
			_, err = io.CopyBuffer(&got, struct{ io.Reader }{r}, make([]byte, size))
			testenv.OK(t, errors.Join(err, r.Close()))
			if !bytes.Equal(got.Bytes(), data[off:]) {
				t.Fatalf("wrong bytes from %d in segments of %d", off, size)
			}
		}
	}
	inner.opened(t, 3)
	got := s.Stats()
	if got.Misses != 3 || got.Fetches != 3 || got.Hits == 0 || got.Blocks != 3 || got.Errors+got.Damaged+got.Bypasses != 0 {
		t.Errorf("%+v", got)
	}
}

// TestOnlyTouchedBlocksAreFetched checks that a range fetches its blocks only, and the last one
// only as far as it is needed.
func TestOnlyTouchedBlocksAreFetched(t *testing.T) {
	inner := watch()
	type fetch struct{ off, n int64 }
	fetches := make(chan fetch, 100)
	inner.before = func(_ context.Context, _ bytestore.Name, off, n int64) error {
		fetches <- fetch{off, n}
		return nil
	}
	s := mustOpen(t, inner, testenv.MemoryDir(t), cached.Options{Ahead: 100, Fetches: 200})
	name, data := put(t, s, 1, 10*mib)
	wantRead(t, s, name, data, 3*mib+5, 2*mib) // in blocks 3, 4 and 5
	close(fetches)
	got := map[fetch]bool{}
	for f := range fetches {
		got[f] = true
	}
	if len(got) != 3 || !got[fetch{3 * mib, mib}] || !got[fetch{4 * mib, mib}] || !got[fetch{5 * mib, 5}] {
		t.Errorf("fetched %v", got)
	}
}

// TestLongerRangeReplacesShorterBlock checks that a block's cached beginning is not taken for the
// whole block.
func TestLongerRangeReplacesShorterBlock(t *testing.T) {
	dir, inner := testenv.MemoryDir(t), watch()
	s := mustOpen(t, inner, dir, cached.Options{})
	name, data := put(t, s, 1, mib)
	for _, n := range []int{10, 40_000, mib, 10, 40_000} {
		wantRead(t, s, name, data, 0, n)
	}
	inner.opened(t, 3)
	wantErr(t, testenv.Error(s.Open(t.Context(), name, 0, mib+1)), bytestore.ErrTruncated)
	onlyFile(t, dir)
	if got := s.Stats(); got.Blocks != 1 || got.Bytes != cached.MinSize {
		t.Errorf("%+v", got)
	}
}

// TestOpenChecksTheRange checks that Open fails for a range beyond an object's end even if its
// first block is cached.
func TestOpenChecksTheRange(t *testing.T) {
	s := mustOpen(t, watch(), testenv.MemoryDir(t), cached.Options{})
	name, data := put(t, s, 1, 3*mib)
	wantRead(t, s, name, data, 0, mib)
	for _, n := range []int64{3*mib + 1, 4 * mib, 5*mib + 1} {
		wantErr(t, testenv.Error(s.Open(t.Context(), name, 0, n)), bytestore.ErrTruncated)
	}
	wantRead(t, s, name, data, 0, 3*mib)
}

// TestReaderEndsWithItsRange checks that a reader ends after its range even if more of its block is
// cached, keeps the block's file open until then and no longer, and counts one hit.
func TestReaderEndsWithItsRange(t *testing.T) {
	var opened, open atomic.Int64
	s := mustOpen(t, watch(), testenv.MemoryDir(t), cached.Options{FS: vfstest.Intercept(vfs.OS(), func(op *vfstest.Op, do func() error) error {
		switch op.Kind {
		case vfstest.KindOpen, vfstest.KindCreate:
			opened.Add(1)
			open.Add(1)
		case vfstest.KindClose:
			open.Add(-1)
		}
		return do()
	})})
	name, data := put(t, s, 1, 3*mib)
	wantRead(t, s, name, data, 0, len(data))
	opened.Store(0)
	open.Store(0)
	before := s.Stats()
	const off, n = 2*mib + 10, 30
	r, err := s.Open(t.Context(), name, off, n)
	wantErr(t, err, nil)
	p := make([]byte, 20)
	var got []byte
	for len(got) < n {
		m, err := r.Read(p)
		wantErr(t, err, nil)
		got = append(got, p[:m]...)
		if want := int64(min(1, n-len(got))); open.Load() != want {
			t.Errorf("%d files are open after %d bytes, want %d", open.Load(), len(got), want)
		}
	}
	rest, err := io.ReadAll(r)
	wantErr(t, err, nil)
	if got = append(got, rest...); !bytes.Equal(got, data[off:off+n]) {
		t.Errorf("%d bytes, want %d", len(got), n)
	}
	wantErr(t, r.Close(), nil)
	if now := s.Stats(); now.Hits != before.Hits+1 || now.Misses != before.Misses || opened.Load() != 1 {
		t.Errorf("%d files were opened, %+v", opened.Load(), now)
	}
}

// TestEmptyRangeIsNotCached checks that a range of no bytes leaves no trace in the cache.
func TestEmptyRangeIsNotCached(t *testing.T) {
	s := mustOpen(t, watch(), testenv.MemoryDir(t), cached.Options{})
	name, data := put(t, s, 1, 1000)
	wantRead(t, s, name, data, 0, 0)
	testenv.Equal(t, s.Stats(), cached.Stats{}, "the counters")
}

func TestOtherKeysAreNotCached(t *testing.T) {
	dir, inner := testenv.MemoryDir(t), watch()
	s := mustOpen(t, inner, dir, cached.Options{})
	for _, text := range []string{"first", "other"} {
		testenv.OK(t, s.Put(t.Context(), "sluice-instance", strings.NewReader(text), 5))
		wantRead(t, s, "sluice-instance", []byte(text), 0, 5)
		wantErr(t, inner.Delete(t.Context(), "sluice-instance"), nil) // as another node would do
	}
	noFiles(t, dir)
}

func TestRestartKeepsHits(t *testing.T) {
	dir, inner := testenv.MemoryDir(t), watch()
	s := mustOpen(t, inner, dir, cached.Options{})
	name, data := put(t, s, 1, 4*mib+5)
	wantRead(t, s, name, data, 0, len(data))
	before := s.Stats()
	wantErr(t, s.Close(), nil)

	s = mustOpen(t, inner, dir, cached.Options{})
	if got := s.Stats(); got.Blocks != 5 || got.Bytes != before.Bytes {
		t.Errorf("%+v, before %+v", got, before)
	}
	wantRead(t, s, name, data, 0, len(data))
	inner.opened(t, 5)
	wantErr(t, s.Close(), nil)

	s = mustOpen(t, inner, dir, cached.Options{Size: 2 * cached.MinSize})
	if _, size := files(t, dir); size > 2*cached.MinSize || s.Stats().Blocks != 2 {
		t.Errorf("%d bytes left, %+v", size, s.Stats())
	}
	wantRead(t, s, name, data, 0, len(data))
}

// TestForeignFilesAreRemoved checks that files which are not blocks are removed from the shards.
func TestForeignFilesAreRemoved(t *testing.T) {
	dir, inner := testenv.MemoryDir(t), watch()
	s := mustOpen(t, inner, dir, cached.Options{})
	object, data := put(t, s, 1, 1000)
	wantRead(t, s, object, data, 0, 1000)
	wantErr(t, s.Close(), nil)
	mine := onlyFile(t, dir)
	shard, base := filepath.Dir(mine), filepath.Base(mine)
	other := filepath.Join(dir, "00")
	if shard == other {
		other = filepath.Join(dir, "01")
	}
	wantErr(t, os.Mkdir(other, 0o700), nil)
	for _, name := range []string{
		filepath.Join(shard, ".put-"+base), filepath.Join(shard, "README"), filepath.Join(shard, base+"0"),
		filepath.Join(other, base), filepath.Join(shard, strings.Replace(base, ".0.", ".00.", 1)),
	} {
		mustWrite(t, name, mustRead(t, mine))
	}
	mustWrite(t, filepath.Join(shard, strings.Replace(base, ".0.", ".1.", 1)), []byte("no block is so short"))
	s = mustOpen(t, inner, dir, cached.Options{})
	if onlyFile(t, dir) != mine || s.Stats().Blocks != 1 {
		t.Errorf("%+v", s.Stats())
	}
}

func TestFolderIsLocked(t *testing.T) {
	dir := testenv.MemoryDir(t)
	mustOpen(t, watch(), dir, cached.Options{})
	_, err := cached.Open(watch(), dir, cached.Options{Size: 64 * mib})
	if err == nil || !strings.Contains(err.Error(), "another sluice uses this cache folder") {
		t.Errorf("a second store in the folder: %v", err)
	}
}

// TestRemovedFolderIsLockedAgain removes an open cache's folder. The next block that is cached
// creates and locks it again. Another Store may lock it before; then the first one caches nothing
// there. All reads succeed.
// Invariant 86.
func TestRemovedFolderIsLockedAgain(t *testing.T) {
	dir, inner := filepath.Join(testenv.MemoryDir(t), "cache"), watch()
	first := mustOpen(t, inner, dir, cached.Options{})
	object, data := put(t, first, 1, 1000)
	wantRead(t, first, object, data, 0, 1000)

	wantErr(t, os.RemoveAll(dir), nil)
	other, otherData := put(t, first, 2, 1000)
	wantRead(t, first, other, otherData, 0, 1000)
	wantRead(t, first, object, data, 0, 1000)
	if names, _ := files(t, dir); len(names) != 2 || first.Stats().Blocks != 2 {
		t.Errorf("the new folder has %d files, %+v", len(names), first.Stats())
	}
	if _, err := cached.Open(watch(), dir, cached.Options{Size: 64 * mib}); err == nil {
		t.Error("the new folder is not locked")
	}

	wantErr(t, os.RemoveAll(dir), nil)
	second := mustOpen(t, inner, dir, cached.Options{})
	third, thirdData := put(t, first, 3, 1000)
	wantRead(t, first, third, thirdData, 0, 1000)
	wantRead(t, first, object, data, 0, 1000)
	noFiles(t, dir)
	wantRead(t, second, object, data, 0, 1000)
	if names, _ := files(t, dir); len(names) != 1 || second.Stats().Blocks != 1 {
		t.Errorf("the second cache has %d files, %+v", len(names), second.Stats())
	}
}

func TestOpenRefuses(t *testing.T) {
	dir := testenv.MemoryDir(t)
	name := filepath.Join(dir, "thesis.txt")
	mustWrite(t, name, []byte("x"))
	for _, tc := range []struct {
		dir, want string
		size      int64
	}{
		{dir, "thesis.txt", 64 * mib},
		{name, "not a directory", 64 * mib},
		{testenv.MemoryDir(t), "too small", cached.MinSize - 1},
	} {
		if _, err := cached.Open(watch(), tc.dir, cached.Options{Size: tc.size}); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("Open(%s): %v", tc.dir, err)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("a refused folder holds %v, %v", entries, err)
	}
}

func TestClosed(t *testing.T) {
	s := mustOpen(t, watch(), testenv.MemoryDir(t), cached.Options{Ahead: -1})
	object, data := put(t, s, 1, 3*mib)
	r, err := s.Open(t.Context(), object, 0, 3*mib)
	testenv.OK(t, err)
	got := make([]byte, mib)
	if _, err := io.ReadFull(r, got); err != nil || !bytes.Equal(got, data[:mib]) {
		t.Fatalf("the first block: %v", err)
	}
	wantErr(t, errors.Join(s.Close(), s.Close()), nil)
	_, readErr := r.Read(got)
	_, openErr := s.Open(t.Context(), object, 0, 1)
	_, otherErr := s.Open(t.Context(), "sluice-instance", 0, 1)
	for name, err := range map[string]error{
		"Read": readErr, "Open": openErr, "Open of another name": otherErr,
		"Put":    s.Put(t.Context(), newName(), strings.NewReader(""), 0),
		"Delete": s.Delete(t.Context(), object),
		"List":   s.List(t.Context(), "", func(bytestore.Object) error { return nil }),
	} {
		testenv.Is(t, err, fs.ErrClosed, "%s", name)
	}
	wantErr(t, errors.Join(r.Close(), r.Close()), nil)
}
