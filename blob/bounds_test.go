package blob_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"sluice/blob"
	"sluice/bytestore"
	"sluice/metastore"
	"sluice/test/testenv"
)

// TestFullPartOfUnknownSize checks that a part of unknown size may be as long as a part can be, and
// not longer, whether or not it is inline.
func TestFullPartOfUnknownSize(t *testing.T) {
	const partSize = 1000
	for _, inline := range []int64{0, partSize - 1, partSize, partSize + 1} {
		f := newFixture(t, blob.Options{InlineSize: inline, ExtentSize: 1 << 20})
		u := f.begin(t, "n", partSize)
		body := randomBytes(1, partSize+1)
		for size, want := range map[int]error{partSize + 1: blob.ErrPartSize, partSize: nil} {
			part := blob.PartOptions{UploadID: u.ID, Index: 0}
			_, err := f.PutPart(t.Context(), part, bytes.NewReader(body[:size]), bytestore.UnknownSize)
			testenv.Is(t, err, want, "inline size %d: %d bytes", inline, size)
		}
	}
}

// TestBodyOfUnknownSizeIsNotReadPastItsLimit checks that a body of unknown size is read until it is
// seen to be too long, and not further, apart from a buffer.
func TestBodyOfUnknownSizeIsNotReadPastItsLimit(t *testing.T) {
	const partSize, buffer = 1<<20 + 1000, 64 << 10
	for _, extentSize := range []int64{1 << 20, 64 << 20} {
		f := newFixture(t, blob.Options{InlineSize: -1, ExtentSize: extentSize})
		u := f.begin(t, "n", partSize)
		body := bytes.NewReader(make([]byte, 8<<20))
		_, err := f.PutPart(t.Context(), blob.PartOptions{UploadID: u.ID, Index: 0}, io.MultiReader(body, iotest.ErrReader(errResponse)), bytestore.UnknownSize)
		if read := int(body.Size()) - body.Len(); !errors.Is(err, blob.ErrPartSize) || read > partSize+1+buffer {
			t.Errorf("extents of %d bytes: %v after %d bytes of a part of at most %d", extentSize, err, read, partSize)
		}
		f.wantObjects(t, 0, "that stay behind with extents of %d bytes", extentSize)
	}
}

// TestPreconditionSparesTheBody checks that a precondition is evaluated on the stored blob before
// the body is read.
func TestPreconditionSparesTheBody(t *testing.T) {
	f := newFixture(t, blob.Options{})
	f.put(t, "n", []byte("stored"))
	refused := errors.New("refused")
	p := blob.PutOptions{Account: "a", Name: "n", Precondition: func(current *metastore.Blob) error {
		if current == nil || current.Size != 6 {
			t.Errorf("the precondition is evaluated on %+v", current)
		}
		return refused
	}}
	body := iotest.ErrReader(errors.New("the body was read"))
	testenv.Is(t, testenv.Error(f.Put(t.Context(), p, body, 1)), refused, "Put")
}

// TestPartSizes checks a part size's bounds, and that the missing part is named.
func TestPartSizes(t *testing.T) {
	f := newFixture(t, blob.Options{})
	for size, want := range map[int64]error{0: blob.ErrPartSize, 1: nil, blob.MaxPartSize: nil, blob.MaxPartSize + 1: blob.ErrPartSize} {
		_, err := f.Begin(t.Context(), blob.BeginOptions{Account: "a", Name: "n", PartSize: size})
		testenv.Is(t, err, want, "a part size of %d", size)
	}
	u := f.begin(t, "n", 1)
	for _, index := range []int{0, 2} {
		testenv.Must(f.PutPart(t.Context(), blob.PartOptions{UploadID: u.ID, Index: index}, io.LimitReader(strings.NewReader("x"), 1), 1))(t)
	}
	const missing = "there is no part 1, but a part 2"
	if _, err := f.Complete(t.Context(), u.ID, blob.Totals{}, nil); !errors.Is(err, blob.ErrPartsMissing) || !strings.Contains(err.Error(), missing) {
		t.Errorf("error %v, want %q", err, missing)
	}
}

// manyParts is a metadata store in which every upload has the parts 0 to last, of one byte each.
type manyParts struct {
	blob.Metadata
	last int
}

func (s manyParts) Parts(_ context.Context, _ string, after, limit int) (parts []metastore.Part, err error) {
	for i := after + 1; i <= s.last && len(parts) < limit; i++ {
		parts = append(parts, metastore.Part{Index: i, Size: 1})
	}
	return parts, nil
}

// TestPartsBeyondAPage checks that an upload may have more parts than are read at a time.
func TestPartsBeyondAPage(t *testing.T) {
	f := newFixture(t, blob.Options{})
	u := f.begin(t, "n", 1)
	for _, n := range []int64{9_999, 10_000, 10_001, 20_001} {
		s := blob.New(manyParts{f.meta, int(n) - 1}, f.bytes, blob.Options{})
		want, wrong := fmt.Sprintf("the parts have %d bytes in total", n), n+1
		if _, err := s.Complete(t.Context(), u.ID, blob.Totals{Bytes: &wrong}, nil); !errors.Is(err, blob.ErrTotals) || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// TestFailedDiscardIsReported checks that a write's error names objects if it could not delete
// them, and only then.
func TestFailedDiscardIsReported(t *testing.T) {
	for _, deleteErr := range []error{nil, errResponse} {
		f := newFixture(t, blob.Options{})
		store := &watchedStore{f.bytes, func(bytestore.Name) error { return deleteErr }}
		s := blob.New(f.meta, store, blob.Options{ExtentSize: 1 << 20, InlineSize: -1})
		body := io.MultiReader(bytes.NewReader(make([]byte, 1<<20)), iotest.ErrReader(errors.New("broken")))
		_, err := s.Put(t.Context(), to("n"), body, 2<<20)
		if err == nil || strings.Contains(err.Error(), "orphan sweep") != (deleteErr != nil) {
			t.Errorf("delete error %v: %v", deleteErr, err)
		}
	}
}
