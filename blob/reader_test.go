package blob_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/blob"
	"sluice/bytestore"
	"sluice/bytestore/memory"
	"sluice/integrity"
	"sluice/metastore"
	"sluice/test/testenv"
)

// countingStore counts the reads of each MiB of its objects, and the bytes.
type countingStore struct {
	bytestore.Store
	mu    sync.Mutex
	asked map[string]int
	bytes int64
}

func (s *countingStore) Open(ctx context.Context, name bytestore.Name, off, n int64) (io.ReadCloser, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for block := off >> 20; block <= (off+n-1)>>20; block++ {
		s.asked[fmt.Sprintf("%s/%d", name, block)]++
	}
	s.bytes += n
	return s.Store.Open(ctx, name, off, n)
}

func newCountingStore() *countingStore {
	return &countingStore{Store: memory.New(), asked: map[string]int{}}
}

// forget returns how often the most frequently read MiB was read, and the bytes read since its last
// call.
func (s *countingStore) forget() (most int, n int64) {
	for _, times := range s.asked {
		most = max(most, times)
	}
	n = s.bytes
	s.asked, s.bytes = map[string]int{}, 0
	return most, n
}

// readAll reads a blob's ranges with one Reader, and returns what it had to pay.
func readAll(t *testing.T, f *fixture, name string, ranges []blob.Range) (got [][]byte, paid int64, err error) {
	t.Helper()
	c := f.open(t, name)
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

// wantRanges ends the test unless these are the bytes of a body's ranges. It returns how many there
// are.
func wantRanges(t *testing.T, got [][]byte, body []byte, ranges []blob.Range, what any) (sent int64) {
	t.Helper()
	for i, r := range ranges {
		if !bytes.Equal(got[i], body[r.Off:r.Off+r.N]) {
			t.Fatalf("%v: the bytes of %v differ", what, r)
		}
		sent += r.N
	}
	return sent
}

// disjoint returns up to n ranges in random order, each of at most longest bytes.
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

// TestRangesReadEachBlockOnce reads many ranges in random order. The bytes must be correct, no
// block may be read twice, and bytes that are read and not sent must be paid for.
// Invariant 64.
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
		sent := wantRanges(t, got, body, ranges, i)
		most, read := store.forget()
		if most > 1 || paid != read-sent {
			t.Fatalf("ranges %d: a block was requested %d times; %d bytes were read, %d sent, %d paid for; %v", i, most, read, sent, paid, ranges)
		}
	}
}

// TestRangesThatCannotBeBuffered checks that blocks are read again and paid for if the ranges are
// too long to be buffered or no buffer is free. The bytes must be correct in every way of reading.
func TestRangesThatCannotBeBuffered(t *testing.T) {
	const size = 5<<20 + 7
	body := randomBytes(1, size)
	onFiles := func(ttl time.Duration, buffers int64) *fixture {
		f, _ := newOnFiles(t, blob.Options{VerifyTTL: ttl, ReadBuffers: buffers})
		return f
	}
	counted, twice := newCountingStore(), newCountingStore()
	for name, tc := range map[string]struct {
		f     *fixture
		store *countingStore // nil: not counted
	}{
		"memory":             {newOverStore(t, counted, blob.Options{}), counted},
		"memory, no buffers": {newOverStore(t, twice, blob.Options{ReadBuffers: -1}), twice},
		"files":              {onFiles(time.Minute, 0), nil},
		"files, always":      {onFiles(0, 0), nil},
		"files, no buffers":  {onFiles(0, -1), nil},
	} {
		tc.f.put(t, "n", body)
		rng := rand.New(rand.NewPCG(1, 2))
		for range 20 {
			if tc.store != nil {
				tc.store.forget()
			}
			ranges := disjoint(rng, 1+rng.IntN(20), size, size)
			got, paid, err := readAll(t, tc.f, "n", ranges)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			sent := wantRanges(t, got, body, ranges, name)
			if tc.store == nil {
				continue
			}
			if _, read := tc.store.forget(); paid != read-sent {
				t.Fatalf("%s: %d bytes were read, %d sent, %d paid for", name, read, sent, paid)
			}
		}
	}
}

// TestSmallRangesOfOneBlockNeedNoBuffer checks that single bytes are buffered even while slow
// clients hold all block buffers.
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
		t.Errorf("a block was requested %d times, %d bytes in total", most, read)
	}
}

