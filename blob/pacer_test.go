package blob_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/blob"
	"sluice/bytestore"
	"sluice/database/sqlstore"
	"sluice/metastore"
	"sluice/test/testenv"
)

// stepStore is a metadata store in which each step takes a millisecond. It records the steps'
// sizes.
type stepStore struct {
	*sqlstore.Store
	steps []int
}

func (s *stepStore) step(size int) {
	time.Sleep(time.Millisecond)
	s.steps = append(s.steps, size)
}

// DropContents implements metastore.Store.
func (s *stepStore) DropContents(ctx context.Context, contents []metastore.ContentID) error {
	s.step(len(contents))
	return s.Store.DropContents(ctx, contents)
}

// Purge implements metastore.Store.
func (s *stepStore) Purge(ctx context.Context, limit int) (int, error) {
	n, err := s.Store.Purge(ctx, limit)
	if n > 0 {
		s.step(n)
	}
	return n, err
}

// Unreferenced implements metastore.Store.
func (s *stepStore) Unreferenced(ctx context.Context, names []string) ([]string, error) {
	s.step(len(names))
	return s.Store.Unreferenced(ctx, names)
}

// each calls fn with the numbers below n, concurrently.
func each(n int, fn func(i int)) {
	var calls sync.WaitGroup
	for i := range n {
		calls.Go(func() { fn(i) })
	}
	calls.Wait()
}

// overwrite makes n small contents garbage.
func (f *fixture) overwrite(t *testing.T, n int) {
	t.Helper()
	each(n+1, func(int) {
		testenv.Check(t, testenv.Error(f.Put(t.Context(), to("n"), strings.NewReader("x"), 1)))
	})
}

// TestPurgeHandlesMore: a purge repeats the steps of other packages until they have handled all.
func TestPurgeHandlesMore(t *testing.T) {
	left, steps := 1200, 0
	f := newFixture(t, blob.Options{PurgeMore: func(_ context.Context, limit int) (int, error) {
		n := min(left, limit)
		left, steps = left-n, steps+1
		return n, nil
	}})
	testenv.OK(t, f.Purge(t.Context()))
	testenv.Equal(t, left, 0, "rows that are left")
	testenv.Equal(t, steps, 4, "steps")
}

// TestBackgroundTasksYieldToRequests runs each background task with and without requests in
// progress, and checks the number and size of its steps and that it pauses between them.
// Invariant 133.
func TestBackgroundTasksYieldToRequests(t *testing.T) {
	const items = 600
	ctx := context.Background()
	expires := metastore.ExpiredBlobGrace + time.Hour
	for name, c := range map[string]struct {
		prepare func(f *fixture, t *testing.T)
		run     func(s *blob.Service) error
		most    map[bool]int // items in a step, by whether there are requests
	}{
		"free": {func(f *fixture, t *testing.T) {
			f.overwrite(t, items)
		}, func(s *blob.Service) error { return s.FreeGarbage(ctx) }, map[bool]int{false: 256, true: 32}},
		"purge": {func(f *fixture, t *testing.T) {
			each(items, func(i int) {
				b := metastore.Blob{Account: "a", Name: fmt.Sprint(i), Content: metastore.NewContentID(f.clock.Now()), Expires: f.clock.Now().Add(time.Hour)}
				testenv.Check(t, testenv.Error(f.meta.CommitBlob(ctx, b, nil, nil)))
			})
			f.clock.Advance(expires)
		}, func(s *blob.Service) error { return s.Purge(ctx) }, map[bool]int{false: 500, true: 62}},
		"sweep": {func(f *fixture, t *testing.T) {
			for range items {
				f.orphan(t)
			}
			f.clock.Advance(blob.OrphanAge)
		}, func(s *blob.Service) error { _, err := s.SweepOrphans(ctx); return err }, map[bool]int{false: 1000, true: 125}},
	} {
		for _, busy := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/busy=%t", name, busy), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := newFixture(t, blob.Options{})
					c.prepare(f, t)
					store := &stepStore{Store: f.meta}
					s := blob.New(store, f.bytes, blob.Options{Busy: func() bool { return busy }})
					begin := time.Now()
					testenv.OK(t, c.run(s))
					took, total := time.Since(begin), 0
					for _, n := range store.steps {
						total += n
						if n > c.most[busy] {
							t.Errorf("a step handled %d items, want at most %d", n, c.most[busy])
						}
					}
					if total < items {
						t.Errorf("%d items were handled, want %d", total, items)
					}
					steps := time.Duration(len(store.steps))
					if least := (items + c.most[busy] - 1) / c.most[busy]; len(store.steps) < least || len(store.steps) > 2*least {
						t.Errorf("%d steps, want about %d", steps, least)
					}
					want := steps * time.Millisecond
					if busy {
						want += (steps - 1) * 3 * time.Millisecond
					}
					if took < want || took > want+4*time.Millisecond {
						t.Errorf("%d steps took %s, want %s", steps, took, want)
					}
				})
			})
		}
	}
}

// TestFullDiskIsFreedWithoutPauses checks that garbage is freed as fast as possible if requests
// fail for want of space.
// Invariant 133.
func TestFullDiskIsFreedWithoutPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, blob.Options{})
		f.overwrite(t, 300)
		store := &stepStore{Store: f.meta}
		full := func(int64) error { return fmt.Errorf("full: %w", bytestore.ErrNoSpace) }
		s := blob.New(store, f.bytes, blob.Options{Busy: func() bool { return true }, Space: full})
		begin := time.Now()
		testenv.OK(t, s.FreeGarbage(t.Context()))
		if took := time.Since(begin); took != time.Duration(len(store.steps))*time.Millisecond || len(store.steps) != 2 {
			t.Errorf("%v in %s, want 2 steps without pauses", store.steps, took)
		}
	})
}
