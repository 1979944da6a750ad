package blob_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/blob"
	"sluice/bytestore"
	"sluice/checksum"
	"sluice/database"
	"sluice/integrity"
	"sluice/metastore"
	"sluice/test/testenv"
)

func (f *fixture) beginUneven(t testing.TB, name string) metastore.Upload {
	t.Helper()
	u := testenv.Must(f.Begin(context.Background(), blob.BeginOptions{Account: "a", Name: name, Uneven: true}))(t)
	testenv.Equal(t, u.PartSize, 0, "the upload's part size")
	return u
}

func nameOf(p metastore.Part) blob.NamedPart {
	return blob.NamedPart{Index: p.Index, ETag: checksum.ETag(p.Size, p.CRC64)}
}

// completeNamed completes an upload with these parts.
func (f *fixture) completeNamed(t testing.TB, id string, parts ...metastore.Part) metastore.Upload {
	t.Helper()
	var named blob.Named
	for _, p := range parts {
		named.Parts = append(named.Parts, nameOf(p))
	}
	return testenv.Must(f.CompleteNamed(context.Background(), id, named, nil))(t)
}

// TestUnevenParts stores parts of random sizes with gaps, some of them twice, names some, and reads
// the blob whole and in ranges, also after its copy has become the only blob with the content.
func TestUnevenParts(t *testing.T) {
	ctx := context.Background()
	for seed := range uint64(4) {
		rng := rand.New(rand.NewPCG(seed, 1))
		f := newFixture(t, blob.Options{ExtentSize: 1 << 20, InlineSize: 1000})
		u := f.beginUneven(t, "n")
		bodies, parts := map[int][]byte{}, map[int]metastore.Part{}
		var indexes []int
		for i := range 9 {
			indexes = append(indexes, 3*i+rng.IntN(3))
		}
		for _, index := range slices.Concat(indexes, indexes[:3]) {
			bodies[index] = randomBytes(rng.Uint64(), 1+rng.IntN([]int{900, 9_000, 3 << 20}[rng.IntN(3)]))
			parts[index] = f.part(t, u.ID, index, bodies[index])
		}
		var chosen []metastore.Part
		var want []byte
		var ranges []metastore.PartRange
		for _, index := range indexes {
			if rng.IntN(3) > 0 {
				chosen = append(chosen, parts[index])
				ranges = append(ranges, metastore.PartRange{Index: index, Start: int64(len(want)), Size: int64(len(bodies[index]))})
				want = append(want, bodies[index]...)
			}
		}
		done := f.completeNamed(t, u.ID, chosen...)
		if done.Size != int64(len(want)) || done.CRC64 != checksum.Update(0, want) {
			t.Errorf("the outcome is %+v", done)
		}
		c := f.open(t, "n")
		testenv.Equal(t, c.PartSize, metastore.UnevenParts, "the blob's part size")
		list, total, err := f.PartRanges(ctx, c.Blob, -1, 100)
		if err != nil || total != len(ranges) || !slices.Equal(list, ranges) {
			t.Errorf("%d parts %+v, %v; want %+v", total, list, err, ranges)
		}
		check := func(name string) {
			t.Helper()
			f.wantRead(t, name, 0, want, "the whole blob")
			for _, r := range ranges {
				f.wantRead(t, name, r.Start, want[r.Start:r.Start+r.Size], "part %d", r.Index)
				from := max(0, r.Start-1)
				f.wantRead(t, name, from, want[from:min(int64(len(want)), from+2)], "bytes around the beginning of part %d", r.Index)
			}
			for range 20 {
				from := rng.IntN(len(want))
				to := from + 1 + rng.IntN(len(want)-from)
				f.wantRead(t, name, int64(from), want[from:to], "bytes %d to %d", from, to)
			}
		}
		check("n")
		f.copy(t, "n", "copy")
		c.Close()
		f.remove(t, "n")
		testenv.OK(t, f.FreeGarbage(ctx))
		check("copy")
		f.remove(t, "copy")
		testenv.OK(t, f.FreeGarbage(ctx))
		f.wantObjects(t, 0, "after the last blob was deleted")
		f.wantNoGarbage(t, "at the end")
	}
}

