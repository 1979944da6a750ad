package blob_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sluice/blob"
	"sluice/bytestore"
	"sluice/bytestore/memory"
	"sluice/database"
	"sluice/database/sqlstore"
	"sluice/internal/testenv"
	"sluice/metastore"
)

// orphan puts an object that nothing refers to.
func (f *fixture) orphan(t *testing.T) {
	t.Helper()
	name := bytestore.NewName(f.clock.Now())
	testenv.OK(t, f.bytes.Put(context.Background(), name, strings.NewReader("x"), 1))
}

func TestOrphanSweepSparesTheYoungAndTheLiving(t *testing.T) {
	ctx := context.Background()
	f := newFixture(t, blob.Options{InlineSize: -1})
	if _, err := blob.Bind(ctx, f.meta, f.bytes); err != nil {
		t.Fatal(err)
	}
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
	if got := f.read(t, "blob", 0, 4); string(got) != "live" {
		t.Errorf("read %q", got)
	}
	if _, err := f.Complete(ctx, u.ID, blob.Totals{}, nil); err != nil {
		t.Error(err)
	}
	if got := f.read(t, "upload", 0, 4); string(got) != "part" {
		t.Errorf("read %q", got)
	}
}

func TestOrphanSweepStopsBeforeItDeletesTooMuch(t *testing.T) {
	ctx := context.Background()
	for _, allowed := range []bool{false, true} {
		f := newFixture(t, blob.Options{AllowLargeSweep: allowed})
		for range 1_001 {
			f.orphan(t)
		}
		f.clock.Advance(blob.OrphanAge)
		found, err := f.SweepOrphans(ctx)
		if left := f.objects(t); allowed {
			if err != nil || found.Deleted != 1_001 || left != 0 {
				t.Errorf("allowed: %+v, %v, %d objects left", found, err, left)
			}
		} else if !errors.Is(err, blob.ErrLargeSweep) || found.Deleted != 0 || left != 1_001 {
			t.Errorf("not allowed: %+v, %v, %d objects left", found, err, left)
		}
	}
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
	if err := s.Delete(ctx, "a", "n", nil); !errors.Is(err, database.ErrNoSpace) {
		t.Errorf("with nothing left to free: %v", err)
	}
}

// fullOnce is a store with a disk that is full at the first delete.
type fullOnce struct {
	blob.Metadata
	calls int
}

func (s *fullOnce) DeleteBlob(ctx context.Context, account, name string, precondition metastore.Precondition) (metastore.ContentID, bool, error) {
	if s.calls++; s.calls == 1 {
		return metastore.ContentID{}, false, database.ErrNoSpace
	}
	return s.Metadata.DeleteBlob(ctx, account, name, precondition)
}

// TestRunPerformsAllTasks checks that Run performs all tasks, with a clock that the test sets.
func TestRunPerformsAllTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		meta, err := sqlstore.OpenSQLite(filepath.Join(testenv.MemoryDir(t), "meta.db"), sqlstore.Options{Now: time.Now})
		testenv.OK(t, err)
		bytes := memory.New()
		var restored atomic.Int64
		f := &fixture{
			Service: blob.New(meta, bytes, blob.Options{InlineSize: -1, Restore: func() error { restored.Add(1); return nil }}),
			meta:    meta,
			bytes:   bytes,
		}
		testenv.OK(t, bytes.Put(ctx, bytestore.NewName(time.Now().Add(-blob.OrphanAge)), strings.NewReader("x"), 1))
		done := make(chan struct{})
		go func() {
			defer close(done)
			f.Run(ctx, reportTo(t))
		}()
		f.put(t, "n", []byte("old"))
		f.put(t, "n", []byte("new"))
		idle := f.begin(t, "idle", 4)
		f.part(t, idle.ID, 0, []byte("part"))

		time.Sleep(time.Second)
		if n := f.objects(t); n != 3 {
			t.Errorf("%d objects after a second, want the blob, the part and the orphan", n)
		}
		time.Sleep(6 * time.Minute)
		if n := f.objects(t); n != 2 || restored.Load() < 6 {
			t.Errorf("%d objects after six minutes, want the blob and the part; space was reserved %d times", n, restored.Load())
		}
		time.Sleep(metastore.UploadIdleLimit)
		if n := f.objects(t); n != 1 {
			t.Errorf("%d objects after a day, want the blob's", n)
		}
		stop()
		<-done
		if err := meta.Close(); err != nil {
			t.Error(err)
		}
	})
}
