package localfs_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"sluice/bytestore"
	"sluice/bytestore/localfs"
	"sluice/internal/vfs"
	"sluice/test/fault"
	"sluice/test/testenv"
	"sluice/test/vfstest"
)

// withoutWhole is a file system that cannot be synced as a whole.
func withoutWhole(fsys vfs.FS) vfs.FS {
	return vfstest.Intercept(fsys, func(op *vfstest.Op, do func() error) error {
		if op.Kind == vfstest.KindWhole {
			return errors.ErrUnsupported
		}
		return do()
	})
}

// eachKind runs a test on file systems that can be synced as a whole, and on file systems that
// cannot.
func eachKind(t *testing.T, test func(t *testing.T, kind func(vfs.FS) vfs.FS)) {
	t.Run("whole", func(t *testing.T) { test(t, func(fsys vfs.FS) vfs.FS { return fsys }) })
	t.Run("each", func(t *testing.T) { test(t, withoutWhole) })
}

func putInto(t *testing.T, b bytestore.Batch, name bytestore.Name, body []byte) error {
	t.Helper()
	return b.Put(t.Context(), name, bytes.NewReader(body), int64(len(body)))
}

// small is the body in tests of batches. It takes one write.
var small = body[:10_000]

// TestBatch stores more objects than are made durable at a time, concurrently and some of them
// twice, and one that exists. They survive a power cut after Commit.
func TestBatch(t *testing.T) {
	eachKind(t, func(t *testing.T, kind func(vfs.FS) vfs.FS) {
		disk := vfstest.NewCrash()
		s := mustOpen(t, kind(disk), "/objects")
		existing := newName()
		wantErr(t, put(t, s, existing, []byte("before")), nil)
		b := bytestore.NewBatch(s)
		wantErr(t, putInto(t, b, existing, []byte("again")), nil)
		names := make([]bytestore.Name, 2_500)
		var storing sync.WaitGroup
		for i := range names {
			names[i] = newName()
		}
		for worker := range 4 {
			storing.Go(func() {
				for i := worker; i < len(names)+10; i += 4 {
					wantErr(t, putInto(t, b, names[i%len(names)], []byte(names[i%len(names)])), nil)
				}
			})
		}
		storing.Wait()
		wantErr(t, b.Commit(t.Context()), nil)
		wantErr(t, b.Close(), nil)
		s = mustOpen(t, disk.Crash(), "/objects")
		testenv.Equal(t, string(readBack(t, s, existing)), "before", "the object that was there")
		for _, name := range names {
			if got := readBack(t, s, name); string(got) != string(name) {
				t.Fatalf("after the power cut %s has %q", name, got)
			}
		}
	})
}

// TestBatchFaultSweep makes each operation in a batch fail in turn, in every way, or cuts the power
// there: an object that is visible is complete, before a power cut and after it, and all are if
// Commit has succeeded.
func TestBatchFaultSweep(t *testing.T) {
	for _, how := range []fault.Kind{fault.Fail, fault.Lose, fault.Tear, "power cut"} {
		for _, errno := range []syscall.Errno{syscall.EIO, syscall.ENOSPC} {
			t.Run(fmt.Sprintf("%s %v", how, errno), func(t *testing.T) {
				eachKind(t, func(t *testing.T, kind func(vfs.FS) vfs.FS) {
					nth := int64(0)
					for sweepBatch(t, kind, &vfstest.Fault{K: nth, Kind: how, Err: errno}) {
						nth += 1 + 60*min(1, nth/40) // Commit syncs 257 folders one after the other
					}
					if nth < 17 { // for each object statfs, create, write, close, rename; two syncs
						t.Errorf("the sweep ended after %d operations", nth)
					}
				})
			})
		}
	}
}

