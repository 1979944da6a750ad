package localfs_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"sluice/bytestore"
	"sluice/bytestore/bytetest"
	"sluice/bytestore/localfs"
	"sluice/internal/vfs"
	"sluice/test/fault"
	"sluice/test/testenv"
	"sluice/test/vfstest"
)

// journaling opens a store with a journal. It is closed when the test ends, so that its goroutine
// ends.
func journaling(t *testing.T, fsys vfs.FS) *localfs.Store {
	t.Helper()
	s := testenv.Must(localfs.Open("/objects", localfs.Options{FS: fsys, Reserve: -1, Journal: true}))(t)
	t.Cleanup(func() { _ = s.Close() }) // its file system may have crashed
	return s
}

// segments returns the journal's files with their sizes.
func segments(t *testing.T, fsys vfs.FS) map[string]int64 {
	t.Helper()
	all := map[string]int64{}
	for _, e := range testenv.Must(fsys.ReadDir("/objects"))(t) {
		if strings.HasPrefix(e.Name(), ".journal-") {
			info, err := e.Info()
			if err == nil {
				all[e.Name()] = info.Size()
			}
		}
	}
	return all
}

// TestConformanceOfAJournal runs the suite on a store with a journal, in memory and on a disk.
func TestConformanceOfAJournal(t *testing.T) {
	t.Run("disk", func(t *testing.T) {
		bytetest.Run(t, func(tb testing.TB) bytetest.Harness {
			dir := tb.TempDir()
			var last *localfs.Store
			end := func() error {
				if last == nil {
					return nil
				}
				return last.Close()
			}
			tb.Cleanup(func() { testenv.OK(tb, end()) })
			return bytetest.Harness{Open: func() (bytestore.Store, error) {
				if err := end(); err != nil {
					return nil, err
				}
				s, err := localfs.Open(dir, localfs.Options{Reserve: -1, Journal: true})
				last = s
				return s, err
			}}
		})
	})
	t.Run("crashes", func(t *testing.T) {
		bytetest.Run(t, func(tb testing.TB) bytetest.Harness {
			disk := vfstest.NewCrash()
			var all []*localfs.Store
			tb.Cleanup(func() {
				for _, s := range all {
					_ = s.Close() // its file system may have crashed
				}
			})
			return bytetest.Harness{
				Open: func() (bytestore.Store, error) {
					s, err := localfs.Open("/objects", localfs.Options{FS: disk, Journal: true})
					all = append(all, s)
					return s, err
				},
				Crash: func() error {
					disk = disk.Tear(rand.New(rand.NewPCG(1, 2)))
					return nil
				},
			}
		})
	})
}

// TestJournalSurvivesPowerFailures stores and deletes objects of sizes around the journal's limit,
// concurrently. The power fails at a random time, and again while the next Open writes the
// journal's objects. Each object that was stored and not deleted reads back, to a Reader before the
// next Open and to the store after it. In half of the runs an object is stored when Sync has
// returned.
// Invariant 1.
func TestJournalSurvivesPowerFailures(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 7))
		disk := vfstest.NewCrash()
		cutAt, ops := 1+r.Int64N(400), int64(0)
		var armed atomic.Bool
		after := make(chan *vfstest.CrashFS, 1)
		var mu sync.Mutex
		cutting := vfstest.Intercept(disk, func(_ *vfstest.Op, do func() error) error {
			err := do()
			mu.Lock()
			defer mu.Unlock()
			if armed.Load() {
				ops++
			}
			if armed.Load() && ops == cutAt {
				after <- disk.Tear(r)
			}
			return err
		})
		s := journaling(t, cutting)
		later := seed%2 == 1
		if later {
			s.SyncLater()
		}
		armed.Store(true)
		stored := storeUntil(t, s, seed, later)
		cut := <-after
		readsBack(t, seed, "a reader", testenv.Must(localfs.OpenReader("/objects", localfs.Options{FS: cut}))(t), stored)

		// The next Open is cut off, too.
		var left atomic.Int64
		left.Store(500 + r.Int64N(200)) // Open looks at all folders first
		again := make(chan *vfstest.CrashFS, 1)
		opened, err := localfs.Open("/objects", localfs.Options{FS: vfstest.Intercept(cut, func(_ *vfstest.Op, do func() error) error {
			err := do()
			if left.Add(-1) == 0 {
				again <- cut.Tear(r)
			}
			return err
		}), Journal: true})
		if err != nil {
			wantErr(t, err, vfstest.ErrCrashed)
		} else {
			_ = opened.Close() // its file system may have crashed
		}
		select {
		case cut = <-again:
		default: // the store was opened and closed before
		}
		s = journaling(t, cut)
		readsBack(t, seed, "the store", s, stored)
		testenv.OK(t, s.Close())
		if found := segments(t, cut); len(found) > 0 {
			t.Errorf("seed %d: after Close there are %v", seed, found)
		}
		readsBack(t, seed, "the files", testenv.Must(localfs.OpenReader("/objects", localfs.Options{FS: cut.Crash()}))(t), stored)
	}
}

