package cached_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"sluice/bytestore"
	"sluice/bytestore/cached"
	"sluice/internal/vfs"
	"sluice/test/fault"
	"sluice/test/testenv"
	"sluice/test/vfstest"
)

// meter is the operating system's file system. It counts the bytes in files that were created
// through it and not removed.
type meter struct {
	mu        sync.Mutex
	files     map[string]int64
	now, most int64
}

func (m *meter) hook(op *vfstest.Op, do func() error) error {
	m.mu.Lock()
	if op.Kind == vfstest.KindWrite { // counted before it is written
		m.files[op.Name] += int64(op.Len)
		m.now += int64(op.Len)
		m.most = max(m.most, m.now)
	}
	m.mu.Unlock()
	err := do()
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch op.Kind {
	case vfstest.KindRename:
		m.files[op.To] = m.files[op.Name]
		delete(m.files, op.Name)
	case vfstest.KindRemove:
		m.now -= m.files[op.Name]
		delete(m.files, op.Name)
	}
	return nil
}

// TestSizeIsNeverExceeded concurrently reads a set of objects that is larger than the cache.
// Invariant 86.
func TestSizeIsNeverExceeded(t *testing.T) {
	for _, size := range []int64{cached.MinSize, 5 * cached.MinSize, 20*mib + 12345} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			m := &meter{files: map[string]int64{}}
			dir := testenv.MemoryDir(t)
			s := mustOpen(t, watch(), dir, cached.Options{Size: size, Fetches: 8, FS: vfstest.Intercept(vfs.OS(), m.hook)})
			type object struct {
				name bytestore.Name
				data []byte
			}
			var objects []object
			for i := range 10 {
				name, data := put(t, s, uint64(i), 4*mib-i*100_000)
				objects = append(objects, object{name, data})
			}
			var wg sync.WaitGroup
			for g := range 8 {
				random := rand.New(rand.NewPCG(uint64(g), 1))
				wg.Go(func() {
					for range 15 {
						o := objects[random.IntN(len(objects))]
						off := random.IntN(len(o.data))
						n := 1 + random.IntN(len(o.data)-off)
						got, err := read(t.Context(), s, o.name, int64(off), int64(n))
						if err != nil || !bytes.Equal(got, o.data[off:off+n]) {
							t.Errorf("%d bytes at %d: %v", n, off, err)
						}
					}
				})
			}
			wg.Wait()
			now := s.Stats()
			if m.most > size || now.Bytes > size || now.Evictions == 0 || now.Errors != 0 {
				t.Errorf("at most %d bytes of files in a cache of %d: %+v", m.most, size, now)
			}
			wantErr(t, s.Close(), nil)
			if _, left := files(t, dir); left != m.now || left > s.Stats().Bytes {
				t.Errorf("%d bytes of files, %d were counted, %+v", left, m.now, s.Stats())
			}
		})
	}
}

// TestLeastRecentlyUsedGoesFirst checks that a cache hit counts as a use.
func TestLeastRecentlyUsedGoesFirst(t *testing.T) {
	inner := watch()
	s := mustOpen(t, inner, testenv.MemoryDir(t), cached.Options{Size: 3 * cached.MinSize})
	name, data := put(t, s, 1, 5*mib)
	touch := func(fetches int64, blocks ...int) {
		t.Helper()
		before := inner.opens.Load()
		for _, block := range blocks {
			wantRead(t, s, name, data, block*mib, mib)
		}
		testenv.Equal(t, inner.opens.Load()-before, fetches, "fetches for reads of %d", blocks)
	}
	touch(3, 0, 1, 2, 0)
	touch(1, 3, 0, 2, 3) // 1 was evicted
	touch(1, 1, 2, 3, 1) // 0 was evicted
	if got := s.Stats(); got.Evictions != 2 || got.Blocks != 3 {
		t.Errorf("%+v", got)
	}
}

// TestDeletesRaceWithReads checks that nothing is served after a Delete has returned, and only
// correct bytes before.
func TestDeletesRaceWithReads(t *testing.T) {
	dir := testenv.MemoryDir(t)
	s := mustOpen(t, watch(), dir, cached.Options{Size: 16 * mib})
	for round := range 20 {
		object, data := put(t, s, uint64(round), 3*mib)
		var deleted atomic.Bool
		var wg sync.WaitGroup
		for g := range 6 {
			wg.Go(func() {
				for i := range 10 {
					off := (g + i) % 3 * mib
					late := deleted.Load()
					got, err := read(t.Context(), s, object, int64(off), int64(3*mib-off))
					switch {
					case err == nil && late:
						t.Error("an object that was deleted is served")
					case err == nil && !bytes.Equal(got, data[off:]):
						t.Error("wrong bytes")
					case err != nil && !errors.Is(err, bytestore.ErrNotFound):
						t.Error(err)
					}
				}
			})
		}
		wantErr(t, s.Delete(t.Context(), object), nil)
		deleted.Store(true)
		wg.Wait()
	}
	noFiles(t, dir)
	testenv.Equal(t, s.Stats().Bytes, 0, "bytes in the cache")
}

