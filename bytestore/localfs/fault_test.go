package localfs_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"

	"sluice/bytestore"
	"sluice/bytestore/localfs"
	"sluice/test/fault"
	"sluice/test/testenv"
	"sluice/test/vfstest"
)

// body is the body in all tests of faults. It takes several writes.
var body = bytes.Repeat([]byte("0123456789abcdef"), 100_000)

// readBack returns an object's content, or nil if there is none.
func readBack(t *testing.T, s *localfs.Store, name bytestore.Name) []byte {
	t.Helper()
	r, err := s.Open(t.Context(), name, 0, 0)
	if errors.Is(err, bytestore.ErrNotFound) {
		return nil
	}
	testenv.OK(t, err)
	data, err := io.ReadAll(r)
	testenv.OK(t, errors.Join(err, r.Close()))
	return data
}

// TestFaultSweep makes each of a put's operations fail in turn, in every way, and checks the folder
// before and after a crash.
// Invariant 1.
func TestFaultSweep(t *testing.T) {
	for _, kind := range []fault.Kind{fault.Fail, fault.Lose, fault.Tear} {
		for _, errno := range []syscall.Errno{syscall.EIO, syscall.ENOSPC} {
			t.Run(fmt.Sprintf("%s %v", kind, errno), func(t *testing.T) {
				nth := int64(0)
				for sweepOne(t, &vfstest.Fault{K: nth, Kind: kind, Err: errno}) {
					nth++
				}
				if nth < 8 { // statfs, create, 4 writes with a partial last one, fsync, close, rename, fsync folder
					t.Errorf("the sweep ended after %d operations", nth)
				}
			})
		}
	}
}

// sweepOne runs one put with a fault and reports whether the fault occurred.
func sweepOne(t *testing.T, point *vfstest.Fault) bool {
	t.Helper()
	disk := vfstest.NewCrash()
	settled, name := newName(), newName()
	s := mustOpen(t, disk, "/objects")
	wantErr(t, put(t, s, settled, []byte("settled")), nil)
	wantErr(t, s.Close(), nil)

	armed := false
	point.Match = func(vfstest.Op) bool { return armed }
	s = mustOpen(t, vfstest.Inject(disk, point), "/objects")
	armed = true
	err := put(t, s, name, body)
	armed = false
	at := fmt.Sprintf("operation %d", point.K)

	if err == nil {
		if point.Struck() {
			t.Errorf("%s: the put succeeded in spite of the fault", at)
		}
		if got := readBack(t, s, name); !bytes.Equal(got, body) {
			t.Errorf("%s: acknowledged, %d bytes read", at, len(got))
		}
	} else {
		wantErr(t, err, point.Err)
		if errors.Is(point.Err, syscall.ENOSPC) && !errors.Is(err, localfs.ErrSyncFailed) {
			wantErr(t, err, bytestore.ErrNoSpace)
		}
		if got := readBack(t, s, name); got != nil {
			t.Errorf("%s: not acknowledged, yet %d bytes are visible", at, len(got))
		}
		testenv.Equal(t, len(files(t, disk, "/objects")), 1, "%s: files after a failed put", at)
	}

	disk = disk.Crash()
	s = mustOpen(t, disk, "/objects")
	got := readBack(t, s, name)
	if err == nil && got == nil || got != nil && !bytes.Equal(got, body) {
		t.Errorf("%s: put: %v; after the crash %d bytes", at, err, len(got))
	}
	testenv.Equal(t, string(readBack(t, s, settled)), "settled", "%s: an earlier object", at)
	if left := files(t, disk, "/objects"); strings.Contains(fmt.Sprint(left), ".put-") {
		t.Errorf("%s: temporary files after Open: %q", at, left)
	}
	wantErr(t, s.Delete(t.Context(), name), nil)
	wantErr(t, put(t, s, name, body), nil)
	return point.Struck()
}

// TestOpenFaultSweep makes the first Open's operations fail in turn. Open must report the error,
// and the next Open, after a crash or without one, must complete the work. Of the operations that
// repeat for each shard, it tests every seventh.
func TestOpenFaultSweep(t *testing.T) {
	for _, kind := range []fault.Kind{fault.Fail, fault.Lose} {
		for nth := int64(0); ; nth += 1 + 6*min(1, nth/16) {
			disk, point := vfstest.NewCrash(), &vfstest.Fault{K: nth, Kind: kind, Err: syscall.EIO}
			_, err := localfs.Open("/srv/objects", localfs.Options{FS: vfstest.Inject(disk, point)})
			if point.Struck() {
				wantErr(t, err, syscall.EIO)
			} else {
				wantErr(t, err, nil)
			}
			if nth%2 == 0 {
				disk = disk.Crash()
			}
			s := mustOpen(t, disk, "/srv/objects")
			wantErr(t, put(t, s, "sluice-instance", []byte("id")), nil)
			got := readBack(t, mustOpen(t, disk.Crash(), "/srv/objects"), "sluice-instance")
			testenv.Equal(t, string(got), "id", "operation %d %s", nth, kind)
			if !point.Struck() {
				break
			}
		}
	}
}

