package blob_test

import (
	"bytes"
	"context"
	"io"
	"testing"
	"time"

	"sluice/blob"
	"sluice/bytestore"
	"sluice/bytestore/memory"
	"sluice/integrity"
	"sluice/test/testenv"
)

// replacing is a store that is no folder. Once other is set, it returns those bytes.
type replacing struct {
	bytestore.Store
	other []byte
}

func (s *replacing) Open(ctx context.Context, name bytestore.Name, off, n int64) (io.ReadCloser, error) {
	if s.other == nil {
		return s.Store.Open(ctx, name, off, n)
	}
	return io.NopCloser(bytes.NewReader(s.other[off : off+n])), nil
}

// TestBytesThatWereNotCheckedAreNotSent reads an object from a store that returns other bytes from
// then on. None of them is sent within VerifyTTL either.
func TestBytesThatWereNotCheckedAreNotSent(t *testing.T) {
	const size = 1000
	store := &replacing{Store: memory.New()}
	f := newOverStore(t, store, blob.Options{VerifyTTL: time.Minute, InlineSize: -1})
	f.put(t, "a", randomBytes(1, size))
	f.read(t, "a", 0, size)
	store.other = randomBytes(2, size)
	var out bytes.Buffer // an io.ReaderFrom
	_, err := f.open(t, "a").WriteRange(t.Context(), &out, 0, size)
	testenv.Is(t, err, integrity.ErrCorrupt, "the second read")
	testenv.Equal(t, out.Len(), 0, "bytes that were sent")
}