// TestEvenPartsOfAnUnevenUpload: a blob has an ordinary part size if its parts could have.
func TestEvenPartsOfAnUnevenUpload(t *testing.T) {
	ctx := context.Background()
	f := newFixture(t, blob.Options{InlineSize: -1})
	u := f.beginUneven(t, "n")
	one, two, three := f.part(t, u.ID, 0, []byte("aaaa")), f.part(t, u.ID, 1, []byte("bbbb")), f.part(t, u.ID, 2, []byte("c"))
	f.part(t, u.ID, 3, []byte("not named"))
	f.completeNamed(t, u.ID, one, two, three)
	c := f.open(t, "n")
	testenv.Equal(t, c.PartSize, 4, "the blob's part size")
	f.wantRead(t, "n", 0, []byte("aaaabbbbc"), "the blob")
	testenv.OK(t, f.FreeGarbage(ctx))
	f.wantObjects(t, 3, "after what was not named is freed")
}

// TestPartRanges asks blobs of even parts, uneven parts and no parts for them.
func TestPartRanges(t *testing.T) {
	ctx := context.Background()
	f := newFixture(t, blob.Options{})
	f.put(t, "put", []byte("abcdef"))
	f.put(t, "empty", nil)
	even := f.begin(t, "even", 4)
	for i, body := range []string{"abcd", "efgh", "i"} {
		f.part(t, even.ID, i, []byte(body))
	}
	testenv.Must(f.Complete(ctx, even.ID, blob.Totals{}, nil))(t)
	full := f.begin(t, "full", 4)
	f.part(t, full.ID, 0, []byte("abcd"))
	testenv.Must(f.Complete(ctx, full.ID, blob.Totals{}, nil))(t)
	uneven := f.beginUneven(t, "uneven")
	f.completeNamed(t, uneven.ID, f.part(t, uneven.ID, 2, []byte("ab")), f.part(t, uneven.ID, 4, []byte("cde")), f.part(t, uneven.ID, 9, []byte("f")))
	for name, want := range map[string][]metastore.PartRange{
		"put": {{Size: 6}}, "empty": {{}}, "full": {{Size: 4}}, "even": {{Size: 4}, {Index: 1, Start: 4, Size: 4}, {Index: 2, Start: 8, Size: 1}},
		"uneven": {{Index: 2, Size: 2}, {Index: 4, Start: 2, Size: 3}, {Index: 9, Start: 5, Size: 1}},
	} {
		b := f.open(t, name).Blob
		for after := -3; after < 11; after++ {
			for limit := 1; limit < 5; limit++ {
				var page []metastore.PartRange
				for _, r := range want {
					if r.Index > after && len(page) < limit {
						page = append(page, r)
					}
				}
				got, total, err := f.PartRanges(ctx, b, after, limit)
				if err != nil || total != len(want) || !slices.Equal(got, page) {
					t.Errorf("%s: %d parts after %d: %+v of %d, %v; want %+v", name, limit, after, got, total, err, page)
				}
			}
			i := slices.IndexFunc(want, func(r metastore.PartRange) bool { return r.Index == after })
			got, total, err := f.PartRange(ctx, b, after)
			switch {
			case i < 0:
				testenv.Is(t, err, blob.ErrPartIndex, "part %d of %s", after, name)
			case err != nil || got != want[i] || total != len(want):
				t.Errorf("%s: part %d is %+v of %d, %v; want %+v", name, after, got, total, err, want[i])
			}
		}
	}
}

// TestUnevenBeginsAndParts checks what Begin and PutPart refuse of uneven parts.
func TestUnevenBeginsAndParts(t *testing.T) {
	ctx := context.Background()
	f := newFixture(t, blob.Options{})
	for _, b := range []blob.BeginOptions{{PartSize: 5, Uneven: true}, {}, {PartSize: -1}, {PartSize: blob.MaxPartSize + 1}} {
		b.Account, b.Name = "a", "n"
		testenv.Is(t, testenv.Error(f.Begin(ctx, b)), blob.ErrPartSize, "an upload with the part size %d, uneven %v", b.PartSize, b.Uneven)
	}
	u := f.beginUneven(t, "n")
	part := f.part(t, u.ID, metastore.MaxUnevenParts-1, []byte("last"))
	if part.Index != metastore.MaxUnevenParts-1 || part.Size != 4 || part.CRC64 != checksum.Update(0, []byte("last")) {
		t.Errorf("the part is %+v", part)
	}
	for _, c := range []struct {
		index int
		size  int64
		want  error
	}{
		{-1, 1, blob.ErrPartIndex}, {metastore.MaxUnevenParts, 1, blob.ErrPartIndex}, {0, blob.MaxPartSize + 1, blob.ErrPartSize},
	} {
		_, err := f.PutPart(ctx, blob.PartOptions{UploadID: u.ID, Index: c.index}, strings.NewReader("x"), c.size)
		testenv.Is(t, err, c.want, "part %d of %d bytes", c.index, c.size)
	}
	_, err := f.PutPart(ctx, blob.PartOptions{UploadID: u.ID}, strings.NewReader(""), bytestore.UnknownSize)
	testenv.OK(t, err) // S3's clients send an empty object of unknown size so
	_, parts, err := f.Upload(ctx, u.ID, -1, 10)
	if err != nil || len(parts) != 2 || parts[0].Size != 0 || !parts[1].Stored.Equal(f.clock.Now()) {
		t.Errorf("the parts are %+v, %v", parts, err)
	}
}

