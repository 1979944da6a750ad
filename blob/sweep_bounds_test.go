package blob_test

import (
	"context"
	"errors"
	"testing"

	"sluice/blob"
	"sluice/bytestore"
	"sluice/bytestore/memory"
	"sluice/test/testenv"
)

var errResponse = errors.New("no response")

// changedResults is a metadata store with results that the test changes.
type changedResults struct {
	blob.Metadata
	calls        int // of either function
	unreferenced func(call int, found []string) ([]string, error)
	purge        func(call int) (int, error)
}

func (s *changedResults) Unreferenced(ctx context.Context, names []string) ([]string, error) {
	found, err := s.Metadata.Unreferenced(ctx, names)
	if err != nil {
		return nil, err
	}
	s.calls++
	return s.unreferenced(s.calls, found)
}

func (s *changedResults) Purge(context.Context, int) (int, error) {
	s.calls++
	return s.purge(s.calls)
}

// sweptOrphans returns a fixture with old orphans, and a Service over a store that returns the
// given results.
func sweptOrphans(t *testing.T, orphans int, unreferenced func(call int, found []string) ([]string, error)) (*fixture, *blob.Service) {
	t.Helper()
	f := newFixture(t, blob.Options{})
	for range orphans {
		f.orphan(t)
	}
	f.clock.Advance(2 * blob.OrphanAge)
	return f, blob.New(&changedResults{Metadata: f.meta, unreferenced: unreferenced}, f.bytes, blob.Options{})
}

// TestSweepStopsInTheSecondPass checks that a sweep deletes no more objects than it counted, stops
// if it finds many more, and deletes nothing if it could not count them.
// Invariant 130.
func TestSweepStopsInTheSecondPass(t *testing.T) {
	const objects, fails = 1_500, -1
	for name, c := range map[string]struct {
		found   []int // orphans in each page: two in each pass
		deleted int
		err     error
	}{
		"a few more":  {[]int{2, 2, 3, 3}, 4, nil},
		"many more":   {[]int{2, 2, 1_000, 500}, 4, blob.ErrLargeSweep},
		"not counted": {[]int{2, fails}, 0, errResponse},
	} {
		f, s := sweptOrphans(t, objects, func(call int, found []string) ([]string, error) {
			if n := c.found[call-1]; n != fails {
				return found[:n], nil
			}
			return nil, errResponse
		})
		swept, err := s.SweepOrphans(t.Context())
		testenv.Is(t, err, c.err, "%s", name)
		testenv.Equal(t, swept.Deleted, c.deleted, "%s: deleted orphans", name)
		f.wantObjects(t, objects-c.deleted, "that are left: %s", name)
	}
}

// brokenList is a byte store that fails at the end of List.
type brokenList struct{ *memory.Store }

func (s brokenList) List(ctx context.Context, after bytestore.Name, fn func(bytestore.Object) error) error {
	return errors.Join(s.Store.List(ctx, after, fn), errResponse)
}

// TestSweepThatCannotListDeletesNothing checks that a sweep ends with a listing's error.
func TestSweepThatCannotListDeletesNothing(t *testing.T) {
	f := newFixture(t, blob.Options{})
	f.orphan(t)
	f.clock.Advance(2 * blob.OrphanAge)
	s := blob.New(f.meta, brokenList{f.bytes}, blob.Options{})
	if found, err := s.SweepOrphans(t.Context()); !errors.Is(err, errResponse) || f.objects(t) != 1 {
		t.Errorf("%+v, %v, %d objects are left", found, err, f.objects(t))
	}
}

// TestPurgeEndsWhenNothingIsLeft checks that Purge continues after each batch, until one is empty
// or fails.
func TestPurgeEndsWhenNothingIsLeft(t *testing.T) {
	for _, end := range []error{nil, errResponse} {
		f := newFixture(t, blob.Options{})
		store := &changedResults{Metadata: f.meta, purge: func(call int) (int, error) {
			if call < 3 {
				return 500, nil
			}
			return 0, end
		}}
		if err := blob.New(store, f.bytes, blob.Options{}).Purge(t.Context()); !errors.Is(err, end) || store.calls != 3 {
			t.Errorf("%d batches, %v, want 3 and %v", store.calls, err, end)
		}
	}
}
