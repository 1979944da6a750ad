package blob_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/blob"
	"sluice/bytestore"
	"sluice/bytestore/localfs"
	"sluice/bytestore/memory"
	"sluice/history"
	"sluice/integrity"
	"sluice/metastore"
	"sluice/test/testenv"
)

// objectsOf returns the names of a blob's objects, in the order of its bytes.
func (f *fixture) objectsOf(t testing.TB, name string) (list []bytestore.Name) {
	t.Helper()
	b := testenv.Must(f.meta.Blob(t.Context(), "a", name))(t)
	for _, e := range testenv.Must(f.meta.Extents(t.Context(), b.Content, metastore.Position{}, 1000))(t) {
		list = append(list, bytestore.Name(e.Object))
	}
	return list
}

// alter replaces what a store has of an object by what change returns, or removes it if that is
// nil.
func alter(t testing.TB, store bytestore.Store, name bytestore.Name, size int64, change func([]byte) []byte) {
	t.Helper()
	r := testenv.Must(store.Open(t.Context(), name, 0, size))(t)
	body := make([]byte, size)
	_, err := io.ReadFull(r, body)
	testenv.OK(t, errors.Join(err, r.Close(), store.Delete(t.Context(), name)))
	if body = change(body); body != nil {
		testenv.OK(t, store.Put(t.Context(), name, bytes.NewReader(body), int64(len(body))))
	}
}

// flip changes a byte.
func flip(at int) func([]byte) []byte {
	return func(b []byte) []byte {
		b[at] ^= 1
		return b
	}
}

// cut keeps n bytes.
func cut(n int) func([]byte) []byte { return func(b []byte) []byte { return b[:n] } }

// removed keeps nothing.
func removed([]byte) []byte { return nil }

// damaged returns the recorded damage by object, as the bits of damaged blocks.
func (f *fixture) damaged(t testing.TB) map[bytestore.Name]uint64 {
	t.Helper()
	found := map[bytestore.Name]uint64{}
	for _, d := range testenv.Must(f.meta.Damages(t.Context(), metastore.ExtentID{}, 1000))(t) {
		found[bytestore.Name(d.Object)] = d.Bad
	}
	return found
}

// wantDamage fails the test, which goes on, unless this damage is recorded.
func (f *fixture) wantDamage(t testing.TB, want map[bytestore.Name]uint64, which string) {
	t.Helper()
	if got := f.damaged(t); !maps.Equal(got, want) {
		t.Errorf("damage %s: %v, want %v", which, got, want)
	}
}

// TestScrubFindsDamage flips bytes of objects, truncates and removes them, and lets a scrub find
// them, and a comparison with the listing those with another size.
// Invariants 116, 117.
func TestScrubFindsDamage(t *testing.T) {
	testScrubFindsDamage(t, memory.New())
}

// TestScrubFindsDamageInFiles does the same in a folder.
// Invariant 116.
func TestScrubFindsDamageInFiles(t *testing.T) {
	files := testenv.Must(localfs.Open(t.TempDir(), localfs.Options{Reserve: -1}))(t)
	testenv.AtEnd(t, files.Close)
	testScrubFindsDamage(t, files)
}

