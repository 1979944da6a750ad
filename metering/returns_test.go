package metering

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/database"
	"sluice/test/testenv"
	"sluice/test/vfstest"
)

// TestChargeInDoubtIsReturned checks that a charge with an unknown outcome is returned if it was
// made, and once if the return's result is lost.
func TestChargeInDoubtIsReturned(t *testing.T) {
	for _, made := range []bool{true, false} {
		t.Run(fmt.Sprint("made: ", made), func(t *testing.T) {
			f := newFixture(t)
			f.store.unreachable.Store(true)
			f.store.losesCharges.Store(made)
			f.store.refusesCharges.Store(!made)
			for _, b := range f.bills() {
				_, _, err := b.Charge(t.Context(), spans(0, 1))
				testenv.Is(t, err, database.ErrUnknownOutcome, "a charge")
			}
			if made {
				f.checkFunds(99, 9)
			} else {
				f.checkFunds(100, 0)
			}
			f.store.losesReturns.Store(true)
			f.store.unreachable.Store(false)
			testenv.Equal(t, f.returns.tryAll(t.Context()), 2, "returns whose responses were lost")
			f.store.losesReturns.Store(false)
			f.awaitReturns()
			if made {
				f.checkFunds(100, 10)
			} else {
				f.checkFunds(100, 0)
			}
		})
	}
}

// Invariant 25.
func TestReturnsAreRetriedUntilTheStoreResponds(t *testing.T) {
	f := newFixture(t)
	f.store.unreachable.Store(true)
	f.cutReads()
	for range 5 {
		if left := f.returns.tryAll(t.Context()); left != 2 {
			t.Fatalf("%d are pending while the store is unreachable, want 2", left)
		}
	}
	f.checkFunds(97, 7)
	f.store.unreachable.Store(false)
	f.awaitReturns()
	f.checkFunds(100, 10)
}

// TestReturnsOutliveTheProcess checks that returns that are pending at the end survive a power
// failure and are made once by the next process.
// Invariant 25.
func TestReturnsOutliveTheProcess(t *testing.T) {
	f := newFixture(t)
	disk := vfstest.NewCrash()
	const dir = "/data/returns"
	start := func() *Returns { return f.newReturns(disk, dir) }
	first := start()
	f.returns = first
	f.store.unreachable.Store(true)
	f.cutReads()
	testenv.OK(t, first.Close())
	first.add(pendingReturn{Name: "late", Count: 1, Session: f.session}) // is lost, which is logged
	if !strings.Contains(f.log.String(), "are not returned") {
		t.Error("a return after the end is not logged")
	}
	disk = disk.Crash()
	second := start()
	if second.Pending() != 2 {
		t.Fatalf("%d are pending after a power failure, want 2", second.Pending())
	}
	second.Replay(t.Context()) // the store is still unreachable
	testenv.OK(t, second.Close())
	disk = disk.Crash()
	f.store.losesReturns.Store(true)
	f.store.unreachable.Store(false)
	third := start()
	third.Replay(t.Context())
	f.checkFunds(100, 10)
	if err := third.Close(); err != nil { // the return's result was lost
		t.Fatal(err)
	}
	f.store.losesReturns.Store(false)
	fourth := start()
	fourth.Replay(t.Context())
	f.checkFunds(100, 10)
	if entries, err := disk.ReadDir(dir); fourth.Pending() != 0 || err != nil || len(entries) != 0 {
		t.Errorf("%d are pending, and %v, %v are in the folder", fourth.Pending(), entries, err)
	}
}

// TestOldReturnsAreDropped checks that a return that the store may no longer retain is not
// retried: it may have been made.
func TestOldReturnsAreDropped(t *testing.T) {
	f := newFixture(t)
	f.store.unreachable.Store(true)
	f.cutReads()
	// Clocks differ by less than half of the retention.
	f.returns.now = func() time.Time { return time.Now().Add(database.IdempotencyRetention/2 + time.Minute) }
	testenv.Equal(t, f.returns.tryAll(t.Context()), 0, "returns that are still tried")
	f.store.unreachable.Store(false)
	f.awaitReturns()
	f.checkFunds(97, 7)
}