// storeUntil stores and deletes objects until the file system has crashed. It returns the objects
// that it stored, with Sync if later is set, and did not begin to delete.
func storeUntil(t *testing.T, s *localfs.Store, seed uint64, later bool) map[bytestore.Name][]byte {
	t.Helper()
	var mu sync.Mutex
	stored := map[bytestore.Name][]byte{}
	var work sync.WaitGroup
	for worker := range uint64(4) {
		work.Go(func() {
			r := rand.New(rand.NewPCG(seed, worker))
			var mine []bytestore.Name
			waiting := map[bytestore.Name][]byte{} // for Sync
			for {
				if len(mine) > 0 && r.IntN(4) == 0 {
					name := mine[r.IntN(len(mine))]
					mine = slices.DeleteFunc(mine, func(n bytestore.Name) bool { return n == name })
					mu.Lock()
					delete(stored, name)
					mu.Unlock()
					if s.Delete(t.Context(), name) != nil {
						return
					}
					continue
				}
				name := newName()
				data := body[:[]int{0, 1, 5_000, 60_000, 256 << 10, 256<<10 + 1}[r.IntN(6)]]
				if put(t, s, name, data) != nil {
					return
				}
				waiting[name] = data
				if later && r.IntN(3) > 0 {
					continue
				}
				if later && s.Sync() != nil {
					return
				}
				mine = slices.AppendSeq(mine, maps.Keys(waiting))
				mu.Lock()
				maps.Copy(stored, waiting)
				mu.Unlock()
				clear(waiting)
			}
		})
	}
	work.Wait()
	return stored
}

// readsBack checks that all objects can be read, and are listed with their sizes.
func readsBack(t *testing.T, seed uint64, who string, s bytestore.Reader, want map[bytestore.Name][]byte) {
	t.Helper()
	sizes := map[bytestore.Name]int64{}
	testenv.OK(t, s.List(t.Context(), "", func(o bytestore.Object) error {
		sizes[o.Name] = o.Size
		return nil
	}))
	for name, data := range want {
		f, err := s.Open(t.Context(), name, 0, int64(len(data)))
		if err != nil {
			t.Fatalf("seed %d, %s: %v", seed, who, err)
		}
		got, err := io.ReadAll(f)
		testenv.OK(t, errors.Join(err, f.Close()))
		if !bytes.Equal(got, data) || sizes[name] != int64(len(data)) {
			t.Fatalf("seed %d, %s: %s has %d bytes and is listed with %d, want %d", seed, who, name, len(got), sizes[name], len(data))
		}
	}
}

// TestJournalFaultSweep makes each operation of two Puts, a Delete and Close fail in turn.
// Acknowledged objects are there after a power failure. It does so again where Sync acknowledges.
func TestJournalFaultSweep(t *testing.T) {
	for _, kind := range []fault.Kind{fault.Fail, fault.Lose, fault.Tear} {
		for _, errno := range []syscall.Errno{syscall.EIO, syscall.ENOSPC} {
			for _, later := range []bool{false, true} {
				nth := int64(0)
				for sweepJournal(t, &vfstest.Fault{K: nth, Kind: kind, Err: errno}, later) {
					nth++
				}
				if nth < 20 {
					t.Errorf("%s %v: the sweep ended after %d operations", kind, errno, nth)
				}
			}
		}
	}
}

