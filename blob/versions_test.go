package blob_test

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"sluice/blob"
	"sluice/metastore"
	"sluice/test/testenv"
)

// asked counts the questions to a store about an account's versions.
type asked struct {
	blob.Metadata
	n atomic.Int64
}

func (a *asked) Keeping(ctx context.Context, account string) (metastore.Keeping, error) {
	a.n.Add(1)
	return a.Metadata.Keeping(ctx, account)
}

func (a *asked) ListVersions(ctx context.Context, q metastore.VersionQuery) (metastore.VersionPage, error) {
	a.n.Add(1)
	return a.Metadata.ListVersions(ctx, q)
}

// TestMarksOfDeletedBlobs looks for marks: for accounts that keep no versions the store is asked
// once in a while, and a changed setting has an effect.
func TestMarksOfDeletedBlobs(t *testing.T) {
	f := newFixture(t, blob.Options{})
	meta := &asked{Metadata: f.meta}
	f.Service = blob.New(meta, f.bytes, blob.Options{})
	marked := func(name string) bool {
		t.Helper()
		return testenv.Must(f.Deleted(t.Context(), blob.Place("a", name)))(t).Mark
	}
	for i := range 100 {
		testenv.Equal(t, marked("n"), false, "a mark without versions")
		testenv.Equal(t, meta.n.Load(), 1, "questions after %d reads", i+1)
	}
	f.clock.Advance(time.Minute)
	testenv.Equal(t, marked("n"), false, "a mark without versions, later")
	testenv.Equal(t, meta.n.Load(), 2, "questions after a minute")
	f.keep(t)
	for _, name := range []string{"n", "n/"} { // also a folder's
		at := blob.Place("a", name)
		testenv.Must(f.Put(t.Context(), blob.PutOptions{Account: at.Account, Name: at.Name}, http.NoBody, 0))(t)
		testenv.Equal(t, marked(name), false, "a mark before %q was deleted", name)
		removed := testenv.Must(f.RemoveBlob(t.Context(), metastore.Removal{BlobName: at}))(t)
		mark := testenv.Must(f.Deleted(t.Context(), at))(t)
		testenv.Equal(t, metastore.VersionOf(&mark), metastore.VersionOf(&removed.Mark), "the mark of %q", name)
		testenv.Equal(t, marked(name+"x"), false, "a mark of another name")
	}
}
