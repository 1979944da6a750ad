package blob_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"sluice/blob"
	"sluice/bytestore"
	"sluice/bytestore/memory"
)

// countingStore counts the reads of each MiB of its objects, and the bytes.
type countingStore struct {
	bytestore.Store
	mu    sync.Mutex
	asked map[string]int
	bytes int64
}

func (s *countingStore) Open(ctx context.Context, key bytestore.Key, off, n int64) (io.ReadCloser, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for block := off >> 20; block <= (off+n-1)>>20; block++ {
		s.asked[fmt.Sprintf("%s/%d", key, block)]++
	}
	s.bytes += n
	return s.Store.Open(ctx, key, off, n)
}

func newCountingStore() *countingStore {
	return &countingStore{Store: memory.New(), asked: map[string]int{}}
}

// forget returns the reads of the most frequently read MiB and the bytes read since its
// last call.
func (s *countingStore) forget() (most int, n int64) {
	for _, times := range s.asked {
		most = max(most, times)
	}
	n = s.bytes
	s.asked, s.bytes = map[string]int{}, 0
	return most, n
}

// readAll reads ranges of a blob by one Reading, and returns what it had to pay.
func readAll(t *testing.T, f *fixture, name string, ranges []blob.Range) (got [][]byte, paid int64, err error) {
	t.Helper()
	c, err := f.Open(t.Context(), "a", name)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r := c.Read(ranges, func(_ context.Context, n int64) error { paid += n; return nil })
	defer r.Close()
	for {
		var out bytes.Buffer
		n, err := r.WriteNext(t.Context(), plain{&out})
		if errors.Is(err, io.EOF) {
			return got, paid, nil
		}
		if err != nil {
			return got, paid, err
		}
		if n != int64(out.Len()) {
			t.Errorf("%d bytes were written, not %d", out.Len(), n)
		}
		got = append(got, out.Bytes())
	}
}

// disjoint returns up to n ranges of a blob in random order, each of at most longest
// bytes.
func disjoint(rng *rand.Rand, n int, size, longest int64) []blob.Range {
	var cuts []int64
	for range 2 * n {
		cuts = append(cuts, rng.Int64N(size))
	}
	slices.Sort(cuts)
	var ranges []blob.Range
	for i := 0; i+1 < len(cuts); i += 2 {
		if n := min(cuts[i+1]-cuts[i], longest); n > 0 {
			ranges = append(ranges, blob.Range{Off: cuts[i], N: n})
		}
	}
	rng.Shuffle(len(ranges), func(i, j int) { ranges[i], ranges[j] = ranges[j], ranges[i] })
	return ranges
}

// TestRangesReadEachBlockOnce reads many ranges in random order. The bytes must be
// correct, no block may be read twice, and bytes that are read and not sent must be paid
// for.
func TestRangesReadEachBlockOnce(t *testing.T) {
	store := newCountingStore()
	f := newOverStore(t, store, blob.Options{})
	const size = 9<<20 + 12345 // in extents of 2 MiB
	body := randomBytes(1, size)
	f.put(t, "n", body)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 150 {
		n := 1 + rng.IntN(64)
		ranges := disjoint(rng, n, size, 1<<20/int64(n)) // all of them fit into the buffer
		store.forget()
		got, paid, err := readAll(t, f, "n", ranges)
		if err != nil {
			t.Fatalf("ranges %d: %v", i, err)
		}
		sent := int64(0)
		for j, r := range ranges {
			if !bytes.Equal(got[j], body[r.Off:r.Off+r.N]) {
				t.Fatalf("ranges %d: the bytes of %v differ", i, r)
			}
			sent += r.N
		}
		most, read := store.forget()
		if most > 1 || paid != read-sent {
			t.Fatalf("ranges %d: a block was asked for %d times; %d bytes were read, %d sent, %d paid for; %v", i, most, read, sent, paid, ranges)
		}
	}
}

