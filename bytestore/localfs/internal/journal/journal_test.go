package journal_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"

	"sluice/bytestore/localfs/internal/journal"
	"sluice/internal/vfs"
	"sluice/test/fault"
	"sluice/test/testenv"
	"sluice/test/vfstest"
)

const limit = 1 << 20

func itself(err error) error { return err }

func folder(t *testing.T) *vfstest.CrashFS {
	t.Helper()
	disk := vfstest.NewCrash()
	testenv.OK(t, disk.Mkdir("/j"))
	testenv.OK(t, disk.SyncDir("/"))
	return disk
}

// appendTo appends an object's record durably.
func appendTo(j *journal.Journal, name string, body []byte) error {
	if err := j.Append(name, append(make([]byte, journal.Room), body...)); err != nil {
		return err
	}
	return j.Sync()
}

// found returns the objects that Read finds.
func found(t *testing.T, fsys vfs.FS) map[string]string {
	t.Helper()
	log := testenv.Must(journal.Read(fsys, "/j"))(t)
	all := map[string]string{}
	for _, o := range log.Objects() {
		f := testenv.Must(log.Open(o, 0))(t)
		body := make([]byte, o.Size)
		_, err := io.ReadFull(f, body)
		testenv.OK(t, errors.Join(err, f.Close()))
		all[o.Name] = string(body)
	}
	return all
}

func equal(t *testing.T, got, want map[string]string, format string, args ...any) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: found %.300q, want %.300q", fmt.Sprintf(format, args...), got, want)
	}
}

// TestJournal appends objects concurrently, forgets some, and looks for them after a power failure.
func TestJournal(t *testing.T) {
	disk := folder(t)
	syncs := 0
	counted := vfstest.Intercept(disk, func(op *vfstest.Op, do func() error) error {
		if op.Kind == vfstest.KindSync {
			syncs++
		}
		return do()
	})
	j := journal.New(counted, "/j", limit, itself)
	want := map[string]string{}
	var mu sync.Mutex
	var work sync.WaitGroup
	for worker := range 16 {
		work.Go(func() {
			for i := range 20 {
				name, body := fmt.Sprintf("name-%d-%d", worker, i), strings.Repeat("x", worker*i)
				testenv.OK(t, appendTo(j, name, []byte(body)))
				mu.Lock()
				want[name] = body
				mu.Unlock()
			}
		})
	}
	work.Wait()
	if syncs == 0 || syncs > 320 {
		t.Errorf("%d syncs for 320 objects", syncs)
	}
	for i := range 20 {
		name := fmt.Sprintf("name-3-%d", i)
		j.Forget(name)
		delete(want, name)
	}
	j.Forget("never stored")
	equal(t, found(t, disk), want, "when the process ends")
	testenv.OK(t, appendTo(j, "last", nil)) // its sync makes the removals durable, too
	want["last"] = ""
	equal(t, found(t, disk.Crash()), want, "after a power failure")
}

// TestRecordsDuringASync writes a record while the one before is synced. It needs another sync, and
// no Sync returns before the one that its caller's record needs.
func TestRecordsDuringASync(t *testing.T) {
	disk := folder(t)
	begun, release := make(chan struct{}, 10), make(chan struct{})
	j := journal.New(vfstest.Intercept(disk, func(op *vfstest.Op, do func() error) error {
		if op.Kind != vfstest.KindSync {
			return do()
		}
		err := do()
		begun <- struct{}{}
		<-release
		return err
	}), "/j", limit, itself)
	record := func() []byte { return make([]byte, journal.Room) }
	testenv.OK(t, j.Append("first", record()))
	ended := make(chan error, 2)
	go func() { ended <- j.Sync() }()
	<-begun
	testenv.OK(t, j.Append("second", record()))
	go func() { ended <- j.Sync() }() // waits for the running one
	close(release)
	testenv.OK(t, errors.Join(<-ended, <-ended))
	testenv.OK(t, j.Append("third", record()))
	testenv.OK(t, j.Sync())
	equal(t, found(t, disk.Crash()), map[string]string{"first": "", "second": "", "third": ""}, "after a power failure")
	testenv.Equal(t, len(begun), 2, "syncs after the first")
}

// TestSegments fills a segment, and removes it while the next one is used.
func TestSegments(t *testing.T) {
	disk := folder(t)
	j := journal.New(disk, "/j", limit, itself)
	if j.Seal() != nil {
		t.Error("a journal without records has a segment")
	}
	body := bytes.Repeat([]byte("0123456789abcdef"), 10_000)
	n := 0
	for ; ; n++ {
		err := appendTo(j, fmt.Sprintf("first-%d", n), body)
		if errors.Is(err, journal.ErrFull) {
			break
		}
		testenv.OK(t, err)
	}
	if size := j.Size(); n != 6 || size > limit {
		t.Errorf("%d objects in %d bytes, want 6 in at most %d", n, size, limit)
	}
	first := j.Seal()
	testenv.Equal(t, j.Size(), 0, "the size without a segment")
	testenv.OK(t, appendTo(j, "second", []byte("x")))
	j.Forget("first-2")
	left := found(t, disk)
	if _, ok := left["first-2"]; ok || len(left) != n {
		t.Errorf("%d objects, want %d without first-2", len(left), n)
	}
	testenv.OK(t, first.Remove())
	j.Forget("first-3")
	equal(t, found(t, disk.Crash()), map[string]string{"second": "x"}, "after the first segment is removed")
}