func testScrubFindsDamage(t *testing.T, store bytestore.Store) {
	const mib = 1 << 20
	f := newFixture(t, blob.Options{})
	var found []metastore.Damage
	service := func() *blob.Service {
		return blob.New(f.meta, store, blob.Options{ExtentSize: 2 * mib, Found: func(d metastore.Damage) { found = append(found, d) }})
	}
	f.Service = service()
	body := randomBytes(1, 7*mib+5)
	f.put(t, "large", body)
	f.put(t, "intact", body[:3*mib])
	f.put(t, "inline", body[:100])
	objects := f.objectsOf(t, "large")
	alter(t, store, objects[0], 2*mib, flip(mib+3))
	alter(t, store, objects[1], 2*mib, cut(mib+7))
	alter(t, store, objects[3], mib+5, removed)

	testenv.Must(f.CompareObjects(t.Context()))(t)
	want := map[bytestore.Name]uint64{objects[1]: 0b10, objects[3]: 0b11}
	f.wantDamage(t, want, "that the listing shows")
	n := testenv.Must(f.Scrub(t.Context()))(t)
	testenv.Equal(t, n, 7, "extents that were checked")
	want[objects[0]] = 0b10
	f.wantDamage(t, want, "that the scrub shows")
	testenv.Equal(t, len(found), 1, "contents that were reported")

	// A Service that has learned it refuses the damaged ranges, and serves all others.
	f.Service = service()
	ctx, stop := context.WithCancel(t.Context())
	var watch sync.WaitGroup
	watch.Go(func() { f.WatchDamage(ctx, func(err error) { t.Error(err) }) })
	c := f.open(t, "large")
	for c.CheckRanges(t.Context(), []blob.Range{{Off: mib, N: 1}}) == nil {
		if t.Context().Err() != nil {
			t.Fatal("recorded damage was not learned")
		}
	}
	stop()
	watch.Wait()
	for _, r := range []struct {
		off, n  int64
		damaged bool
	}{{0, mib, false}, {0, mib + 1, true}, {2*mib - 1, 1, true}, {2 * mib, mib, false}, {3 * mib, 1, true}, {4 * mib, 2 * mib, false}, {6*mib - 1, 2, true}, {7*mib + 4, 1, true}} {
		err := c.CheckRanges(t.Context(), []blob.Range{{Off: r.off, N: r.n}})
		testenv.Equal(t, errors.Is(err, integrity.ErrCorrupt), r.damaged, "refusal of %d bytes at %d: %v", r.n, r.off, err)
		if !r.damaged {
			f.wantRead(t, "large", r.off, body[r.off:r.off+r.n], "a range that is not damaged")
		}
	}
	f.wantRead(t, "intact", 0, body[:3*mib], "another blob")

	// What was restored is no damage any more.
	testenv.OK(t, store.Delete(t.Context(), objects...))
	for i, name := range objects {
		part := body[i*2*mib : min((i+1)*2*mib, len(body))]
		testenv.OK(t, store.Put(t.Context(), name, bytes.NewReader(part), int64(len(part))))
	}
	testenv.Must(f.Scrub(t.Context()))(t)
	testenv.Equal(t, len(f.damaged(t)), 0, "damage after the objects were restored")
	testenv.OK(t, c.CheckRanges(t.Context(), []blob.Range{{N: int64(len(body))}}))
	f.wantRead(t, "large", 0, body, "the restored blob")
	state := testenv.Must(f.meta.Scrub(t.Context()))(t)
	testenv.Equal(t, state.Round, 2, "rounds")
	testenv.Equal(t, state.Running, false, "whether the round runs on")
}

// openHook calls a function before each object is opened.
func openHook(store bytestore.Store, before func(bytestore.Name) error) bytestore.OpenFunc {
	return func(ctx context.Context, name bytestore.Name, off, n int64) (io.ReadCloser, error) {
		if err := before(name); err != nil {
			return nil, err
		}
		return store.Open(ctx, name, off, n)
	}
}

// TestScrubResumes stops a round after each number of objects, and continues it in another Service:
// each object is read once, and none is skipped.
// Invariant 116.
func TestScrubResumes(t *testing.T) {
	const blobs = 6
	for stopAfter := range blobs {
		f := newFixture(t, blob.Options{InlineSize: -1})
		var all []bytestore.Name
		for i := range blobs {
			name := fmt.Sprint("name", i)
			f.put(t, name, randomBytes(uint64(i), 100))
			all = append(all, f.objectsOf(t, name)...)
		}
		slices.Sort(all)
		var opened []bytestore.Name
		ctx, stop := context.WithCancel(t.Context())
		scrub := func(ctx context.Context) error {
			s := blob.New(f.meta, f.bytes, blob.Options{OpenStored: openHook(f.bytes, func(name bytestore.Name) error {
				if len(opened) == stopAfter {
					stop()
				}
				if ctx.Err() == nil {
					opened = append(opened, name)
				}
				return ctx.Err()
			})})
			_, err := s.Scrub(ctx)
			return err
		}
		testenv.Is(t, scrub(ctx), context.Canceled, "a scrub that is stopped")
		testenv.Equal(t, testenv.Must(f.meta.Scrub(t.Context()))(t).Running, true, "whether the round goes on")
		testenv.OK(t, scrub(t.Context()))
		if !slices.Equal(opened, all) {
			t.Errorf("stopped after %d objects, and read in all %q, want %q", stopAfter, opened, all)
		}
		testenv.Equal(t, testenv.Must(f.meta.Scrub(t.Context()))(t).Round, 1, "rounds")
	}
}