// TestRangesThatCannotBeBuffered checks that blocks are read again and paid for if the ranges
// are too long to be buffered or no buffer is free. The bytes must be correct in every way
// of reading.
func TestRangesThatCannotBeBuffered(t *testing.T) {
	const size = 5<<20 + 7
	body := randomBytes(1, size)
	onFiles := func(ttl time.Duration, buffers int64) *fixture {
		f, _ := newOnFiles(t, blob.Options{VerifyTTL: ttl, ReadBuffers: buffers})
		return f
	}
	counted := newCountingStore()
	for name, f := range map[string]*fixture{
		"memory":             newOverStore(t, counted, blob.Options{}),
		"memory, no buffers": newOverStore(t, newCountingStore(), blob.Options{ReadBuffers: -1}),
		"files":              onFiles(time.Minute, 0),
		"files, always":      onFiles(0, 0),
		"files, no buffers":  onFiles(0, -1),
	} {
		f.put(t, "n", body)
		rng := rand.New(rand.NewPCG(1, 2))
		for range 20 {
			counted.forget()
			ranges := disjoint(rng, 1+rng.IntN(20), size, size)
			got, paid, err := readAll(t, f, "n", ranges)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			sent := int64(0)
			for j, r := range ranges {
				if !bytes.Equal(got[j], body[r.Off:r.Off+r.N]) {
					t.Fatalf("%s: the bytes of %v differ", name, r)
				}
				sent += r.N
			}
			if _, read := counted.forget(); name == "memory" && paid != read-sent {
				t.Fatalf("%d bytes were read, %d sent, %d paid for", read, sent, paid)
			}
		}
	}
}

// TestSmallRangesOfOneBlockNeedNoBuffer checks that single bytes are buffered even while
// slow clients hold all block buffers.
func TestSmallRangesOfOneBlockNeedNoBuffer(t *testing.T) {
	store := newCountingStore()
	f := newOverStore(t, store, blob.Options{ReadBuffers: -1})
	f.put(t, "n", randomBytes(1, 2<<20))
	var ranges []blob.Range
	for i := range 64 { // alternating between two blocks
		ranges = append(ranges, blob.Range{Off: int64(i%2)<<20 + int64(i)*100, N: 1})
	}
	store.forget()
	if _, _, err := readAll(t, f, "n", ranges); err != nil {
		t.Fatal(err)
	}
	// Each block is read once to be checked, and a piece of it again to be written.
	if most, read := store.forget(); most != 2 || read != 2<<20+2*heldPiece {
		t.Errorf("a block was asked for %d times, %d bytes in all", most, read)
	}
}

// TestRangesOfADamagedBlock checks that no byte of a damaged block is served, and that the
// error is final.
func TestRangesOfADamagedBlock(t *testing.T) {
	for _, buffers := range []int64{0, -1} {
		f := newFixture(t, blob.Options{ReadBuffers: buffers})
		f.put(t, "n", randomBytes(1, 1<<20))
		if err := f.bytes.List(t.Context(), "", func(o bytestore.Object) error { damage(t, f.bytes, o.Key); return io.EOF }); !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		c, err := f.Open(t.Context(), "a", "n")
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		r := c.Read([]blob.Range{{Off: 0, N: 1}, {Off: 5000, N: 10}}, nil)
		defer r.Close()
		for range 3 {
			var out bytes.Buffer
			if n, err := r.WriteNext(t.Context(), &out); n != 0 || out.Len() != 0 || !errors.Is(err, blob.ErrCorrupt) {
				t.Errorf("%d bytes of a damaged block, %v", n, err)
			}
		}
	}
}

// TestReadingPaysBeforeItReads checks that an error of paying is final, and that the store
// is not accessed.
func TestReadingPaysBeforeItReads(t *testing.T) {
	store := newCountingStore()
	f := newOverStore(t, store, blob.Options{})
	f.put(t, "n", randomBytes(1, 1<<20))
	c, err := f.Open(t.Context(), "a", "n")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	store.forget()
	refused := errors.New("refused")
	r := c.Read([]blob.Range{{Off: 7, N: 1}}, func(_ context.Context, n int64) error {
		if n != 1<<20-1 {
			t.Errorf("a byte of a block costs %d", n)
		}
		return refused
	})
	defer r.Close()
	if n, err := r.WriteNext(t.Context(), io.Discard); n != 0 || !errors.Is(err, refused) {
		t.Errorf("%d bytes, %v", n, err)
	}
	if _, read := store.forget(); read != 0 {
		t.Errorf("%d bytes were read that nobody paid for", read)
	}
}