func TestInvalidateRereadsTheStore(t *testing.T) {
	dir, inner := testenv.MemoryDir(t), watch()
	s := mustOpen(t, inner, dir, cached.Options{})
	object, data := put(t, s, 1, 2*mib)
	wantRead(t, s, object, data, 0, 2*mib)
	s.Invalidate(object)
	s.Invalidate(newName())
	noFiles(t, dir)
	wantRead(t, s, object, data, 0, 2*mib)
	inner.opened(t, 4)
}

// TestFaultsOfTheFolder makes each operation on the folder fail in turn. No read may fail, and the
// counters must remain correct. The two objects evict each other.
func TestFaultsOfTheFolder(t *testing.T) {
	t.Parallel()
	for _, kind := range []fault.Kind{fault.Fail, fault.Lose, fault.Tear} {
		nth := int64(0)
		for ; ; nth++ {
			armed := false
			point := &vfstest.Fault{K: nth, Kind: kind, Err: syscall.EIO, Match: func(vfstest.Op) bool { return armed }}
			dir := testenv.MemoryDir(t)
			s := mustOpen(t, watch(), dir, cached.Options{Size: cached.MinSize, FS: vfstest.Inject(vfs.OS(), point)})
			one, data := put(t, s, 1, mib)
			two, other := put(t, s, 2, mib)
			armed = true
			wantRead(t, s, one, data, 0, mib)
			wantRead(t, s, two, other, 0, mib)
			wantRead(t, s, two, other, 0, mib)
			wantRead(t, s, one, data, 0, mib)
			armed = false
			wantRead(t, s, one, data, 0, mib)
			now := s.Stats()
			// A read that returned all bytes and then an error has not failed.
			if point.Struck() && kind != fault.Lose && now.Errors+now.Damaged == 0 {
				t.Errorf("operation %d %s was not counted: %+v", nth, kind, now)
			}
			if _, size := files(t, dir); size > now.Bytes || now.Bytes > cached.MinSize {
				t.Errorf("operation %d %s: %d bytes of files, %+v", nth, kind, size, now)
			}
			wantErr(t, s.Close(), nil)
			if !point.Struck() {
				break
			}
		}
		if nth < 30 { // how many there are depends on when files are evicted
			t.Errorf("the sweep ended after %d operations", nth)
		}
	}
}

// TestOpenFaults checks that Open fails for a folder that cannot be loaded, and leaves it unlocked.
func TestOpenFaults(t *testing.T) {
	dir := testenv.MemoryDir(t)
	s := mustOpen(t, watch(), dir, cached.Options{})
	name, data := put(t, s, 1, 1000)
	wantRead(t, s, name, data, 0, 1000)
	wantErr(t, s.Close(), nil)
	mustWrite(t, filepath.Join(filepath.Dir(onlyFile(t, dir)), "README"), nil)
	for _, tc := range []struct {
		kind vfstest.Kind
		nth  int64
	}{{vfstest.KindSpace, 0}, {vfstest.KindReadDir, 0}, {vfstest.KindReadDir, 1}, {vfstest.KindRemove, 0}, {vfstest.KindReadDir, 256}} {
		point := &vfstest.Fault{K: tc.nth, Kind: fault.Fail, Err: syscall.EIO, Match: func(op vfstest.Op) bool { return op.Kind == tc.kind }}
		_, err := cached.Open(watch(), dir, cached.Options{Size: 64 * mib, FS: vfstest.Inject(vfs.OS(), point)})
		wantErr(t, err, syscall.EIO)
	}
	if s := mustOpen(t, watch(), dir, cached.Options{}); s.Stats().Blocks != 1 {
		t.Errorf("%+v", s.Stats())
	}
	onlyFile(t, dir)
}

