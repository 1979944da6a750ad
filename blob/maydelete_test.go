package blob_test

import (
	"context"
	"errors"
	"testing"

	"sluice/blob"
	"sluice/internal/testenv"
)

// TestNothingIsDeletedWithoutPermission checks that no object is deleted while MayDelete fails,
// neither of deleted blobs of one or many extents nor orphans, and that all are deleted later.
func TestNothingIsDeletedWithoutPermission(t *testing.T) {
	ctx := context.Background()
	errFenced := errors.New("fenced")
	refusal := errFenced
	f := newFixture(t, blob.Options{InlineSize: -1, ExtentSize: 1 << 20, MayDelete: func(context.Context) error { return refusal }})
	f.put(t, "small", []byte("x"))
	f.put(t, "large", randomBytes(1, 20<<20))
	f.orphan(t)
	before := f.objects(t)
	f.clock.Advance(blob.OrphanAge)
	for _, name := range []string{"small", "large"} {
		testenv.OK(t, f.Delete(ctx, "a", name, nil))
	}
	if err := f.FreeGarbage(ctx); !errors.Is(err, errFenced) {
		t.Errorf("free garbage: %v, want %v", err, errFenced)
	}
	if found, err := f.SweepOrphans(ctx); !errors.Is(err, errFenced) || found.Deleted != 0 {
		t.Errorf("sweep: %+v, %v, want %v", found, err, errFenced)
	}
	if n := f.objects(t); n != before {
		t.Fatalf("%d of %d objects are left", n, before)
	}
	refusal = nil
	if err := f.FreeGarbage(ctx); err != nil {
		t.Error(err)
	}
	if _, err := f.SweepOrphans(ctx); err != nil {
		t.Error(err)
	}
	if n := f.objects(t); n != 0 {
		t.Errorf("%d objects are left once deletions are allowed", n)
	}
}
