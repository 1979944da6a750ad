package blob_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sluice/blob"
	"sluice/bytestore"
	"sluice/bytestore/memory"
	"sluice/database"
	"sluice/history"
	"sluice/internal/task"
	"sluice/metastore"
	"sluice/test/testenv"
)

// watchedStore calls a function before each object is deleted.
type watchedStore struct {
	*memory.Store
	on func(name bytestore.Name) error
}

func (s *watchedStore) Delete(ctx context.Context, names ...bytestore.Name) error {
	return bytestore.DeleteEach(names, func(name bytestore.Name) error {
		if err := s.on(name); err != nil {
			return err
		}
		return s.Store.Delete(ctx, name)
	})
}

// onWatched returns a fixture with watched deletes. Garbage is due after an hour.
func onWatched(t *testing.T, on func(name bytestore.Name) error) *fixture {
	t.Helper()
	f := newFixture(t, blob.Options{})
	f.Service = blob.New(f.meta, &watchedStore{f.bytes, on}, blob.Options{InlineSize: -1, GarbageGrace: time.Hour})
	return f
}

// garbage deletes n blobs of one object each, and returns the objects.
func (f *fixture) garbage(t *testing.T, prefix string, n int) map[bytestore.Name]bool {
	t.Helper()
	objects := map[bytestore.Name]bool{}
	for i := range n {
		name := fmt.Sprint(prefix, i)
		f.put(t, name, []byte("x"))
		b := testenv.Must(f.meta.Blob(t.Context(), "a", name))(t)
		extents := testenv.Must(f.meta.Extents(t.Context(), b.Content, metastore.Position{}, 1))(t)
		objects[bytestore.Name(extents[0].Object)] = true
		testenv.OK(t, f.Delete(t.Context(), "a", name, nil))
	}
	return objects
}

// largeGarbage aborts an upload of n parts of one object each, and returns the names in order.
func (f *fixture) largeGarbage(t *testing.T, n int) []bytestore.Name {
	t.Helper()
	u := f.begin(t, "large", 1)
	for i := range n {
		f.part(t, u.ID, i, []byte("x"))
	}
	extents := testenv.Must(f.meta.Extents(t.Context(), u.Content, metastore.Position{}, n))(t)
	var names []bytestore.Name
	for _, e := range extents {
		names = append(names, bytestore.Name(e.Object))
	}
	testenv.OK(t, f.Abort(t.Context(), u.ID))
	return names
}

// TestOverwritesLeaveABoundedBacklog replaces a blob a thousand times a second, which is about what
// 32 concurrent deletes of 30 ms each can handle.
// Invariant 128.
func TestOverwritesLeaveABoundedBacklog(t *testing.T) {
	inRun(t, func(f *fixture) *blob.Service {
		slow := func(bytestore.Name) error { time.Sleep(30 * time.Millisecond); return nil }
		return blob.New(f.meta, &watchedStore{f.bytes, slow}, blob.Options{InlineSize: -1})
	}, func(t *testing.T, f *fixture) {
		most := 0
		for i := range 3_000 {
			f.put(t, "n", []byte("x"))
			time.Sleep(time.Millisecond)
			if i%100 == 0 {
				most = max(most, testenv.Must(f.GarbageBacklog(t.Context()))(t).Contents)
			}
		}
		if most > 1_000 {
			t.Errorf("up to %d contents wait to be freed", most)
		}
		t.Logf("up to %d contents waited", most)
		time.Sleep(2 * time.Second)
		backlog := testenv.Must(f.GarbageBacklog(t.Context()))(t)
		testenv.Equal(t, backlog, metastore.Backlog{}, "what waits two seconds later")
	})
}

// TestLargeGarbageDelaysNoRequests checks that garbage that arose after a large content is freed
// before all of that content.
// Invariant 128.
func TestLargeGarbageDelaysNoRequests(t *testing.T) {
	var mu sync.Mutex
	var order []bytestore.Name
	f := onWatched(t, func(name bytestore.Name) error {
		mu.Lock()
		defer mu.Unlock()
		order = append(order, name)
		return nil
	})
	large := f.largeGarbage(t, 3_000)
	f.clock.Advance(time.Second)
	small := f.garbage(t, "small", 300)
	f.clock.Advance(time.Hour)
	testenv.OK(t, f.FreeGarbage(t.Context()))
	if n := f.objects(t); n != 0 || len(order) != len(large)+len(small) {
		t.Fatalf("%d objects stay behind after %d deletes", n, len(order))
	}
	lastSmall := 0
	for i, name := range order {
		if small[name] {
			lastSmall = i
		}
	}
	if before := lastSmall + 1 - len(small); before > len(large)/2 {
		t.Errorf("%d of the %d objects of the large content went first", before, len(large))
	}
	f.wantNoGarbage(t, "in the end")
}