// TestRangesOfADamagedBlock checks that no byte from a damaged block is served, and that the error
// is final.
func TestRangesOfADamagedBlock(t *testing.T) {
	for _, buffers := range []int64{0, -1} {
		f := newFixture(t, blob.Options{ReadBuffers: buffers})
		f.put(t, "n", randomBytes(1, 1<<20))
		if err := f.bytes.List(t.Context(), "", func(o bytestore.Object) error { damage(t, f.bytes, o.Name); return io.EOF }); !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		c := f.open(t, "n")
		r := c.Read([]blob.Range{{Off: 0, N: 1}, {Off: 5000, N: 10}}, nil)
		defer r.Close()
		for range 3 {
			var out bytes.Buffer
			if n, err := r.WriteNext(t.Context(), &out); n != 0 || out.Len() != 0 || !errors.Is(err, integrity.ErrCorrupt) {
				t.Errorf("%d bytes of a damaged block, %v", n, err)
			}
		}
	}
}

// TestReadingPaysBeforeItReads checks that an error of paying is final, and that the store is not
// accessed.
func TestReadingPaysBeforeItReads(t *testing.T) {
	store := newCountingStore()
	f := newOverStore(t, store, blob.Options{})
	f.put(t, "n", randomBytes(1, 1<<20))
	c := f.open(t, "n")
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
		t.Errorf("%d bytes were read that were not paid for", read)
	}
}

// TestBufferIsUsedAgain reads ranges. The ranges in one block fit into the buffer, but not the
// ranges in all blocks. No block may be read twice, and the number of bytes of each range must be
// correct, whether they were buffered from its first block, its last or both.
func TestBufferIsUsedAgain(t *testing.T) {
	const block, long = 1 << 20, 300 << 10
	for name, ranges := range map[string][]blob.Range{
		"in one block each": {
			{Off: 0, N: 1}, {Off: 10, N: 2 * long},
			{Off: block, N: 1}, {Off: block + 10, N: 2 * long},
			{Off: 2 * block, N: 1}, {Off: 2*block + 10, N: 2 * long},
		},
		"over two blocks": {
			{Off: 0, N: 1}, {Off: 2*block - 1, N: 1}, {Off: block - long, N: 2 * long},
			{Off: 2 * block, N: 1}, {Off: 4*block - 1, N: 1}, {Off: 3*block - long, N: 2 * long},
			{Off: 4 * block, N: 1}, {Off: 4*block + 10, N: 3 * long},
		},
	} {
		store := newCountingStore()
		f := newOverStore(t, store, blob.Options{})
		body := randomBytes(1, 5*block)
		f.put(t, "n", body)
		store.forget()
		got, _, err := readAll(t, f, "n", ranges)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		wantRanges(t, got, body, ranges, name)
		if most, read := store.forget(); most != 1 {
			t.Errorf("%s: a block was read %d times, %d bytes in total", name, most, read)
		}
	}
}

// TestOnlyThePiecesOfARangeAreReadAgain checks how much is read if no buffer is free: the block,
// and its pieces that hold bytes in the range.
func TestOnlyThePiecesOfARangeAreReadAgain(t *testing.T) {
	store := newCountingStore()
	f := newOverStore(t, store, blob.Options{ReadBuffers: -1})
	f.put(t, "n", randomBytes(1, 1<<20))
	for _, c := range []struct {
		r      blob.Range
		pieces int64
	}{
		{blob.Range{Off: 0, N: heldPiece}, 1},
		{blob.Range{Off: heldPiece, N: 2 * heldPiece}, 2},
		{blob.Range{Off: heldPiece - 1, N: 2}, 2},
		{blob.Range{Off: 1<<20 - 1, N: 1}, 1},
	} {
		store.forget()
		_, paid, err := readAll(t, f, "n", []blob.Range{c.r})
		if _, read := store.forget(); err != nil || read != 1<<20+c.pieces*heldPiece || paid != read-c.r.N {
			t.Errorf("%v: %d bytes were read, want a block and %d pieces; %d paid for, %v", c.r, read, c.pieces, paid, err)
		}
	}
}