// TestReadFaults checks that the disk's error is returned, and not reported as a missing object or
// a shorter list.
func TestReadFaults(t *testing.T) {
	name := newName()
	for nth := int64(0); ; nth++ {
		disk, armed := vfstest.NewCrash(), false
		point := &vfstest.Fault{K: nth, Kind: fault.Fail, Err: syscall.EIO, Match: func(vfstest.Op) bool { return armed }}
		s := mustOpen(t, vfstest.Inject(disk, point), "/objects")
		wantErr(t, put(t, s, name, []byte("hello")), nil)
		armed = true
		objects := 0
		err := s.List(t.Context(), "", func(bytestore.Object) error { objects++; return nil })
		r, openErr := s.Open(t.Context(), name, 1, 4)
		if openErr == nil {
			_, readErr := io.ReadAll(r)
			openErr = errors.Join(readErr, r.Close())
		}
		err = errors.Join(err, openErr, s.Delete(t.Context(), name))
		if !point.Struck() {
			wantErr(t, err, nil)
			if objects != 1 || nth < 257+4 {
				t.Fatalf("%d objects in %d operations", objects, nth)
			}
			return
		}
		wantErr(t, err, syscall.EIO)
		if errors.Is(err, bytestore.ErrNotFound) {
			t.Fatalf("operation %d: %v", nth, err)
		}
	}
}

// TestFailedSync checks that after a failed fsync the store permits only reads and deletes until it
// is reopened.
func TestFailedSync(t *testing.T) {
	for _, kind := range []vfstest.Kind{vfstest.KindSync, vfstest.KindSyncDir} {
		t.Run(string(kind), func(t *testing.T) {
			disk, armed := vfstest.NewCrash(), false
			s := mustOpen(t, vfstest.Inject(disk, &vfstest.Fault{
				Kind: fault.Fail, Err: syscall.EIO,
				Match: func(op vfstest.Op) bool { return armed && op.Kind == kind },
			}), "/objects")
			before := newName()
			wantErr(t, put(t, s, before, []byte("x")), nil)
			armed = true
			select {
			case <-s.Stopped():
				t.Error("the store has stopped before the fault")
			default:
			}
			wantErr(t, put(t, s, newName(), body), localfs.ErrSyncFailed)
			<-s.Stopped()
			err := s.Put(t.Context(), newName(), readerFunc(func([]byte) (int, error) {
				t.Error("a refused put read its source")
				return 0, io.EOF
			}), 0)
			wantErr(t, err, localfs.ErrSyncFailed)
			wantErr(t, err, syscall.EIO)
			wantErr(t, err, bytestore.ErrOverloaded)
			testenv.Equal(t, string(readBack(t, s, before)), "x", "an earlier object")
			wantErr(t, s.Delete(t.Context(), before), nil)
			noFiles(t, disk, "/objects")
			wantErr(t, s.Close(), nil)
			wantErr(t, put(t, mustOpen(t, disk, "/objects"), newName(), body), nil)
		})
	}
}

// TestPassingFaults checks that a process without a free descriptor, and a disk which turns out to
// be full at the fsync, fail only one put.
func TestPassingFaults(t *testing.T) {
	for _, c := range []struct {
		kind vfstest.Kind
		err  syscall.Errno
		want error
	}{
		{vfstest.KindCreate, syscall.EMFILE, bytestore.ErrOverloaded},
		{vfstest.KindSync, syscall.EDQUOT, bytestore.ErrNoSpace},
	} {
		s := mustOpen(t, vfstest.Inject(vfstest.NewCrash(), &vfstest.Fault{
			Kind: fault.Fail, Err: c.err,
			Match: func(op vfstest.Op) bool { return op.Kind == c.kind },
		}), "/objects")
		wantErr(t, put(t, s, newName(), body), c.want)
		wantErr(t, put(t, s, newName(), body), nil)
	}
}