// TestUndeletableObjectsDelayNothing checks that objects which the store does not delete are
// retried after a pause, and that everything else is freed, including the rest of their own
// content. The errors are counted, and a few are kept.
// Invariant 128.
func TestUndeletableObjectsDelayNothing(t *testing.T) {
	var (
		mu          sync.Mutex
		undeletable = map[bytestore.Name]bool{}
		tries       int
	)
	f := onWatched(t, func(name bytestore.Name) error {
		mu.Lock()
		defer mu.Unlock()
		if undeletable[name] {
			tries++
			return fmt.Errorf("delete %s: the object is locked", name)
		}
		return nil
	})
	large := f.largeGarbage(t, 2_500)
	held := f.garbage(t, "held", 600)
	f.clock.Advance(time.Second)
	f.garbage(t, "free", 10)
	for name := range held {
		undeletable[name] = true
	}
	for _, name := range large[:1_100] {
		undeletable[name] = true
	}
	f.clock.Advance(time.Hour)
	const want = 600 + 1_100
	round := func(tried int) {
		t.Helper()
		tries = 0
		err := f.FreeGarbage(t.Context())
		if n := f.objects(t); n != want || tries != tried {
			t.Fatalf("%d objects are left, want the %d that are locked; %d were tried, want %d", n, want, tries, tried)
		}
		if tried == 0 {
			testenv.Check(t, err)
			return
		}
		if text := fmt.Sprint(err); !strings.Contains(text, fmt.Sprint(tried, " failures")) || len(text) > 1_000 {
			t.Errorf("the error has %d bytes and does not say that %d failed: %.200s", len(text), tried, text)
		}
	}
	round(want)
	round(0)
	f.clock.Advance(time.Minute)
	round(want)
	f.clock.Advance(time.Minute)
	round(0) // the pause is longer now
	f.clock.Advance(time.Minute)
	round(want)
	f.clock.Advance(16 * time.Minute)
	clear(undeletable)
	testenv.Check(t, f.FreeGarbage(t.Context()))
	f.wantObjects(t, 0, "that stay behind once they can be deleted")
}

// TestOutageStopsTheRound checks that a store that deletes nothing gets no requests to delete all
// garbage.
func TestOutageStopsTheRound(t *testing.T) {
	var tries atomic.Int64
	var down atomic.Bool
	down.Store(true)
	f := onWatched(t, func(bytestore.Name) error {
		if tries.Add(1); down.Load() {
			return bytestore.ErrOverloaded
		}
		return nil
	})
	f.garbage(t, "n", 600)
	f.clock.Advance(time.Hour)
	if err := f.FreeGarbage(t.Context()); !errors.Is(err, bytestore.ErrOverloaded) || tries.Load() > 256 {
		t.Errorf("%d objects were tried, %v", tries.Load(), err)
	}
	down.Store(false)
	f.clock.Advance(time.Minute)
	if err := f.FreeGarbage(t.Context()); err != nil || f.objects(t) != 0 {
		t.Errorf("%d objects stay behind, %v", f.objects(t), err)
	}
}

// TestSweepContinuesPastUndeletableOrphans checks that an orphan that cannot be deleted does not
// prevent the deletion of others, and that thousands of them cause a short error.
func TestSweepContinuesPastUndeletableOrphans(t *testing.T) {
	var n atomic.Int64
	f := newFixture(t, blob.Options{})
	for range 900 {
		f.orphan(t)
	}
	f.clock.Advance(48 * time.Hour)
	s := blob.New(f.meta, &watchedStore{f.bytes, func(bytestore.Name) error {
		if n.Add(1)%3 == 0 {
			return errors.New("the object is locked")
		}
		return nil
	}}, blob.Options{})
	found, err := s.SweepOrphans(t.Context())
	if found.Deleted != 600 || f.objects(t) != 300 {
		t.Errorf("%+v, %d objects are left", found, f.objects(t))
	}
	if text := fmt.Sprint(err); !strings.Contains(text, "300 failures") || len(text) > 1_000 {
		t.Errorf("an error of %d bytes: %.200s", len(text), text)
	}
}

// TestOrphanAge checks that an object is swept no sooner than 48 hours after it was created, four
// times the 12 hours within which a commit may refer to it.
// Invariant 5.
func TestOrphanAge(t *testing.T) {
	if metastore.MaxExtentAge != 12*time.Hour || blob.OrphanAge != 48*time.Hour {
		t.Errorf("an extent is accepted for %s, an orphan swept after %s", metastore.MaxExtentAge, blob.OrphanAge)
	}
	f := newFixture(t, blob.Options{})
	f.orphan(t)
	f.clock.Advance(48*time.Hour - time.Millisecond)
	if found, err := f.SweepOrphans(t.Context()); err != nil || found.Orphans != 0 {
		t.Errorf("just before 48 hours: %+v, %v", found, err)
	}
	f.clock.Advance(time.Millisecond)
	if found, err := f.SweepOrphans(t.Context()); err != nil || found.Deleted != 1 {
		t.Errorf("after 48 hours: %+v, %v", found, err)
	}
}