// sweepJournal reports whether the fault occurred.
func sweepJournal(t *testing.T, point *vfstest.Fault, later bool) bool {
	t.Helper()
	disk := vfstest.NewCrash()
	var armed atomic.Bool
	point.Match = func(vfstest.Op) bool { return armed.Load() }
	s := journaling(t, vfstest.Inject(disk, point))
	at := fmt.Sprintf("operation %d %s %v", point.K, point.Kind, point.Err)
	kept, gone := newName(), newName()
	armed.Store(true)
	if later {
		s.SyncLater()
	}
	keptErr, goneErr := put(t, s, kept, small), put(t, s, gone, small)
	var syncErr error
	if later {
		syncErr = s.Sync()
		if again := s.Sync(); (again == nil) != (syncErr == nil) {
			t.Errorf("%s: Sync: %v, and then %v", at, syncErr, again)
		}
	}
	for _, err := range []error{keptErr, goneErr, syncErr} {
		if err != nil {
			wantErr(t, err, point.Err)
		}
	}
	for name, err := range map[bytestore.Name]error{kept: keptErr, gone: goneErr} {
		if got := readBackWithout(t, s, &armed, name); err == nil && !bytes.Equal(got, small) || err != nil && got != nil {
			t.Errorf("%s: put: %v, and %d bytes are visible", at, err, len(got))
		}
	}
	if err := s.Delete(t.Context(), gone); err == nil && readBackWithout(t, s, &armed, gone) != nil {
		t.Errorf("%s: the deleted object is visible", at)
	}
	_ = s.Close() // after a fault the next Open does its work
	armed.Store(false)

	r := rand.New(rand.NewPCG(uint64(point.K), 3))
	s = journaling(t, disk.Tear(r))
	if got := readBack(t, s, kept); keptErr == nil && syncErr == nil && !bytes.Equal(got, small) {
		t.Errorf("%s: after the power failure %d bytes", at, len(got))
	}
	return point.Struck()
}

// readBackWithout is readBack without a fault.
func readBackWithout(t *testing.T, s *localfs.Store, armed *atomic.Bool, name bytestore.Name) []byte {
	t.Helper()
	armed.Store(false)
	defer armed.Store(true)
	return readBack(t, s, name)
}

// TestFailedDrain makes the sync fail in which the files of a segment were to become durable. The
// store stops; the next Open writes the files again, even those that seem to be whole, and syncs
// them.
func TestFailedDrain(t *testing.T) {
	disk := vfstest.NewCrash()
	fails := true
	faulty := vfstest.Intercept(disk, func(op *vfstest.Op, do func() error) error {
		if op.Kind == vfstest.KindSyncAll && fails {
			return syscall.EIO
		}
		return do()
	})
	s := journaling(t, faulty)
	name := newName()
	testenv.OK(t, put(t, s, name, small))
	testenv.OK(t, s.Close())
	wantErr(t, s.Err(), localfs.ErrSyncFailed)
	<-s.Stopped()
	if found := segments(t, disk); len(found) != 1 {
		t.Fatalf("after the failed sync there are %v, want one segment", found)
	}
	_, err := localfs.Open("/objects", localfs.Options{FS: faulty, Journal: true})
	wantErr(t, err, syscall.EIO)

	fails = false
	var written []string
	s = journaling(t, vfstest.Intercept(disk, func(op *vfstest.Op, do func() error) error {
		if op.Kind == vfstest.KindWrite || op.Kind == vfstest.KindReplace || op.Kind == vfstest.KindSyncAll {
			written = append(written, string(op.Kind))
		}
		return do()
	}))
	want := []string{"write", "sync file system", "replace", "sync file system"}
	if !slices.Equal(written, want) {
		t.Errorf("Open: %q, want %q", written, want)
	}
	if got := readBack(t, journaling(t, disk.Crash()), name); !bytes.Equal(got, small) {
		t.Errorf("after a power failure the object has %d bytes", len(got))
	}
	testenv.OK(t, s.Close())
}