// TestCheckedBlocksAreReadInPart checks that blocks that were checked within VerifyTTL are not read
// whole for a range that ends within them, if they can be sent without copying, that the range
// costs nothing, and that it is sent by as few calls as there are MiB.
func TestCheckedBlocksAreReadInPart(t *testing.T) {
	f, _ := newOnFiles(t, blob.Options{VerifyTTL: time.Minute})
	body := randomBytes(1, 2<<20)
	f.put(t, "n", body)
	f.wantRead(t, "n", 0, body, "the whole blob")
	c := f.open(t, "n")
	for r, sends := range map[blob.Range]int{
		{Off: 0, N: 1<<20 + 10}:      2,
		{Off: 1<<20 - 10, N: 20}:     1,
		{Off: 1<<20 + 10, N: 10}:     1,
		{Off: 1 << 19, N: 1 << 20}:   1, // parts of two blocks
		{Off: 10, N: 2<<20 - 20}:     2,
		{Off: 1 << 20, N: 1<<20 - 1}: 1,
	} {
		reading := c.Read([]blob.Range{r}, func(_ context.Context, n int64) error {
			t.Errorf("%v: %d bytes are read in addition", r, n)
			return nil
		})
		var out countedSends
		if _, err := reading.WriteNext(t.Context(), &out); err != nil || !bytes.Equal(out.Bytes(), body[r.Off:r.Off+r.N]) {
			t.Errorf("%v: %d bytes, %v", r, out.Len(), err)
		}
		if out.sends != sends || out.longest > 1<<20 {
			t.Errorf("%v: sent by %d calls of up to %d bytes, want %d of up to 1 MiB", r, out.sends, out.longest, sends)
		}
		reading.Close()
	}
}

// countedSends is a client that counts the calls by which files are sent to it.
type countedSends struct {
	bytes.Buffer
	sends   int
	longest int64
}

func (c *countedSends) ReadFrom(src io.Reader) (int64, error) {
	n, err := c.Buffer.ReadFrom(src)
	c.sends++
	c.longest = max(c.longest, n)
	return n, err
}

// receiver is a client to which files are sent. It receives at most the given number of bytes in
// its first call, and then calls a function and fails with its error.
type receiver struct {
	bytes.Buffer
	first int64
	then  func() error
}

func (r *receiver) ReadFrom(src io.Reader) (int64, error) {
	if r.then == nil {
		return r.Buffer.ReadFrom(src)
	}
	n, err := r.Buffer.ReadFrom(io.LimitReader(src, r.first))
	err = errors.Join(err, r.then())
	r.then = nil
	return n, err
}

// TestFileThatEndsWhileItIsSent truncates a file that is being sent without a check. The read must
// fail with integrity.ErrCorrupt. If the client fails instead, the bytes must not be reported as
// damaged.
func TestFileThatEndsWhileItIsSent(t *testing.T) {
	const size, block = 2 << 20, 1 << 20
	refused := errors.New("the client has disconnected")
	for want, tc := range map[error]struct {
		first int64
		then  func(name string) error
	}{
		integrity.ErrCorrupt: {block, func(name string) error { return os.Truncate(name, block+1000) }},
		refused:              {1000, func(string) error { return refused }},
	} {
		f, dir := newOnFiles(t, blob.Options{VerifyTTL: time.Minute})
		body := randomBytes(1, size)
		f.put(t, "n", body)
		f.read(t, "n", 0, size) // checks all blocks
		c := testenv.Must(f.Open(t.Context(), "a", "n"))(t)
		out := &receiver{first: tc.first, then: func() error { return tc.then(onlyFile(t, dir)) }}
		n, err := c.WriteRange(t.Context(), out, 0, size)
		c.Close()
		if !errors.Is(err, want) || errors.Is(err, integrity.ErrCorrupt) != errors.Is(want, integrity.ErrCorrupt) {
			t.Errorf("error %v, want %v", err, want)
		}
		if n != int64(out.Len()) || !bytes.Equal(out.Bytes(), body[:n]) || n < tc.first || n == size {
			t.Errorf("%d bytes are reported, %d were received", n, out.Len())
		}
	}
}

// shiftedExtents is a metadata store that returns other extents than those that follow a position.
type shiftedExtents struct {
	blob.Metadata
	from metastore.Position
}

func (m *shiftedExtents) Extents(ctx context.Context, id metastore.ContentID, _ metastore.Position, limit int) ([]metastore.Extent, error) {
	return m.Metadata.Extents(ctx, id, m.from, limit)
}