// manyBytes is a metadata store in which each upload has parts of these bytes.
type manyBytes struct {
	blob.Metadata
	parts []metastore.Part
}

func (m manyBytes) Upload(ctx context.Context, id string) (metastore.Upload, error) {
	u, err := m.Metadata.Upload(ctx, id)
	for _, p := range m.parts {
		u.Bytes += p.Size
	}
	return u, err
}

func (m manyBytes) Parts(_ context.Context, _ string, after, _ int) ([]metastore.Part, error) {
	return slices.DeleteFunc(slices.Clone(m.parts), func(p metastore.Part) bool { return p.Index <= after }), nil
}

// TestUnevenPartsBeyondTheLargestBlob: an upload takes parts up to one more than a blob can have,
// so that any can be sent again, and no larger blob is made.
func TestUnevenPartsBeyondTheLargestBlob(t *testing.T) {
	ctx := context.Background()
	f := newFixture(t, blob.Options{})
	u := f.beginUneven(t, "n")
	var full []metastore.Part
	for i := range blob.MaxSize / blob.MaxPartSize {
		full = append(full, metastore.Part{Index: i, Size: blob.MaxPartSize})
	}
	put := func(parts []metastore.Part, size int64) error {
		s := blob.New(manyBytes{f.meta, parts}, f.bytes, blob.Options{})
		_, err := s.PutPart(ctx, blob.PartOptions{UploadID: u.ID, Index: 1}, strings.NewReader("x"), size)
		return err
	}
	testenv.Is(t, put(full, blob.MaxPartSize), blob.ErrIncompleteBody, "the largest part, sent again")
	testenv.OK(t, put(full, 1))
	more := append(full, metastore.Part{Index: len(full), Size: blob.MaxPartSize})
	testenv.Is(t, put(more, 1), blob.ErrTooLarge, "a part beyond the largest blob")
	s := blob.New(manyBytes{f.meta, more}, f.bytes, blob.Options{})
	var named blob.Named
	for _, p := range more {
		named.Parts = append(named.Parts, nameOf(p))
	}
	testenv.Is(t, testenv.Error(s.CompleteNamed(ctx, u.ID, named, nil)), blob.ErrTooLarge, "a completion with all named parts")
	testenv.Is(t, testenv.Error(s.Complete(ctx, u.ID, blob.Totals{}, nil)), blob.ErrTooLarge, "a completion with all parts")
}

