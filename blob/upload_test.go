package blob_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"strings"
	"sync"
	"testing"

	"sluice/blob"
	"sluice/bytestore"
	"sluice/database"
	"sluice/metastore"
	"sluice/test/testenv"
)

func (f *fixture) begin(t testing.TB, name string, partSize int64) metastore.Upload {
	t.Helper()
	u, err := f.Begin(context.Background(), blob.BeginOptions{Account: "a", Name: name, PartSize: partSize})
	testenv.OK(t, err)
	return u
}

func (f *fixture) part(t testing.TB, id string, index int, body []byte) metastore.Part {
	t.Helper()
	return testenv.Must(f.PutPart(context.Background(), blob.PartOptions{UploadID: id, Index: index}, bytes.NewReader(body), int64(len(body))))(t)
}

// Invariant 9.
func TestPartRefusals(t *testing.T) {
	ctx := context.Background()
	f := newFixture(t, blob.Options{})
	u := f.begin(t, "n", 1<<20)
	large := f.begin(t, "large", blob.MaxPartSize)
	aborted := f.begin(t, "aborted", 10)
	testenv.OK(t, f.Abort(ctx, aborted.ID))
	committed := f.begin(t, "committed", 10)
	testenv.Must(f.Complete(ctx, committed.ID, blob.Totals{}, nil))(t)
	other := sha256.Sum256([]byte("other"))
	cases := []struct {
		name   string
		id     string
		index  int
		digest []byte
		body   string
		size   int64
		want   error
	}{
		{"unknown upload", "nonsense", 0, nil, "x", 1, database.ErrNotFound},
		{"aborted", aborted.ID, 0, nil, "x", 1, metastore.ErrAborted},
		{"committed", committed.ID, 0, nil, "x", 1, metastore.ErrCommitted},
		{"negative index", u.ID, -1, nil, "x", 1, blob.ErrPartIndex},
		{"huge index", u.ID, blob.MaxParts, nil, "x", 1, blob.ErrPartIndex},
		{"empty", u.ID, 0, nil, "", 0, blob.ErrPartSize},
		{"empty of unknown size", u.ID, 0, nil, "", bytestore.UnknownSize, blob.ErrPartSize},
		{"declared too long", u.ID, 0, nil, "x", 1<<20 + 1, blob.ErrPartSize},
		{"too long of unknown size", u.ID, 0, nil, strings.Repeat("x", 1<<20+1), bytestore.UnknownSize, blob.ErrPartSize},
		{"short", u.ID, 0, nil, "x", 2, blob.ErrIncompleteBody},
		{"wrong digest", u.ID, 0, other[:], "x", 1, blob.ErrDigestMismatch},
		{"beyond 5 TiB", large.ID, 1 << 10, nil, "x", 1, blob.ErrTooLarge},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			part := blob.PartOptions{UploadID: c.id, Index: c.index, SHA256: c.digest}
			testenv.Is(t, testenv.Error(f.PutPart(ctx, part, strings.NewReader(c.body), c.size)), c.want, "PutPart")
			f.wantObjects(t, 0, "that stay behind")
		})
	}
}

// TestReSentPartRacesWithComplete checks that a part that arrives again during Complete is either
// in the blob or rejected.
// Invariant 6.
func TestReSentPartRacesWithComplete(t *testing.T) {
	ctx := context.Background()
	f := newFixture(t, blob.Options{InlineSize: -1})
	for range 50 {
		u := f.begin(t, "n", 4)
		f.part(t, u.ID, 0, []byte("aaaa"))
		var (
			workers sync.WaitGroup
			resent  error
		)
		workers.Go(func() {
			_, resent = f.PutPart(ctx, blob.PartOptions{UploadID: u.ID, Index: 0}, strings.NewReader("bbbb"), 4)
		})
		_, err := f.Complete(ctx, u.ID, blob.Totals{}, nil)
		workers.Wait()
		testenv.OK(t, err)
		testenv.OK(t, f.FreeGarbage(ctx))
		want := "aaaa"
		if resent == nil {
			want = "bbbb"
		} else if !errors.Is(resent, metastore.ErrCommitted) {
			t.Fatal(resent)
		}
		f.wantRead(t, "n", 0, []byte(want), "after a part that was sent again")
	}
}