// TestDeletedIsNotReplayed deletes an object before its segment is drained, and ends the process.
func TestDeletedIsNotReplayed(t *testing.T) {
	disk := vfstest.NewCrash()
	s := journaling(t, disk)
	kept, gone := newName(), newName()
	testenv.OK(t, put(t, s, kept, small))
	testenv.OK(t, put(t, s, gone, small))
	testenv.OK(t, s.Delete(t.Context(), gone))
	if found := segments(t, disk); len(found) != 1 {
		t.Fatalf("%v, want one segment", found)
	}
	// The process ends here: the bytes that it wrote are there.
	again := journaling(t, disk)
	if readBack(t, again, gone) != nil || readBack(t, again, kept) == nil {
		t.Error("the deleted object is there again, or the stored object is not")
	}
	if found := segments(t, disk); len(found) != 0 {
		t.Errorf("after Open there are %v", found)
	}
}

// TestReplayOnAFullDisk fills the disk before the next Open, which needs no space beyond the
// objects' files.
func TestReplayOnAFullDisk(t *testing.T) {
	disk := vfstest.NewCrash()
	disk.Limit(1<<40, 0)
	s := journaling(t, disk)
	objects := map[bytestore.Name][]byte{}
	for range 5 {
		name := newName()
		objects[name] = body[:100_000]
		testenv.OK(t, put(t, s, name, objects[name]))
	}
	space := testenv.Must(disk.Space("/"))(t)
	disk.Limit(space.Size-space.Free, 0)
	again := testenv.Must(localfs.Open("/objects", localfs.Options{FS: disk, Reserve: -1, Journal: true}))(t)
	readsBack(t, 0, "the store", again, objects)
	testenv.OK(t, again.Close())
}

// TestJournalIsBounded stores objects while no drain can end: when the journal has no room, they
// are synced by themselves, and nobody waits.
func TestJournalIsBounded(t *testing.T) {
	disk := vfstest.NewCrash()
	drains, release := make(chan struct{}, 100), make(chan struct{})
	s := journaling(t, vfstest.Intercept(disk, func(op *vfstest.Op, do func() error) error {
		if op.Kind == vfstest.KindSyncAll {
			drains <- struct{}{}
			<-release
		}
		return do()
	}))
	data := body[:256<<10]
	names := map[bytestore.Name][]byte{}
	for len(names) < 560 { // 140 MiB
		name := newName()
		testenv.OK(t, put(t, s, name, data))
		names[name] = nil
	}
	<-drains
	sizes := segments(t, disk)
	total := int64(0)
	for _, size := range sizes {
		total += size
	}
	if len(sizes) != 2 || total > 128<<20 {
		t.Errorf("the journal has %d bytes in %d segments, want at most 128 MiB in 2", total, len(sizes))
	}
	close(release)
	testenv.OK(t, s.Close())
	s = journaling(t, disk.Crash())
	for name := range maps.Keys(names) {
		if len(readBack(t, s, name)) != len(data) {
			t.Fatal("an object is lost")
		}
	}
}

// TestJournalLeavesTheSpace fills the disk. The journal is not used when its space may be needed,
// and its space is freed by then.
func TestJournalLeavesTheSpace(t *testing.T) {
	disk := vfstest.NewCrash()
	disk.Limit(400<<20, 0)
	drained := make(chan struct{}, 100)
	s := journaling(t, vfstest.Intercept(disk, func(op *vfstest.Op, do func() error) error {
		err := do()
		if op.Kind == vfstest.KindSyncDir && op.Name == "/objects" {
			drained <- struct{}{} // after a segment is made, and after it is removed
		}
		return err
	}))
	name := newName()
	testenv.OK(t, put(t, s, name, small))
	if len(segments(t, disk)) != 1 {
		t.Fatal("the journal is not used on a disk with space")
	}
	for len(drained) > 0 {
		<-drained
	}
	disk.Limit(200<<20, 0)                     // as if other programs had used the rest
	testenv.OK(t, put(t, s, newName(), small)) // finds the space short
	<-drained
	testenv.OK(t, put(t, s, newName(), small))
	if found := segments(t, disk); len(found) != 0 {
		t.Errorf("the journal is used when space is short: %v", found)
	}
	before := testenv.Must(disk.Space("/"))(t).Free
	testenv.OK(t, s.Delete(t.Context(), name))
	if after := testenv.Must(disk.Space("/"))(t).Free; after != before+int64(len(small)) {
		t.Errorf("a delete freed %d bytes, want %d", after-before, len(small))
	}
}