// TestFullDiskIsBypassed checks that a full disk is bypassed, and used again once space is free.
func TestFullDiskIsBypassed(t *testing.T) {
	for _, kind := range []vfstest.Kind{vfstest.KindCreate, vfstest.KindWrite, vfstest.KindSpace} {
		var full atomic.Bool
		dir, inner := testenv.MemoryDir(t), watch()
		s := mustOpen(t, inner, dir, cached.Options{FS: vfstest.Intercept(vfs.OS(), func(op *vfstest.Op, do func() error) error {
			if full.Load() && op.Kind == kind {
				return syscall.ENOSPC
			}
			return do()
		})})
		name, data := put(t, s, 1, 5000)
		full.Store(true)
		wantRead(t, s, name, data, 0, len(data))
		now := s.Stats()
		if now.Bypasses != 1 || now.Errors == 0 || now.Blocks+now.Bytes != 0 {
			t.Errorf("%s: %+v", kind, now)
		}
		wantErr(t, s.Err(), syscall.ENOSPC)
		full.Store(false)
		wantRead(t, s, name, data, 0, len(data))
		if now := s.Stats(); now.Blocks != 1 || s.Err() != nil {
			t.Errorf("%s: with room: %+v, %v", kind, now, s.Err())
		}
	}
}

// TestInterruptedBypass checks that a response that ends early is reported even if the cache is
// bypassed.
func TestInterruptedBypass(t *testing.T) {
	for broken, want := range map[error]error{io.EOF: bytestore.ErrTruncated, syscall.ECONNRESET: syscall.ECONNRESET} {
		inner := watch()
		s := mustOpen(t, breaks{inner, broken}, testenv.MemoryDir(t), cached.Options{
			FS: vfstest.Inject(vfs.OS(), &vfstest.Fault{K: 1, Kind: fault.Fail, Err: syscall.EIO, Match: func(op vfstest.Op) bool { return op.Kind == vfstest.KindSpace }}),
		})
		name, data := put(t, s, 1, 5000)
		r, err := s.Open(t.Context(), name, 0, 5000)
		wantErr(t, err, nil)
		got, err := io.ReadAll(r)
		wantErr(t, err, want)
		if errors.Is(want, bytestore.ErrTruncated) && !strings.Contains(err.Error(), "it ends at byte 2500") {
			t.Errorf("error %v", err)
		}
		if !bytes.Equal(got, data[:2500]) || s.Stats().Bypasses != 1 {
			t.Errorf("read %d bytes, %+v", len(got), s.Stats())
		}
		wantErr(t, r.Close(), nil)
	}
}

// TestFolderThatCannotBeRead checks that reads succeed whatever fails in the folder, and that only
// files that were found damaged are dropped.
func TestFolderThatCannotBeRead(t *testing.T) {
	for _, tc := range []struct {
		name  string
		match func(*vfstest.Op) bool
		err   syscall.Errno
		lost  bool
	}{
		{"no file descriptor is left", func(op *vfstest.Op) bool { return op.Kind == vfstest.KindOpen }, syscall.EMFILE, false},
		{"files do not open", func(op *vfstest.Op) bool { return op.Kind == vfstest.KindOpen }, syscall.EIO, true},
		{"headers do not read", func(op *vfstest.Op) bool { return op.Kind == vfstest.KindRead && op.Len == 256 }, syscall.EIO, true},
		{"bytes do not read", func(op *vfstest.Op) bool { return op.Kind == vfstest.KindRead && op.Len > 256 }, syscall.EIO, true},
	} {
		var broken atomic.Bool
		s := mustOpen(t, watch(), testenv.MemoryDir(t), cached.Options{FS: vfstest.Intercept(vfs.OS(), func(op *vfstest.Op, do func() error) error {
			if broken.Load() && tc.match(op) {
				return tc.err
			}
			return do()
		})})
		object, data := put(t, s, 1, 3*mib)
		wantRead(t, s, object, data, 0, len(data))
		broken.Store(true)
		wantRead(t, s, object, data, 0, len(data))
		now := s.Stats()
		if now.Bypasses != 1 || now.Damaged > 0 != tc.lost || now.Errors > 0 == tc.lost {
			t.Errorf("%s: %+v", tc.name, now)
		}
		broken.Store(false)
		wantRead(t, s, object, data, 0, len(data))
	}
}

// TestFolderCreatedConcurrently checks that a fetch is cached if another fetch makes the folder at
// the same time.
func TestFolderCreatedConcurrently(t *testing.T) {
	dir := testenv.MemoryDir(t)
	s := mustOpen(t, watch(), dir, cached.Options{FS: vfstest.Intercept(vfs.OS(), func(op *vfstest.Op, do func() error) error {
		if op.Kind == vfstest.KindMkdir {
			wantErr(t, os.Mkdir(op.Name, 0o700), nil)
		}
		return do()
	})})
	name, data := put(t, s, 1, 5000)
	wantRead(t, s, name, data, 0, len(data))
	onlyFile(t, dir)
	wantErr(t, s.Err(), nil)
}