// TestScrubResumesAfterAPause stops a round while it waits for the next extent to be due: the next
// run does not check the last one again.
// Invariant 116.
func TestScrubResumesAfterAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, blob.Options{})
		s := blob.New(f.meta, f.bytes, blob.Options{InlineSize: -1, ScrubPeriod: time.Hour})
		for i := range 3 {
			body := randomBytes(uint64(i), 960<<10) // which take a second each
			testenv.Must(s.Put(t.Context(), to(fmt.Sprint(i)), bytes.NewReader(body), int64(len(body))))(t)
		}
		ctx, stop := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer stop()
		first, err := s.Scrub(ctx)
		testenv.Is(t, err, context.DeadlineExceeded, "a scrub that is stopped")
		testenv.Equal(t, first, 2, "extents of the first run")
		testenv.Equal(t, testenv.Must(s.Scrub(t.Context()))(t), 1, "extents of the second run")
		testenv.Equal(t, testenv.Must(f.meta.Scrub(t.Context()))(t).Extents, 3, "extents of the round")
	})
}

// TestDeletedIsNoDamage deletes, moves and replaces blobs just before their objects are read.
// Invariant 116.
func TestDeletedIsNoDamage(t *testing.T) {
	f := newFixture(t, blob.Options{InlineSize: -1})
	names := map[bytestore.Name]string{}
	for i := range 5 {
		name := fmt.Sprint("name", i)
		f.put(t, name, randomBytes(uint64(i), 100))
		names[f.objectsOf(t, name)[0]] = name
	}
	s := blob.New(f.meta, f.bytes, blob.Options{OpenStored: openHook(f.bytes, func(object bytestore.Name) error {
		return f.Delete(t.Context(), "a", names[object], nil)
	})})
	testenv.Equal(t, testenv.Must(s.Scrub(t.Context()))(t), 5, "extents")
	testenv.Equal(t, len(f.damaged(t)), 0, "damage")
}

// TestUnreachableStoreIsNoDamage scrubs a store that cannot be reached, and one that is not the
// instance's, as a folder that is not mounted.
// Invariant 116.
func TestUnreachableStoreIsNoDamage(t *testing.T) {
	f := newFixture(t, blob.Options{InlineSize: -1})
	testenv.Must(history.Bind(t.Context(), f.meta, f.bytes))(t)
	f.put(t, "name", randomBytes(1, 100))
	for _, c := range []struct {
		open bytestore.OpenFunc
		want error
	}{
		{openHook(f.bytes, func(bytestore.Name) error { return bytestore.ErrOverloaded }), bytestore.ErrOverloaded},
		{memory.New().Open, history.ErrForeignStore},
	} {
		s := blob.New(f.meta, f.bytes, blob.Options{OpenStored: c.open})
		n, err := s.Scrub(t.Context())
		testenv.Is(t, err, c.want, "scrub")
		testenv.Equal(t, n, 0, "extents")
		testenv.Equal(t, len(f.damaged(t)), 0, "damage")
		testenv.Equal(t, testenv.Must(f.meta.Scrub(t.Context()))(t).Object, "", "position")
	}
	testenv.Equal(t, testenv.Must(f.Scrub(t.Context()))(t), 1, "extents once it is back")
}

// TestReadRecordsDamage reads a damaged blob that no scrub has found yet.
// Invariant 117.
func TestReadRecordsDamage(t *testing.T) {
	f := newFixture(t, blob.Options{})
	body := randomBytes(1, 2<<20)
	f.put(t, "name", body)
	object := f.objectsOf(t, "name")[0]
	alter(t, f.bytes, object, 2<<20, flip(1<<20))
	c := f.open(t, "name")
	testenv.OK(t, c.CheckRanges(t.Context(), []blob.Range{{N: 2 << 20}}))
	_, err := c.WriteRange(t.Context(), io.Discard, 0, 2<<20)
	testenv.Is(t, err, integrity.ErrCorrupt, "read")
	f.wantDamage(t, map[bytestore.Name]uint64{object: 0b10}, "that a read shows")
	testenv.Is(t, c.CheckRanges(t.Context(), []blob.Range{{Off: 1 << 20, N: 1}}), integrity.ErrCorrupt, "the next read")
	testenv.OK(t, c.CheckRanges(t.Context(), []blob.Range{{N: 1 << 20}}))
}

