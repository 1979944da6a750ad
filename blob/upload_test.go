package blob_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"sluice/blob"
	"sluice/bytestore"
	"sluice/checksum"
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

func TestPartsInAnyOrderInParallelAndAgain(t *testing.T) {
	ctx := context.Background()
	f := newFixture(t, blob.Options{})
	const partSize, parts = 3 << 20, 7 // each part has two extents
	body := randomBytes(5, partSize*(parts-1)+99)
	u := f.begin(t, "n", partSize)
	order := append(rand.Perm(parts), rand.Perm(parts)...)
	var workers sync.WaitGroup
	for _, i := range order {
		workers.Go(func() {
			f.part(t, u.ID, i, body[i*partSize:min((i+1)*partSize, len(body))])
		})
	}
	workers.Wait()
	testenv.Must(f.Complete(ctx, u.ID, blob.Totals{}, nil))(t)
	f.wantRead(t, "n", 0, body, "the whole blob")
	f.wantRead(t, "n", partSize-5, body[partSize-5:2*partSize+5], "a range over three parts")
	testenv.OK(t, f.FreeGarbage(ctx))
	f.wantObjects(t, 2*(parts-1), "once re-sent parts are freed") // the short last part is inline
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

func TestCompleteRefusalsLeaveTheUploadOpen(t *testing.T) {
	ctx := context.Background()
	f := newFixture(t, blob.Options{})
	f.put(t, "taken", []byte("x"))
	refuse := errors.New("refused")
	five, badTag := int64(5), `"5-0000000000000000"`
	cases := []struct {
		name         string
		blob         string
		parts        map[int]string
		want         blob.Totals
		precondition metastore.Precondition
		err          error
	}{
		{"gap at the start", "n", map[int]string{1: "abcd"}, blob.Totals{}, nil, blob.ErrPartsMissing},
		{"gap in the middle", "n", map[int]string{0: "abcd", 2: "a"}, blob.Totals{}, nil, blob.ErrPartsMissing},
		{"short in the middle", "n", map[int]string{0: "abc", 1: "abcd"}, blob.Totals{}, nil, blob.ErrPartSize},
		{"total", "n", map[int]string{0: "abcd"}, blob.Totals{Bytes: &five}, nil, blob.ErrTotals},
		{"etag", "n", map[int]string{0: "abcd", 1: "e"}, blob.Totals{ETag: &badTag}, nil, blob.ErrTotals},
		{"precondition", "n", map[int]string{0: "abcd"}, blob.Totals{}, func(*metastore.Blob) error { return refuse }, refuse},
		{"create only", "taken", map[int]string{0: "abcd"}, blob.Totals{}, nil, blob.ErrExists},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			u, err := f.Begin(ctx, blob.BeginOptions{Account: "a", Name: c.blob, PartSize: 4, CreateOnly: true})
			testenv.OK(t, err)
			for i, body := range c.parts {
				f.part(t, u.ID, i, []byte(body))
			}
			testenv.Is(t, testenv.Error(f.Complete(ctx, u.ID, c.want, c.precondition)), c.err, "Complete")
			after, parts, err := f.Upload(ctx, u.ID, -1, 10)
			if err != nil || after.State != metastore.UploadOpen || len(parts) != len(c.parts) {
				t.Fatalf("the upload is %v with %d parts, %v", after.State, len(parts), err)
			}
		})
	}
}

// Invariant 6.
func TestRepeatedCompleteReturnsTheRecordedOutcome(t *testing.T) {
	ctx := context.Background()
	f := newFixture(t, blob.Options{})
	u := f.begin(t, "n", 4)
	f.part(t, u.ID, 0, []byte("abcd"))
	f.part(t, u.ID, 1, []byte("e"))
	size, tag := int64(5), ""
	first := testenv.Must(f.Complete(ctx, u.ID, blob.Totals{Bytes: &size}, nil))(t)
	tag = checksum.ETag(first.Size, first.CRC64)
	for _, change := range []func() error{
		func() error { return nil },
		func() error { f.put(t, "n", []byte("other")); return nil },
		func() error { return f.Delete(ctx, "a", "n", nil) },
	} {
		testenv.OK(t, change())
		again, err := f.Complete(ctx, u.ID, blob.Totals{}, func(*metastore.Blob) error { return errors.New("asked") })
		if err != nil || checksum.ETag(again.Size, again.CRC64) != tag || !again.Modified.Equal(first.Modified) {
			t.Fatalf("repeated: %+v, %v", again, err)
		}
	}
	testenv.Is(t, f.Abort(ctx, u.ID), metastore.ErrCommitted, "abort after commit")
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
