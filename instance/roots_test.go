package instance

import (
	"bytes"
	"testing"

	"sluice/blob"
	"sluice/metastore"
	"sluice/storage"
	"sluice/test/testenv"
)

// TestRestoreKeepsRoots restores a backup whole and in part: blobs have their roots and trees, and
// none is to be computed again.
// Invariant 242.
func TestRestoreKeepsRoots(t *testing.T) {
	t.Parallel()
	data := newSource(t)
	s := testenv.Must(storage.Open(t.Context(), storage.Location{Data: data}, storage.Options{}))(t)
	blobs := blob.New(s.Meta, s.Bytes, blob.Options{})
	large := make([]byte, 3<<20)
	copy(large, "large")
	testenv.Must(blobs.Put(t.Context(), blob.PutOptions{Account: "a", Name: "tiny-large"}, bytes.NewReader(large), int64(len(large))))(t)
	putSmall(t, blobs, "tiny", 3)
	testenv.Must(blobs.ComputeRoots(t.Context()))(t)
	want := rootsOf(t, s)
	testenv.OK(t, s.Close())
	repo := newRepository()
	backedUp(t, data, repo)
	for _, opt := range []RestoreOptions{{}, {Account: "a", Prefix: "tiny"}} {
		to, _ := restored(t, repo, opt)
		got := rootsOf(t, to)
		for name, root := range got {
			if len(want[name]) != 32 || !bytes.Equal(root, want[name]) {
				t.Errorf("%s has the root %x after a restore of %q, want %x", name, root, opt.Prefix, want[name])
			}
		}
		if opt.Prefix == "" && len(got) != len(want) || len(got) < 4 {
			t.Errorf("%d blobs were restored", len(got))
		}
		b := testenv.Must(to.Meta.Blob(t.Context(), "a", "tiny-large"))(t)
		testenv.Equal(t, string(b.Tree), string(metastore.TreeInRows), "tree")
		row := testenv.Must(to.Meta.TreeRow(t.Context(), b.Content, 0, 0))(t)
		testenv.Equal(t, len(row), 512, "bytes in a row")
		testenv.Equal(t, testenv.Must(blob.New(to.Meta, to.Bytes, blob.Options{}).ComputeRoots(t.Context()))(t), 0, "roots that were computed")
	}
}

// rootsOf returns the roots of all blobs in account a.
func rootsOf(t *testing.T, s *storage.Stores) map[string][]byte {
	t.Helper()
	page := testenv.Must(s.Meta.ListBlobs(t.Context(), metastore.ListQuery{Account: "a", Limit: 1000, Roots: true}))(t)
	roots := map[string][]byte{}
	for _, b := range page.Blobs {
		if b.Size > 0 {
			roots[b.Name] = b.Root
		}
	}
	return roots
}