// TestDeleteFreesBeforeItReturns deletes an empty content, a small one, and one of many objects.
func TestDeleteFreesBeforeItReturns(t *testing.T) {
	f := newFixture(t, blob.Options{InlineSize: -1, ExtentSize: 1 << 20})
	for name, size := range map[string]int{"empty": 0, "small": 1, "many": 40<<20 + 1} {
		f.put(t, name, bytes.Repeat([]byte("x"), size))
		testenv.OK(t, f.Delete(t.Context(), "a", name, nil))
		f.wantObjects(t, 0, "of the %s content after its delete", name)
		f.wantNoGarbage(t, "after the delete of the "+name+" content")
	}
}

// countedPages is a metadata store that counts the pages of garbage that are freed.
type countedPages struct {
	blob.Metadata
	pages int
}

func (m *countedPages) GarbageObjects(ctx context.Context, ids []metastore.ContentID) (map[metastore.ContentID][]string, error) {
	m.pages++
	return m.Metadata.GarbageObjects(ctx, ids)
}

// TestDeleteFreesAllBatches checks that all extents of one content are freed when the delete
// returns, also if they are more than the 1,024 that are freed together, and that the delete
// returns then.
func TestDeleteFreesAllBatches(t *testing.T) {
	f := newFixture(t, blob.Options{})
	meta := &countedPages{Metadata: f.meta}
	f.Service = blob.New(meta, f.bytes, blob.Options{InlineSize: -1})
	if n := len(f.largeGarbage(t, 1_100)); n != 1_100 {
		t.Fatalf("%d objects were stored", n)
	}
	if meta.pages != 2 {
		t.Errorf("%d batches were freed, want 2", meta.pages)
	}
	f.wantObjects(t, 0, "after the delete")
	f.wantNoGarbage(t, "after the delete")
}

// undroppable is a metadata store that counts the calls that drop contents, which fail with an
// error if it is set.
type undroppable struct {
	blob.Metadata
	calls int
	err   error
}

func (m *undroppable) DropContents(ctx context.Context, ids []metastore.ContentID) error {
	if m.calls++; m.err != nil {
		return m.err
	}
	return m.Metadata.DropContents(ctx, ids)
}

func (m *undroppable) DropContent(ctx context.Context, id metastore.ContentID) error {
	if m.calls++; m.err != nil {
		return m.err
	}
	return m.Metadata.DropContent(ctx, id)
}

// TestContentThatCannotBeDropped checks that a large content is retried after a pause if its
// metadata cannot be dropped, and is not tried again once it was dropped.
func TestContentThatCannotBeDropped(t *testing.T) {
	f := newFixture(t, blob.Options{})
	meta := &undroppable{Metadata: f.meta, err: errResponse}
	f.Service = blob.New(meta, f.bytes, blob.Options{InlineSize: -1, GarbageGrace: time.Hour})
	f.largeGarbage(t, metastore.MaxSmallExtents+1)
	f.clock.Advance(time.Hour)
	round := func(what string, calls int, want error) {
		t.Helper()
		if err := f.FreeGarbage(t.Context()); !errors.Is(err, want) || meta.calls != calls {
			t.Errorf("%s: %d calls, %v, want %d and %v", what, meta.calls, err, calls, want)
		}
	}
	round("first", 1, errResponse)
	round("immediately after a failure", 1, nil)
	f.clock.Advance(time.Minute)
	meta.err = nil
	round("a minute later", 2, nil)
	f.clock.Advance(time.Hour)
	round("after it was dropped", 2, nil)
	f.wantNoGarbage(t, "in the end")
}

// uncertain is a metadata store that is uncertain about the time.
type uncertain struct{ blob.Metadata }

func (uncertain) DeletionErr() error { return database.ErrClock }

// TestGarbageWhileTheTimeIsUncertain checks that garbage is freed although the time is uncertain if
// it needs no grace period, and only then: its age would be uncertain, too.
func TestGarbageWhileTheTimeIsUncertain(t *testing.T) {
	for grace, want := range map[time.Duration]int{0: 0, time.Hour: 1} {
		inRun(t, func(f *fixture) *blob.Service {
			return blob.New(uncertain{f.meta}, f.bytes, blob.Options{InlineSize: -1, GarbageGrace: grace})
		}, func(t *testing.T, f *fixture) {
			f.put(t, "n", []byte("x"))
			f.put(t, "n", nil)
			time.Sleep(2 * time.Hour)
			f.wantObjects(t, want, "with a grace period of %s", grace)
		})
	}
}