// staleCache is a store with a damaged copy, until it is invalidated.
type staleCache struct {
	bytestore.Store
	invalid bool
}

func (s *staleCache) Invalidate(bytestore.Name) { s.invalid = true }

func (s *staleCache) Open(ctx context.Context, name bytestore.Name, off, n int64) (io.ReadCloser, error) {
	r, err := s.Store.Open(ctx, name, off, n)
	if err != nil || s.invalid {
		return r, err
	}
	b, err := io.ReadAll(io.LimitReader(r, n))
	b[0] ^= 1
	return io.NopCloser(bytes.NewReader(b)), errors.Join(err, r.Close())
}

// TestDamagedCacheIsNoDamage reads a blob that is damaged in a cache alone.
// Invariant 116.
func TestDamagedCacheIsNoDamage(t *testing.T) {
	f := newFixture(t, blob.Options{})
	body := randomBytes(1, 100_000)
	f.put(t, "name", body)
	f.Service = blob.New(f.meta, &staleCache{Store: f.bytes}, blob.Options{OpenStored: f.bytes.Open})
	f.wantRead(t, "name", 0, body, "a blob with a damaged copy")
	testenv.Equal(t, len(f.damaged(t)), 0, "damage")
}

// TestScrubRuns runs the scrub in the background: it begins by itself, ends within its period, and
// begins once in each, and damage is known within a period.
// Invariant 116.
func TestScrubRuns(t *testing.T) {
	const period = 24 * time.Hour
	scrubs := 0
	service := func(f *fixture) *blob.Service {
		return blob.New(f.meta, f.bytes, blob.Options{InlineSize: -1, ScrubPeriod: period})
	}
	inRun(t, service, func(t *testing.T, f *fixture) {
		for i := range 20 {
			f.put(t, fmt.Sprint("name", i), randomBytes(uint64(i), 100))
		}
		object := f.objectsOf(t, "name7")[0]
		for round := range 3 {
			if round == 1 {
				alter(t, f.bytes, object, 100, flip(3))
			}
			time.Sleep(period)
			synctest.Wait()
			state := testenv.Must(f.meta.Scrub(t.Context()))(t)
			testenv.Equal(t, state.Round, int64(round+1), "rounds after %d periods", round+1)
			testenv.Equal(t, state.Running, false, "whether the round runs on")
			testenv.Equal(t, state.Extents, 20, "extents of the round")
			testenv.Equal(t, len(f.damaged(t)), min(round, 1), "damage after %d periods", round+1)
		}
		scrubs++
	})
	testenv.Equal(t, scrubs, 1, "runs")
}

// TestScrubKeepsItsPace measures how long a round takes: as long as most of its period if there is
// much to read, and otherwise as minScrubRate says.
// Invariant 116.
func TestScrubKeepsItsPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, blob.Options{})
		store := memory.New()
		s := blob.New(f.meta, store, blob.Options{InlineSize: -1, ScrubPeriod: 100 * time.Second})
		for i := range 5 {
			body := randomBytes(uint64(i), 960<<10) // with what an extent counts in addition 1 MiB
			testenv.Must(s.Put(t.Context(), to(fmt.Sprint(i)), bytes.NewReader(body), int64(len(body))))(t)
		}
		began := time.Now()
		testenv.Must(s.Scrub(t.Context()))(t)
		took := time.Since(began)
		if took < 4*time.Second || took > 6*time.Second {
			t.Errorf("5 MiB took %s, want 5 s", took)
		}
		slow := blob.New(f.meta, store, blob.Options{InlineSize: -1, ScrubPeriod: 2 * time.Second})
		began = time.Now()
		testenv.Must(slow.Scrub(t.Context()))(t)
		if took = time.Since(began); took < time.Second || took > 2*time.Second {
			t.Errorf("a period of 2 s took %s", took)
		}
	})
}