// TestCompleteNamedRefusals checks that each refusal leaves the upload as it was.
func TestCompleteNamedRefusals(t *testing.T) {
	ctx := context.Background()
	f := newFixture(t, blob.Options{})
	u := f.beginUneven(t, "n")
	one, two, three := f.part(t, u.ID, 1, []byte("a")), f.part(t, u.ID, 2, []byte("bb")), f.part(t, u.ID, 3, []byte("c"))
	replaced := two
	two = f.part(t, u.ID, 2, []byte("BB"))
	refuse := errors.New("refused")
	name := func(parts ...metastore.Part) (list []blob.NamedPart) {
		for _, p := range parts {
			list = append(list, nameOf(p))
		}
		return list
	}
	for what, c := range map[string]struct {
		named        blob.Named
		precondition metastore.Precondition
		want         error
		part         int // 0: the error names none
	}{
		"none":            {want: blob.ErrNoParts},
		"descending":      {named: blob.Named{Parts: name(two, one)}, want: blob.ErrPartOrder, part: 1},
		"twice":           {named: blob.Named{Parts: name(one, one)}, want: blob.ErrPartOrder, part: 1},
		"unknown first":   {named: blob.Named{Parts: name(metastore.Part{Size: 1}, one)}, want: blob.ErrPartUnknown},
		"unknown last":    {named: blob.Named{Parts: name(one, metastore.Part{Index: 7})}, want: blob.ErrPartUnknown, part: 7},
		"negative":        {named: blob.Named{Parts: name(metastore.Part{Index: -1}, one)}, want: blob.ErrPartUnknown, part: -1},
		"replaced":        {named: blob.Named{Parts: name(one, replaced)}, want: blob.ErrPartUnknown, part: 2},
		"another size":    {named: blob.Named{Parts: name(metastore.Part{Index: 1, Size: 2, CRC64: one.CRC64})}, want: blob.ErrPartUnknown, part: 1},
		"no ETag":         {named: blob.Named{Parts: []blob.NamedPart{{Index: 1}}}, want: blob.ErrPartUnknown, part: 1},
		"an ETag of S3":   {named: blob.Named{Parts: []blob.NamedPart{{Index: 1, ETag: `"0cc175b9c0f1b6a831c399e269772661"`}}}, want: blob.ErrPartUnknown, part: 1},
		"too small":       {named: blob.Named{Parts: name(one, two, three), MinSize: 2}, want: blob.ErrPartTooSmall, part: 1},
		"a precondition":  {named: blob.Named{Parts: name(one)}, precondition: func(*metastore.Blob) error { return refuse }, want: refuse},
		"small, unknown":  {named: blob.Named{Parts: name(one, metastore.Part{Index: 7}), MinSize: 2}, want: blob.ErrPartTooSmall, part: 1},
		"beyond the last": {named: blob.Named{Parts: name(metastore.Part{Index: blob.MaxParts})}, want: blob.ErrPartUnknown, part: blob.MaxParts},
	} {
		_, err := f.CompleteNamed(ctx, u.ID, c.named, c.precondition)
		testenv.Is(t, err, c.want, "completion with parts that are refused (%s)", what)
		var part *blob.PartError
		if errors.As(err, &part) && part.Index != c.part {
			t.Errorf("%s: the error is about part %d, want %d", what, part.Index, c.part)
		}
		if after := testenv.Must(f.FindUpload(ctx, u.ID))(t); after.State != metastore.UploadOpen || after.Parts != 3 {
			t.Errorf("%s: the upload is %+v", what, after)
		}
	}
	even := f.begin(t, "even", 4)
	_, err := f.CompleteNamed(ctx, even.ID, blob.Named{Parts: name(f.part(t, even.ID, 0, []byte("abcd")))}, nil)
	testenv.Is(t, err, database.ErrNotFound, "completion with named parts, of an upload with a part size")
	// The last part may be small, and ETags need no quotes.
	named := blob.Named{Parts: name(two, three), MinSize: 2}
	named.Parts[0].ETag = strings.Trim(named.Parts[0].ETag, `"`)
	done := testenv.Must(f.CompleteNamed(ctx, u.ID, named, nil))(t)
	f.wantRead(t, "n", 0, []byte("BBc"), "the blob")
	again, err := f.CompleteNamed(ctx, u.ID, blob.Named{}, func(*metastore.Blob) error { return refuse })
	if err != nil || again.CRC64 != done.CRC64 || again.Size != 3 || !again.Modified.Equal(done.Modified) {
		t.Errorf("repeated: %+v, %v", again, err)
	}
	testenv.Is(t, testenv.Error(f.CompleteNamed(ctx, "unknown", named, nil)), database.ErrNotFound, "completion of an unknown upload")
	aborted := f.beginUneven(t, "aborted")
	testenv.OK(t, f.Abort(ctx, aborted.ID))
	testenv.Is(t, testenv.Error(f.CompleteNamed(ctx, aborted.ID, blob.Named{}, nil)), metastore.ErrAborted, "completion of an aborted upload")
}

// TestCompleteTakesAllUnevenParts completes an upload of uneven parts without naming them.
func TestCompleteTakesAllUnevenParts(t *testing.T) {
	ctx := context.Background()
	f := newFixture(t, blob.Options{})
	u := f.beginUneven(t, "n")
	testenv.Is(t, testenv.Error(f.Complete(ctx, u.ID, blob.Totals{}, nil)), blob.ErrPartsMissing, "completion without parts")
	f.part(t, u.ID, 5, []byte("second"))
	f.part(t, u.ID, 2, []byte("first "))
	size := int64(12)
	testenv.Must(f.Complete(ctx, u.ID, blob.Totals{Bytes: &size}, nil))(t)
	f.wantRead(t, "n", 0, []byte("first second"), "the blob")
}