// TestBlockMayEvictSeveral checks that a fetch evicts as many blocks as it needs to spare the disk,
// and none if exactly enough is free.
func TestBlockMayEvictSeveral(t *testing.T) {
	var evict atomic.Int64 // blocks that have to be evicted
	fsys := spacious{vfstest.Intercept(vfs.OS(), func(op *vfstest.Op, do func() error) error {
		err := do()
		if op.Kind == vfstest.KindRemove && err == nil {
			evict.Add(-1)
		}
		return err
	}), &evict}
	s := mustOpen(t, watch(), testenv.MemoryDir(t), cached.Options{FS: fsys, Fetches: 1})
	for i := range uint64(4) {
		name, data := put(t, s, i, 1000)
		wantRead(t, s, name, data, 0, len(data))
	}
	if now := s.Stats(); now.Blocks != 4 || now.Evictions != 0 {
		t.Fatalf("exactly enough space: %+v", now)
	}
	evict.Store(3)
	name, data := put(t, s, 9, 1000)
	wantRead(t, s, name, data, 0, len(data))
	if now := s.Stats(); now.Blocks != 2 || now.Evictions != 3 || s.Err() != nil {
		t.Errorf("too little space for 3 blocks: %+v, %v", now, s.Err())
	}
}

// spacious is a file system on which exactly enough is free for one fetch, unless blocks have to be
// evicted.
type spacious struct {
	vfs.FS
	evict *atomic.Int64
}

func (f spacious) Space(string) (vfs.Space, error) {
	const reserve = 64 * mib // of a large disk
	space := vfs.Space{Size: 1 << 40, Free: reserve + cached.MinSize}
	if f.evict.Load() > 0 {
		space.Free--
	}
	return space, nil
}

// TestCacheEvictsForOtherUsersOfItsDisk uses a disk that is smaller than the cache.
func TestCacheEvictsForOtherUsersOfItsDisk(t *testing.T) {
	testenv.Require(t, testenv.RootMount)
	dir := testenv.MemoryDir(t)
	wantErr(t, testenv.MountTmpfs(dir, "16m"), nil)
	testenv.AtEnd(t, func() error { return testenv.Unmount(dir) })
	s := mustOpen(t, watch(), filepath.Join(dir, "cache"), cached.Options{Size: 100 * mib})
	name, data := put(t, s, 1, 32*mib)
	hog := filepath.Join(dir, "hog")
	hogged := func() {
		t.Helper()
		wantErr(t, os.WriteFile(hog, make([]byte, 17*mib), 0o600), syscall.ENOSPC)
		wantRead(t, s, name, data, 0, len(data))
		wantErr(t, os.Remove(hog), nil)
	}
	hogged()
	wantErr(t, s.Err(), bytestore.ErrNoSpace)
	if now := s.Stats(); now.Fetches != 0 || now.Blocks != 0 || now.Bypasses != 1 {
		t.Errorf("no room for a block: %+v", now)
	}
	wantRead(t, s, name, data, 0, len(data))
	if now := s.Stats(); now.Blocks < 5 || now.Evictions == 0 {
		t.Errorf("room for some blocks: %+v", now)
	}
	hogged()
	wantRead(t, s, name, data, 0, mib)
	if now := s.Stats(); now.Blocks == 0 || s.Err() != nil {
		t.Errorf("room again: %+v, %v", now, s.Err())
	}
}

// TestCancelledReaders reads or cancels at random. Each read must return the right bytes.
func TestCancelledReaders(t *testing.T) {
	s := mustOpen(t, watch(), testenv.MemoryDir(t), cached.Options{Size: 6 * mib, Fetches: 4})
	name, data := put(t, s, 1, 9*mib)
	var wg sync.WaitGroup
	for g := range 8 {
		random := rand.New(rand.NewPCG(uint64(g), 2))
		wg.Go(func() {
			for range 20 {
				ctx, cancel := context.WithCancel(t.Context())
				if random.IntN(2) == 0 {
					go cancel()
				}
				got, err := read(ctx, s, name, 0, int64(len(data)))
				if ctx.Err() == nil && err != nil || err == nil && !bytes.Equal(got, data) {
					t.Errorf("a read: %v", err)
				}
				if err != nil && !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				cancel()
			}
		})
	}
	wg.Wait()
}