func (m *shiftedExtents) OpenBlob(ctx context.Context, account, name string) (metastore.Blob, []metastore.Extent, error) {
	b, _, err := m.Metadata.OpenBlob(ctx, account, name)
	if err != nil {
		return b, nil, err
	}
	extents, err := m.Metadata.Extents(ctx, b.Content, m.from, 1)
	return b, extents, err
}

// extentLookups counts lookups of extents, and how many they may return.
type extentLookups struct {
	blob.Metadata
	calls, extents int
}

func (m *extentLookups) Extents(ctx context.Context, id metastore.ContentID, from metastore.Position, limit int) ([]metastore.Extent, error) {
	m.calls++
	m.extents += limit
	return m.Metadata.Extents(ctx, id, from, limit)
}

// TestLookupsOfARead checks that a read looks up only the extents that it needs if they are few and
// large, and many at a time if they are many and tiny.
func TestLookupsOfARead(t *testing.T) {
	f := newFixture(t, blob.Options{ExtentSize: 1 << 20})
	large := randomBytes(1, 10<<20)
	f.put(t, "large", large)
	const parts = 600
	id := f.begin(t, "tiny", 1).ID
	for i := range parts {
		f.part(t, id, i, []byte{byte(i)})
	}
	testenv.Must(f.Complete(t.Context(), id, blob.Totals{}, nil))(t)
	for _, tc := range []struct {
		name           string
		off, n         int64
		calls, extents int // at most
	}{
		{"large", 5<<20 - 100, 200, 1, 2},
		{"large", 1 << 20, 1 << 20, 1, 3},
		{"tiny", 0, parts, parts/64 + 2, parts + 2*64},
	} {
		lookups := &extentLookups{Metadata: f.meta}
		c := testenv.Must(blob.New(lookups, f.bytes, blob.Options{}).Open(t.Context(), "a", tc.name))(t)
		n, err := c.WriteRange(t.Context(), io.Discard, tc.off, tc.n)
		c.Close()
		if n != tc.n || err != nil {
			t.Fatalf("%s: %d bytes, %v", tc.name, n, err)
		}
		if lookups.calls > tc.calls || lookups.extents > tc.extents {
			t.Errorf("%d bytes of %s: %d lookups of up to %d extents, want at most %d of %d",
				tc.n, tc.name, lookups.calls, lookups.extents, tc.calls, tc.extents)
		}
	}
}

// TestGapInAContentIsReported checks that a read fails with integrity.ErrCorrupt if the extent that
// contains its first byte is missing: the extent found ends just before that byte or begins after
// it.
func TestGapInAContentIsReported(t *testing.T) {
	const extent = 1 << 20
	f := newFixture(t, blob.Options{ExtentSize: extent})
	f.put(t, "n", randomBytes(1, 3*extent))
	for off, found := range map[int64]int64{extent: 0, 2*extent + 5: 0, 0: extent, 2*extent - 1: 2 * extent} {
		s := blob.New(&shiftedExtents{f.meta, metastore.Position{Offset: found}}, f.bytes, blob.Options{})
		c := testenv.Must(s.Open(t.Context(), "a", "n"))(t)
		var out bytes.Buffer
		n, err := c.WriteRange(t.Context(), &out, off, 1)
		c.Close()
		if n != 0 || out.Len() != 0 || !errors.Is(err, integrity.ErrCorrupt) || !strings.Contains(err.Error(), fmt.Sprint("a gap at byte ", off)) {
			t.Errorf("byte %d, where the extent at %d was found: %d bytes, %v", off, found, n, err)
		}
	}
}

// TestUntil checks the time until which a content is readable: a minute before the grace period
// ends if the content is deleted as soon as it was opened, and no time without a grace period.
func TestUntil(t *testing.T) {
	for _, grace := range []time.Duration{0, time.Hour} {
		f := newFixture(t, blob.Options{GarbageGrace: grace})
		f.put(t, "n", []byte("x"))
		before := time.Now()
		c := testenv.Must(f.Open(t.Context(), "a", "n"))(t)
		c.Close()
		left := grace - time.Minute
		switch until := c.Until(); {
		case grace == 0 && !until.IsZero():
			t.Errorf("without a grace period: %v", until)
		case grace > 0 && (until.Before(before.Add(left)) || until.After(time.Now().Add(left))):
			t.Errorf("with a grace period of %s: %s after the content was opened", grace, until.Sub(before))
		}
	}
}