// TestNamedPartRacesWithComplete: if a part is sent again while it is named, either the part is
// refused, or the completion, because what was named is not there any more.
// Invariant 5.
func TestNamedPartRacesWithComplete(t *testing.T) {
	ctx := context.Background()
	f := newFixture(t, blob.Options{InlineSize: -1})
	for round := range 40 {
		name := fmt.Sprint("n", round)
		u := f.beginUneven(t, name)
		part := f.part(t, u.ID, 3, []byte("aaaa"))
		f.part(t, u.ID, 5, []byte("b"))
		var workers sync.WaitGroup
		var resent error
		workers.Go(func() {
			_, resent = f.PutPart(ctx, blob.PartOptions{UploadID: u.ID, Index: 3}, strings.NewReader("bbbb"), 4)
		})
		_, err := f.CompleteNamed(ctx, u.ID, blob.Named{Parts: []blob.NamedPart{nameOf(part)}}, nil)
		workers.Wait()
		if resent == nil {
			testenv.Is(t, err, blob.ErrPartUnknown, "completion with a part that was replaced")
			continue
		}
		testenv.OK(t, err)
		testenv.Is(t, resent, metastore.ErrCommitted, "the part that was sent again")
		testenv.OK(t, f.FreeGarbage(ctx))
		f.wantRead(t, name, 0, []byte("aaaa"), "after a part that was sent again")
	}
}

// TestBodyOfAContent stores a range of a content as a part.
func TestBodyOfAContent(t *testing.T) {
	ctx := context.Background()
	f := newFixture(t, blob.Options{ExtentSize: 1 << 20})
	want := randomBytes(1, 5<<20+17)
	f.put(t, "source", want)
	c := f.open(t, "source")
	u := f.beginUneven(t, "n")
	for i, r := range []blob.Range{{Off: 0, N: c.Size}, {Off: 1, N: 1}, {Off: 1<<20 - 3, N: 3 << 20}, {Off: c.Size - 5, N: 5}} {
		body := c.Body(ctx, r)
		part, err := f.PutPart(ctx, blob.PartOptions{UploadID: u.ID, Index: i}, body, r.N)
		testenv.OK(t, errors.Join(err, body.Close(), body.Close()))
		testenv.Equal(t, part.CRC64, checksum.Update(0, want[r.Off:r.Off+r.N]), "CRC of bytes %+v", r)
	}
	// Close ends a body that was not read to its end.
	for _, n := range []int64{0, 1, 2 << 20} {
		body := c.Body(ctx, blob.Range{N: c.Size})
		testenv.Must(io.CopyN(io.Discard, body, n))(t)
		testenv.OK(t, body.Close())
		testenv.Is(t, testenv.Error(body.Read(make([]byte, 1))), io.ErrClosedPipe, "a body that was closed")
	}
}

// TestBodyOfABadSource: the source's damage, its end and its reader's context are errors of the
// source, not of the body, and leave nothing stored.
func TestBodyOfABadSource(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(t *testing.T, f *fixture, cancel context.CancelFunc)
		want  error
	}{
		"damaged": {func(t *testing.T, f *fixture, _ context.CancelFunc) {
			testenv.OK(t, f.bytes.List(context.Background(), "", func(o bytestore.Object) error { damage(t, f.bytes, o.Name); return nil }))
		}, integrity.ErrCorrupt},
		"deleted and cut": {func(t *testing.T, f *fixture, _ context.CancelFunc) {
			f.remove(t, "source")
			f.clock.Advance(25 * time.Hour)
			testenv.OK(t, f.FreeGarbage(context.Background()))
		}, blob.ErrCut},
		"cancelled": {func(_ *testing.T, _ *fixture, cancel context.CancelFunc) { cancel() }, context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, blob.Options{ExtentSize: 1 << 20})
			f.put(t, "source", randomBytes(1, 3<<20))
			content := f.open(t, "source")
			u := f.beginUneven(t, "n")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			c.spoil(t, f, cancel)
			body := content.Body(ctx, blob.Range{N: content.Size})
			_, err := f.PutPart(t.Context(), blob.PartOptions{UploadID: u.ID}, body, content.Size)
			testenv.OK(t, body.Close())
			testenv.Is(t, err, c.want, "PutPart")
			testenv.Is(t, err, blob.ErrSource, "PutPart")
			if errors.Is(err, blob.ErrIncompleteBody) {
				t.Errorf("PutPart: %v", err)
			}
			if after := testenv.Must(f.FindUpload(t.Context(), u.ID))(t); after.Parts != 0 {
				t.Errorf("the upload has %d parts", after.Parts)
			}
		})
	}
}
