package blob_test

import (
	"context"
	"errors"
	"testing"

	"sluice/blob"
	"sluice/bytestore"
	"sluice/bytestore/memory"
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

// TestSweepDeletesNoMoreThanItCounted checks the sum over several pages in the second pass.
func TestSweepDeletesNoMoreThanItCounted(t *testing.T) {
	f, s := sweptOrphans(t, 1_500, func(call int, found []string) ([]string, error) {
		if call <= 2 { // the first pass
			return found[:2], nil
		}
		return found[:3], nil
	})
	found, err := s.SweepOrphans(t.Context())
	if err != nil || found.Orphans != 4 || found.Deleted != 4 || f.objects(t) != 1_496 {
		t.Errorf("%+v, %v, %d objects are left", found, err, f.objects(t))
	}
}

// TestSweepThatCannotCountDeletesNothing checks that a sweep ends with the error of its first pass.
func TestSweepThatCannotCountDeletesNothing(t *testing.T) {
	f, s := sweptOrphans(t, 1_500, func(call int, found []string) ([]string, error) {
		if call == 2 {
			return nil, errResponse
		}
		return found[:2], nil
	})
	if found, err := s.SweepOrphans(t.Context()); !errors.Is(err, errResponse) || f.objects(t) != 1_500 {
		t.Errorf("%+v, %v, %d objects are left", found, err, f.objects(t))
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
