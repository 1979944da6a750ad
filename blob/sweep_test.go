package blob_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sluice/blob"
	"sluice/bytestore"
	"sluice/database"
	"sluice/history"
	"sluice/metastore"
	"sluice/test/testenv"
)

// orphan puts an object that nothing refers to.
func (f *fixture) orphan(t *testing.T) {
	t.Helper()
	name := bytestore.NewName(f.clock.Now())
	testenv.OK(t, f.bytes.Put(context.Background(), name, strings.NewReader("x"), 1))
}

// Invariant 5.
func TestOrphanSweepSparesTheYoungAndTheLiving(t *testing.T) {
	ctx := context.Background()
	f := newFixture(t, blob.Options{InlineSize: -1})
	testenv.Must(history.Bind(ctx, f.meta, f.bytes))(t)
	f.put(t, "blob", []byte("live"))
	u := f.begin(t, "upload", 4)
	f.part(t, u.ID, 0, []byte("part"))
	for range 3 {
		f.orphan(t)
	}
	f.clock.Advance(blob.OrphanAge - time.Second)
	f.orphan(t)
	if found, err := f.SweepOrphans(ctx); err != nil || found.Orphans != 0 {
		t.Fatalf("young orphans: %+v, %v", found, err)
	}
	f.clock.Advance(time.Second)
	found, err := f.SweepOrphans(ctx)
	if err != nil || found != (blob.Sweep{Listed: 7, Orphans: 3, Deleted: 3}) {
		t.Fatalf("%+v, %v", found, err)
	}
	f.wantRead(t, "blob", 0, []byte("live"), "after the sweep")
	testenv.Check(t, testenv.Error(f.Complete(ctx, u.ID, blob.Totals{}, nil)))
	f.wantRead(t, "upload", 0, []byte("part"), "after the sweep")
}

// TestSweepKeepsObjectsAfterARecovery: of objects that nothing refers to, those that were made
// before a time are kept for as long as Options says.
// Invariant 100.
func TestSweepKeepsObjectsAfterARecovery(t *testing.T) {
	var before time.Time
	f := newFixture(t, blob.Options{KeptBefore: func() time.Time { return before }})
	f.orphan(t)
	f.clock.Advance(time.Second)
	before = f.clock.Now()
	f.clock.Advance(time.Second)
	f.orphan(t)
	f.clock.Advance(blob.OrphanAge)
	found := testenv.Must(f.SweepOrphans(t.Context()))(t)
	testenv.Equal(t, found, blob.Sweep{Listed: 2, Orphans: 1, Deleted: 1}, "the sweep")
	before = time.Time{}
	found = testenv.Must(f.SweepOrphans(t.Context()))(t)
	testenv.Equal(t, found, blob.Sweep{Listed: 1, Orphans: 1, Deleted: 1}, "the sweep when nothing is kept")
}

// TestOrphanSweepStopsBeforeItDeletesTooMuch checks that a large sweep needs a permission of the
// last day, and uses it up.
// Invariant 125.
func TestOrphanSweepStopsBeforeItDeletesTooMuch(t *testing.T) {
	ctx := context.Background()
	f := newFixture(t, blob.Options{})
	fill := func() {
		for range 1_001 {
			f.orphan(t)
		}
		f.clock.Advance(blob.OrphanAge)
	}
	refused := func(when string) {
		t.Helper()
		if found, err := f.SweepOrphans(ctx); !errors.Is(err, blob.ErrLargeSweep) || found.Deleted != 0 || f.objects(t) != 1_001 {
			t.Errorf("%s: %+v, %v, %d objects left", when, found, err, f.objects(t))
		}
	}
	fill()
	refused("not permitted")
	permitted := fmt.Sprint(f.clock.Now().Unix())
	testenv.OK(t, f.meta.SetProperty(ctx, blob.LargeSweepProperty, permitted))
	f.clock.Advance(25 * time.Hour)
	refused("permitted a day ago")
	testenv.OK(t, f.meta.ReplaceProperty(ctx, blob.LargeSweepProperty, permitted, fmt.Sprint(f.clock.Now().Unix())))
	if found, err := f.SweepOrphans(ctx); err != nil || found.Deleted != 1_001 || f.objects(t) != 0 {
		t.Errorf("permitted: %+v, %v, %d objects left", found, err, f.objects(t))
	}
	fill()
	refused("after the one that was permitted")
}

func TestDeleteOnAFullDiskUsesTheReserve(t *testing.T) {
	ctx := context.Background()
	f := newFixture(t, blob.Options{})
	f.put(t, "n", []byte("x"))
	reliefs := 0
	full := &fullOnce{Metadata: f.meta}
	s := blob.New(full, f.bytes, blob.Options{Relieve: func() bool { reliefs++; return reliefs == 1 }})
	if err := s.Delete(ctx, "a", "n", nil); err != nil || reliefs != 1 {
		t.Errorf("%v after %d reliefs", err, reliefs)
	}
	full.calls = 0
	testenv.Is(t, s.Delete(ctx, "a", "n", nil), database.ErrNoSpace, "with nothing left to free")
}

// fullOnce is a store with a disk that is full at the first delete.
type fullOnce struct {
	blob.Metadata
	calls int
}

func (s *fullOnce) RemoveBlob(ctx context.Context, r metastore.Removal) (metastore.Removed, error) {
	if s.calls++; s.calls == 1 {
		return metastore.Removed{}, database.ErrNoSpace
	}
	return s.Metadata.RemoveBlob(ctx, r)
}

// TestRunPerformsAllTasks checks that Run performs all tasks, with a clock that the test sets.
func TestRunPerformsAllTasks(t *testing.T) {
	var restored atomic.Int64
	inRun(t, func(f *fixture) *blob.Service {
		old := bytestore.NewName(time.Now().Add(-blob.OrphanAge))
		testenv.OK(t, f.bytes.Put(context.Background(), old, strings.NewReader("x"), 1))
		restore := func() error { restored.Add(1); return nil }
		return blob.New(f.meta, f.bytes, blob.Options{InlineSize: -1, Restore: restore})
	}, func(t *testing.T, f *fixture) {
		f.put(t, "n", []byte("old"))
		f.put(t, "n", []byte("new"))
		idle := f.begin(t, "idle", 4)
		f.part(t, idle.ID, 0, []byte("part"))

		time.Sleep(time.Second)
		f.wantObjects(t, 3, "after a second (the blob, the part and the orphan)")
		time.Sleep(6 * time.Minute)
		f.wantObjects(t, 2, "after six minutes (the blob and the part)")
		if n := restored.Load(); n < 6 {
			t.Errorf("space was reserved %d times in six minutes", n)
		}
		time.Sleep(metastore.UploadIdleLimit)
		f.wantObjects(t, 1, "after a day (the blob's)")
	})
}

// TestSweepWithoutPermission checks that there is no sweep while nothing may be deleted.
// Invariant 96.
func TestSweepWithoutPermission(t *testing.T) {
	f := newFixture(t, blob.Options{MayDelete: func(context.Context) error { return history.ErrFenced }})
	if swept, err := f.SweepOrphans(t.Context()); !errors.Is(err, history.ErrFenced) || swept.Listed != 0 {
		t.Errorf("%+v, %v, want %v", swept, err, history.ErrFenced)
	}
}