// TestFullStoreCutsReadersOfGarbage checks that a write that does not fit makes Run cut the readers
// of garbage soon, not at its next periodic search.
func TestFullStoreCutsReadersOfGarbage(t *testing.T) {
	var full atomic.Bool
	inRun(t, func(f *fixture) *blob.Service {
		return blob.New(f.meta, f.bytes, blob.Options{InlineSize: -1, Space: func(int64) error {
			if full.Load() {
				return bytestore.ErrNoSpace
			}
			return nil
		}})
	}, func(t *testing.T, f *fixture) {
		f.put(t, "n", []byte("x"))
		c := f.open(t, "n")
		var cut atomic.Bool
		c.OnCut(func() { cut.Store(true) })
		testenv.OK(t, f.Delete(t.Context(), "a", "n", nil))
		time.Sleep(time.Second)
		if cut.Load() {
			t.Fatal("the reader was cut although there is space")
		}
		full.Store(true)
		_, err := f.Put(t.Context(), to("other"), strings.NewReader("y"), 1)
		testenv.Is(t, err, bytestore.ErrNoSpace, "a write to a full store")
		time.Sleep(time.Second)
		if !cut.Load() {
			t.Error("the reader of garbage was not cut within a second")
		}
	})
}

// TestRunReportsFailures checks that Run reports the failures of its tasks, but neither that
// deletions have to wait nor what fails because Run ends.
func TestRunReportsFailures(t *testing.T) {
	for _, c := range []struct {
		err      error // of each delete
		reported bool
	}{
		{errResponse, true},
		{fmt.Errorf("not yet: %w", history.ErrFenceWaits), false},
		{context.Canceled, false}, // Run has ended
	} {
		synctest.Test(t, func(t *testing.T) {
			meta, store := openMeta(t), memory.New()
			ctx, end := context.WithCancel(t.Context())
			calls := 0
			s := blob.New(meta, store, blob.Options{InlineSize: -1, MayDelete: func(context.Context) error {
				if calls++; errors.Is(c.err, context.Canceled) {
					end()
				}
				return c.err
			}})
			f := &fixture{Service: s, meta: meta, bytes: store}
			var reported []error
			done := make(chan struct{})
			go func() {
				defer close(done)
				f.Run(ctx, task.NewControl(func(run task.Run) {
					if run.Err != nil {
						reported = append(reported, run.Err)
					}
				}))
			}()
			f.put(t, "n", []byte("x"))
			f.put(t, "n", nil)
			time.Sleep(time.Second)
			end()
			<-done
			if calls == 0 {
				t.Fatal("Run deleted nothing")
			}
			if (len(reported) > 0) != c.reported || c.reported && !errors.Is(reported[0], c.err) {
				t.Errorf("%v: %v were reported", c.err, reported)
			}
		})
	}
}

// TestRunReportsItsRuns checks that each run is reported with what it handled, and that the
// service's counts include it.
func TestRunReportsItsRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const expired = 3
		f := newFixture(t, blob.Options{InlineSize: -1, GarbageGrace: time.Hour})
		testenv.OK(t, f.bytes.Put(t.Context(), bytestore.NewName(f.clock.Now()), strings.NewReader("x"), 1))
		for i := range expired {
			options := blob.PutOptions{Account: "a", Name: fmt.Sprint(i), Expires: f.clock.Now().Add(time.Hour)}
			testenv.Must(f.Put(t.Context(), options, strings.NewReader("x"), 1))(t)
		}
		f.clock.Advance(blob.OrphanAge + 24*time.Hour)
		runs := make(chan task.Run, 100)
		stop := run(t, f.Service, func(run task.Run) { runs <- run })
		time.Sleep(90 * time.Second) // the purge makes garbage
		f.clock.Advance(2 * time.Hour)
		time.Sleep(5 * time.Minute)
		stop()
		close(runs)
		counts := map[task.Name]int64{}
		for run := range runs {
			reportTo(t)(run)
			counts[run.Task] += run.Count
		}
		want := map[task.Name]int64{task.Purge: expired, task.FreeGarbage: expired, task.Sweep: 1, task.RestoreReserve: 0, task.Versions: 0, task.Rules: 0, task.Changes: 0}
		if !maps.Equal(counts, want) {
			t.Errorf("the runs handled %v, want %v", counts, want)
		}
		testenv.Equal(t, f.Stats(), blob.Stats{FreedContents: expired, FreedObjects: expired + 1}, "counts")
	})
}