// sweepBatch stores a batch with a fault and reports whether the fault occurred.
func sweepBatch(t *testing.T, kind func(vfs.FS) vfs.FS, point *vfstest.Fault) bool {
	t.Helper()
	disk := vfstest.NewCrash()
	armed := false
	point.Match = func(op vfstest.Op) bool { return armed && op.Kind != vfstest.KindWhole }
	cut := point.Kind == "power cut"
	after := disk
	faulty := vfstest.Inject(disk, point)
	if cut {
		faulty = vfstest.Intercept(vfstest.Inject(disk, point), func(_ *vfstest.Op, do func() error) error {
			err := do()
			if point.Struck() && after == disk {
				after = disk.Crash()
			}
			return err
		})
	}
	s := mustOpen(t, kind(faulty), "/objects")
	names := []bytestore.Name{newName(), newName(), "other"}
	armed = true
	b := bytestore.NewBatch(s)
	var err error
	for _, name := range names {
		err = errors.Join(err, putInto(t, b, name, small))
	}
	err = errors.Join(err, b.Commit(t.Context()))
	armed = false
	at := fmt.Sprintf("operation %d", point.K)
	if err == nil && point.Struck() && !cut {
		t.Errorf("%s: the batch succeeded in spite of the fault", at)
	}
	if !cut {
		checkVisible(t, s, names, err == nil, at)
		_ = b.Close() // its files are gone after the power cut
		after = disk.Crash()
	}
	s = mustOpen(t, after, "/objects")
	checkVisible(t, s, names, err == nil, at+", after the power cut")
	if left := files(t, after, "/objects"); strings.Contains(fmt.Sprint(left), ".put-") {
		t.Errorf("%s: temporary files after Open: %q", at, left)
	}
	b = bytestore.NewBatch(s)
	for _, name := range names {
		wantErr(t, putInto(t, b, name, small), nil)
	}
	wantErr(t, b.Commit(t.Context()), nil)
	checkVisible(t, mustOpen(t, after.Crash(), "/objects"), names, true, at+", repeated")
	return point.Struck()
}

// checkVisible checks that objects which are visible are complete, and that all are if they must.
func checkVisible(t *testing.T, s *localfs.Store, names []bytestore.Name, all bool, at string) {
	t.Helper()
	for _, name := range names {
		if got := readBack(t, s, name); got == nil && all || got != nil && !bytes.Equal(got, small) {
			t.Errorf("%s: %s has %d bytes", at, name, len(got))
		}
	}
}

// TestCommitKeepsWhatIsVisible kills a batch after it has renamed its files: the next process sees
// them, and its Commit makes them durable.
func TestCommitKeepsWhatIsVisible(t *testing.T) {
	eachKind(t, func(t *testing.T, kind func(vfs.FS) vfs.FS) {
		disk := vfstest.NewCrash()
		var renamed, killed atomic.Bool
		s := mustOpen(t, kind(vfstest.Intercept(disk, func(op *vfstest.Op, do func() error) error {
			sync := op.Kind == vfstest.KindSyncAll || op.Kind == vfstest.KindSyncDir
			if killed.Load() || sync && renamed.Load() {
				killed.Store(true)
				return errors.New("killed")
			}
			err := do()
			if op.Kind == vfstest.KindRename {
				renamed.Store(true)
			}
			return err
		})), "/objects")
		name := newName()
		b := bytestore.NewBatch(s)
		wantErr(t, putInto(t, b, name, small), nil)
		if err := b.Commit(t.Context()); err == nil {
			t.Fatal("a batch was committed after the process was killed")
		}
		s = mustOpen(t, kind(disk), "/objects")
		if got := readBack(t, s, name); !bytes.Equal(got, small) {
			t.Fatalf("the file was not renamed: %d bytes", len(got))
		}
		b = bytestore.NewBatch(s)
		wantErr(t, b.Commit(t.Context()), nil)
		if got := readBack(t, mustOpen(t, disk.Crash(), "/objects"), name); !bytes.Equal(got, small) {
			t.Errorf("after the power cut the object has %d bytes", len(got))
		}
	})
}

// TestBatchOnThisSystem stores objects in a folder of this machine.
func TestBatchOnThisSystem(t *testing.T) {
	s := testenv.Must(localfs.Open(t.TempDir(), localfs.Options{}))(t)
	b := bytestore.NewBatch(s)
	name := newName()
	wantErr(t, putInto(t, b, name, small), nil)
	wantErr(t, b.Commit(t.Context()), nil)
	if got := readBack(t, s, name); !bytes.Equal(got, small) {
		t.Errorf("the object has %d bytes", len(got))
	}
	wantErr(t, putInto(t, b, newName(), small), nil)
	wantErr(t, b.Close(), nil)
	listed := 0
	wantErr(t, s.List(t.Context(), "", func(bytestore.Object) error { listed++; return nil }), nil)
	testenv.Equal(t, listed, 2, "objects after a batch that was not committed")
	wantErr(t, s.Close(), nil)
}
