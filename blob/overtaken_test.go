package blob_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"sluice/blob"
	"sluice/bytestore/memory"
	"sluice/metastore"
	"sluice/test/testenv"
)

// overtakenStore calls a function once, between the lookups of an upload and its parts.
type overtakenStore struct {
	blob.Metadata
	once sync.Once
	then func()
}

func (s *overtakenStore) Parts(ctx context.Context, id string, after, limit int) ([]metastore.Part, error) {
	s.once.Do(s.then)
	return s.Metadata.Parts(ctx, id, after, limit)
}

// TestOvertakenComplete: a complete with totals that another one, or an abort, overtakes returns
// its outcome, although the parts are gone.
// Invariant 42.
func TestOvertakenComplete(t *testing.T) {
	for name, want := range map[string]error{"complete": nil, "abort": metastore.ErrAborted} {
		f := newFixture(t, blob.Options{})
		u := f.begin(t, "n", 10)
		f.part(t, u.ID, 0, randomBytes(1, 10))
		f.part(t, u.ID, 1, randomBytes(2, 5))
		other := &overtakenStore{Metadata: f.meta, then: func() {
			var err error
			if name == "abort" {
				err = f.Abort(t.Context(), u.ID)
			} else {
				_, err = f.Complete(t.Context(), u.ID, blob.Totals{}, nil)
			}
			testenv.Check(t, err)
		}}
		size := int64(15)
		got, err := blob.New(other, memory.New(), blob.Options{}).Complete(t.Context(), u.ID, blob.Totals{Bytes: &size}, nil)
		if !errors.Is(err, want) || want == nil && (got.State != metastore.UploadCommitted || got.Size != size) {
			t.Errorf("overtaken by %s: %+v, %v; want %v", name, got, err, want)
		}
	}
}