// TestSyncLater stores objects that are durable when Sync has returned, with one sync, even if the
// journal's file turns out to be full then: their own files are synced.
func TestSyncLater(t *testing.T) {
	for _, full := range []bool{false, true} {
		disk := vfstest.NewCrash()
		syncs := map[vfstest.Kind]int{}
		armed := false
		s := journaling(t, vfstest.Intercept(disk, func(op *vfstest.Op, do func() error) error {
			if armed {
				syncs[op.Kind]++
			}
			if full && op.Kind == vfstest.KindSync {
				return syscall.ENOSPC
			}
			return do()
		}))
		s.SyncLater()
		testenv.OK(t, s.Sync())
		armed = true
		var names []bytestore.Name
		for range 20 {
			names = append(names, newName())
			testenv.OK(t, put(t, s, names[len(names)-1], small))
		}
		if n := syncs[vfstest.KindSync] + syncs[vfstest.KindSyncAll]; n > 0 {
			t.Errorf("%d syncs for Puts", n)
		}
		testenv.OK(t, s.Sync())
		armed = false
		wholes := 0
		if full {
			wholes = 1
		}
		if syncs[vfstest.KindSync] != 1 || syncs[vfstest.KindSyncAll] != wholes {
			t.Errorf("%d syncs for files and %d for all files, want 1 and %d", syncs[vfstest.KindSync], syncs[vfstest.KindSyncAll], wholes)
		}
		testenv.OK(t, errors.Join(s.Sync(), s.Err()))
		s = journaling(t, disk.Crash())
		for _, name := range names {
			if got := readBack(t, s, name); !bytes.Equal(got, small) {
				t.Fatalf("after a power failure there are %d bytes", len(got))
			}
		}
	}
}

// TestFailedSyncStaysKnown makes the journal's sync fail. Nothing that was Put is acknowledged by a
// later Sync, which would find nothing to do.
// Invariant 1.
func TestFailedSyncStaysKnown(t *testing.T) {
	var fails atomic.Bool
	s := journaling(t, vfstest.Intercept(vfstest.NewCrash(), func(op *vfstest.Op, do func() error) error {
		if op.Kind == vfstest.KindSync && fails.Swap(false) {
			return syscall.EIO
		}
		return do()
	}))
	s.SyncLater()
	testenv.OK(t, put(t, s, newName(), small))
	fails.Store(true)
	for range 3 {
		wantErr(t, s.Sync(), localfs.ErrSyncFailed)
	}
	wantErr(t, put(t, s, newName(), small), localfs.ErrSyncFailed)
	<-s.Stopped()
	_ = s.Close()
	wantErr(t, s.Sync(), localfs.ErrSyncFailed)
}

// TestJournalSharesSyncs counts the syncs of many Puts at once.
func TestJournalSharesSyncs(t *testing.T) {
	disk := vfstest.NewCrash()
	var mu sync.Mutex
	syncs := 0
	gate, written := make(chan struct{}), make(chan struct{}, 100)
	s := journaling(t, vfstest.Intercept(disk, func(op *vfstest.Op, do func() error) error {
		if op.Kind != vfstest.KindSync {
			err := do()
			if op.Kind == vfstest.KindWrite && strings.Contains(op.Name, ".journal-") {
				written <- struct{}{}
			}
			return err
		}
		mu.Lock()
		syncs++
		first := syncs == 1
		mu.Unlock()
		if first {
			<-gate
		}
		return do()
	}))
	const puts = 50
	var work sync.WaitGroup
	for range puts {
		work.Go(func() { testenv.OK(t, put(t, s, newName(), small)) })
	}
	for range puts {
		<-written
	}
	close(gate)
	work.Wait()
	if syncs > puts/2 { // those that were written during the first sync share the next one
		t.Errorf("%d syncs for %d objects", syncs, puts)
	}
}
