package blob_test

import (
	"context"
	"errors"
	"testing"

	"sluice/blob"
	"sluice/test/testenv"
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
	testenv.Is(t, f.FreeGarbage(ctx), errFenced, "free garbage")
	if found, err := f.SweepOrphans(ctx); !errors.Is(err, errFenced) || found.Deleted != 0 {
		t.Errorf("sweep: %+v, %v, want %v", found, err, errFenced)
	}
	f.wantObjects(t, before, "before deletions are allowed")
	refusal = nil
	testenv.Check(t, f.FreeGarbage(ctx))
	testenv.Check(t, testenv.Error(f.SweepOrphans(ctx)))
	f.wantObjects(t, 0, "once deletions are allowed")
}