// TestReturnsStayOnDiskUntilAllAreDone checks that a file with two returns stays until both are
// made, even if a save fails in between.
// Invariant 31.
func TestReturnsStayOnDiskUntilAllAreDone(t *testing.T) {
	f := newFixture(t)
	disk := vfstest.NewCrash()
	start := func() *Returns { return f.newReturns(disk, "/returns") }
	first := start()
	f.returns = first
	f.store.unreachable.Store(true)
	f.cutReads()
	testenv.OK(t, first.Close())

	second := start()
	full := errors.New("the disk is full")
	second.fs = vfstest.Intercept(disk, func(op *vfstest.Op, do func() error) error {
		if op.Kind == vfstest.KindWrite {
			return full
		}
		return do()
	})
	if err := second.Close(); !errors.Is(err, full) {
		t.Fatalf("a save to a full disk: %v", err)
	}
	disk = disk.Crash()

	third := start()
	if third.Pending() != 2 {
		t.Fatalf("%d are pending after a failed save, want 2", third.Pending())
	}
	f.store.unreachableForCredit.Store(true)
	f.store.unreachable.Store(false)
	if left := third.tryAll(t.Context()); left != 1 {
		t.Fatalf("%d are left, want 1", left)
	}
	f.checkFunds(100, 7)
	disk = disk.Crash()
	f.store.unreachableForCredit.Store(false)
	start().Replay(t.Context())
	f.checkFunds(100, 10)
}

// TestReturnsAreBounded checks that no read is charged while too many returns are pending.
func TestReturnsAreBounded(t *testing.T) {
	f := newFixture(t)
	f.store.unreachable.Store(true)
	for i := range maxPending {
		f.returns.add(pendingReturn{Name: fmt.Sprint(i), InDoubt: true, Session: f.session, Count: 1})
	}
	_, _, err := f.bills()[0].Charge(t.Context(), spans(0, 1))
	testenv.Is(t, err, ErrBacklog, "a charge with a backlog")
	f.checkFunds(100, 0)
	f.store.unreachable.Store(false)
	f.awaitReturns()
}

// TestReturnsKeepNoRequests checks that a pending return does not keep the request in memory that
// it belongs to.
// Invariant 71.
func TestReturnsKeepNoRequests(t *testing.T) {
	f := newFixture(t)
	const returns = 200
	before := testenv.Heap()
	for i := range returns {
		request := fmt.Sprintf("%06d %s", i, strings.Repeat("q", 28_000))
		f.returns.add(pendingReturn{Name: fmt.Sprint(i), Count: 1, Session: request[:6]})
	}
	if took := testenv.Heap() - before; took > returns*2000 || f.returns.Pending() != returns {
		t.Errorf("%d pending returns take %d bytes", f.returns.Pending(), took)
	}
	f.returns.tryAll(t.Context()) // there are no such sessions, so nothing is left
}

// TestDamagedReturnsAreNotRead changes a digit in a file of pending returns: it is not taken for
// another count. A file that an earlier version has written has no checksum in its name.
// Invariant 113.
func TestDamagedReturnsAreNotRead(t *testing.T) {
	dir := t.TempDir()
	text := []byte(`[{"name":"n","count":7,"session":"s"}]`)
	damaged := bytes.Replace(text, []byte("7"), []byte("9"), 1)
	marked := "NAME" + sumMark + sumOf(text) + returnsFile
	for _, c := range []struct {
		name    string
		content []byte
		found   int
	}{{marked, text, 0}, {marked, damaged, 1}, {"EARLIER.json", text, 0}, {"EARLIER.json", text[1:], 1}} {
		testenv.OK(t, os.WriteFile(filepath.Join(dir, c.name), c.content, 0o600))
		found := testenv.Must(CheckReturns(dir))(t)
		_, err := NewReturns(nil, nil, dir, slog.New(slog.DiscardHandler))
		if len(found) != c.found || (err != nil) != (c.found > 0) {
			t.Errorf("%s: %q, and a start: %v", c.content, found, err)
		}
		testenv.OK(t, os.Remove(filepath.Join(dir, c.name)))
	}
}