// TestObjectsAreBounded stores empty objects until the segment takes no more: their names are in
// memory until it is drained.
func TestObjectsAreBounded(t *testing.T) {
	const most = 8192
	j := journal.New(folder(t), "/j", 1<<30, itself)
	for i := range most {
		testenv.OK(t, appendTo(j, fmt.Sprint(i), nil))
	}
	if err := appendTo(j, "more", nil); !errors.Is(err, journal.ErrFull) {
		t.Errorf("after %d objects: %v, want ErrFull", most, err)
	}
	testenv.OK(t, j.Seal().Remove())
	testenv.OK(t, appendTo(j, "more", nil))
}

// TestRemovalsAreBounded removes an object again and again; its segment does not grow without end.
func TestRemovalsAreBounded(t *testing.T) {
	disk := folder(t)
	j := journal.New(disk, "/j", 4096, itself)
	for range 10_000 {
		err := appendTo(j, "name", nil)
		if err != nil && !errors.Is(err, journal.ErrFull) {
			t.Fatal(err)
		}
		j.Forget("name")
	}
	entries := testenv.Must(disk.ReadDir("/j"))(t)
	if info := testenv.Must(entries[0].Info())(t); len(entries) != 1 || info.Size() > 2*4096+journal.Room {
		t.Errorf("%d segments, the first with %d bytes", len(entries), info.Size())
	}
}

// TestTornTails cuts a segment's end at each byte, and damages each byte in a record.
func TestTornTails(t *testing.T) {
	disk := folder(t)
	j := journal.New(disk, "/j", limit, itself)
	bodies := []string{"", "one", strings.Repeat("two", 100)}
	for i, body := range bodies {
		testenv.OK(t, appendTo(j, fmt.Sprint("name", i), []byte(body)))
	}
	whole := vfstest.Read(t, disk, "/j/"+vfstest.Names(t, disk, "/j")[0])
	with := func(text string) map[string]string {
		other := folder(t)
		vfstest.Write(t, other, "/j/.journal-other", text, true)
		return found(t, other)
	}
	all := with(whole)
	for end := range whole {
		got := with(whole[:end])
		for name, body := range got {
			if all[name] != body {
				t.Fatalf("cut at %d: %s is %.20q", end, name, body)
			}
		}
		if len(got) > 2 {
			t.Fatalf("cut at %d of %d: %d objects", end, len(whole), len(got))
		}
	}
	for at := range whole {
		damaged := []byte(whole)
		damaged[at] ^= 0x10
		for name, body := range with(string(damaged)) {
			if all[name] != body {
				t.Fatalf("byte %d damaged: %s is %.20q, want %.20q", at, name, body, all[name])
			}
		}
	}
	// A damaged body does not hide the records after it.
	second := strings.Index(whole, "one")
	if got := with(whole[:second] + "two" + whole[second+3:]); len(got) != 2 || got["name2"] != bodies[2] {
		t.Errorf("after a damaged body: %d objects", len(got))
	}
}

// TestFaults makes each operation fail in turn. An object that was appended is found after a power
// failure that keeps any unsynced writes.
func TestFaults(t *testing.T) {
	for _, kind := range []fault.Kind{fault.Fail, fault.Lose, fault.Tear} {
		for _, errno := range []syscall.Errno{syscall.EIO, syscall.ENOSPC} {
			for nth := int64(0); ; nth++ {
				disk := folder(t)
				point := &vfstest.Fault{K: nth, Kind: kind, Err: errno}
				failed := 0
				j := journal.New(vfstest.Inject(disk, point), "/j", limit, func(err error) error { failed++; return err })
				want := map[string]string{}
				for i := range 6 {
					name := fmt.Sprint("name", i)
					if err := appendTo(j, name, []byte(name)); err == nil {
						want[name] = name
					} else if !errors.Is(err, errno) && !errors.Is(err, journal.ErrFull) {
						t.Fatalf("operation %d %s: %v", nth, kind, err)
					}
					if i == 3 {
						if s := j.Seal(); s != nil {
							if err := s.Close(); err != nil && !errors.Is(err, errno) {
								t.Fatal(err)
							}
						}
					}
				}
				got := found(t, disk.Tear(rand.New(rand.NewPCG(uint64(nth), 1))))
				for name, body := range want {
					if got[name] != body {
						t.Fatalf("operation %d %s %v: %s is lost", nth, kind, errno, name)
					}
				}
				if !point.Struck() {
					if len(want) != 6 || failed != 0 {
						t.Errorf("without a fault: %d objects, %d failed syncs", len(want), failed)
					}
					break
				}
			}
		}
	}
}

func FuzzRead(f *testing.F) {
	disk := vfstest.NewCrash()
	testenv.OK(f, disk.Mkdir("/j"))
	j := journal.New(disk, "/j", limit, itself)
	testenv.OK(f, appendTo(j, "name", []byte("body")))
	j.Forget("name")
	entries, err := disk.ReadDir("/j")
	if err != nil {
		f.Fatal(err)
	}
	file, err := disk.Open("/j/" + entries[0].Name())
	if err != nil {
		f.Fatal(err)
	}
	seed, err := io.ReadAll(file)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Add(seed[:40])
	f.Fuzz(func(t *testing.T, segment []byte) {
		other := folder(t)
		vfstest.Write(t, other, "/j/.journal-other", string(segment), true)
		for name, body := range found(t, other) {
			if !bytes.Contains(segment, []byte(name)) || !bytes.Contains(segment, []byte(body)) {
				t.Errorf("%q with %q is not in the segment", name, body)
			}
		}
	})
}
