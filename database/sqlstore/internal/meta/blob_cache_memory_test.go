package meta

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"sluice/metastore"
	"sluice/test/testenv"
)

// inRequest returns copies of an account and a name as a server gets them: as parts of a much
// longer request text.
func inRequest(account, name string) (string, string) {
	target := strings.Join([]string{"GET /v1/blobs/", account, "/", name, "?", strings.Repeat("q", 28_000)}, "")
	from := len("GET /v1/blobs/")
	return target[from : from+len(account)], target[from+len(account)+1:][:len(name)]
}

// TestCacheCountsItsMemory compares the size that the cache counts with the memory that its rows
// take: for rows of each shape, read by requests that are much longer than the names in them.
// Invariant 71.
func TestCacheCountsItsMemory(t *testing.T) {
	for _, c := range []struct {
		shape string
		rows  int
		name  int // the name's bytes
		blob  metastore.Blob
		body  int // bytes, inline
		size  int // an object's bytes, if there is no body
	}{
		{shape: "empty", rows: 3000, name: 8},
		{shape: "a byte", rows: 3000, name: 8, body: 1},
		{shape: "described", rows: 3000, name: 40, body: 100, blob: metastore.Blob{
			ContentType: "application/octet-stream", Owner: "a-group-of-keys", SHA256: make([]byte, 32)}},
		{shape: "a name of 2,000 bytes", rows: 1000, name: 2000, body: 1},
		{shape: "a name of 5,000 bytes", rows: 1000, name: 5000, body: 1},
		{shape: "metadata", rows: 1000, name: 8, body: 1, blob: metastore.Blob{Metadata: strings.Repeat("m", 4000)}},
		{shape: "a body of 5,000 bytes", rows: 1000, name: 8, body: 5000},
		{shape: "a body of 32 KiB", rows: 300, name: 8, body: 32 << 10},
		{shape: "an object", rows: 3000, name: 8, size: 64 << 20},
	} {
		t.Run(c.shape, func(t *testing.T) {
			s := openCached(t, 256<<20, 0)
			name := func(i int) string { return fmt.Sprintf("%0*d", c.name, i) }
			var writers sync.WaitGroup
			for w := range 100 {
				writers.Go(func() {
					for i := w; i < c.rows; i += 100 {
						b := c.blob
						b.Account, b.Name, b.Content = "an-account", name(i), metastore.NewContentID(s.db.Now())
						testenv.Check(t, commitForTest(t, s, b, c.body, c.size))
					}
				})
			}
			writers.Wait()
			for range 100 { // every connection prepares its statements
				if _, _, err := s.OpenBlob(t.Context(), "an-account", "none"); err == nil {
					t.Fatal("there is a blob that was not stored")
				}
			}
			before := testenv.Heap()
			for i := range c.rows {
				account, name := inRequest("an-account", name(i))
				if b, _, err := s.OpenBlob(t.Context(), account, name); err != nil || b.Account != account || b.Name != name {
					t.Fatalf("the blob is %s/%s, %v", b.Account, b.Name, err)
				}
			}
			s.rows.rows.CleanUp()
			took, counted := testenv.Heap()-before, s.rows.Stats().Bytes
			if rows := s.rows.rows.EstimatedSize(); rows != c.rows {
				t.Fatalf("%d rows are cached, want %d", rows, c.rows)
			}
			ratio := float64(took) / float64(counted)
			t.Logf("a row takes %d bytes, and %d are counted: %.2f", took/int64(c.rows), counted/int64(c.rows), ratio)
			if ratio < 0.8 || ratio > 1.1 {
				t.Errorf("the rows take %d bytes, and %d are counted", took, counted)
			}
		})
	}
}

// commitForTest stores a blob with a body of that many bytes, or with an object of that size, or
// empty.
func commitForTest(t *testing.T, s *Metastore, b metastore.Blob, body, size int) error {
	var extents []metastore.Extent
	switch {
	case body > 0:
		extents = []metastore.Extent{{Size: int64(body), Blocks: []uint32{1}, Body: make([]byte, body)}}
	case size > 0:
		extents = []metastore.Extent{{Size: int64(size), Blocks: make([]uint32, (size+1<<20-1)>>20), Object: b.Content.String(), Created: s.db.Now()}}
	}
	for _, e := range extents {
		b.Size += e.Size
	}
	_, err := s.CommitBlob(t.Context(), b, extents, nil)
	return err
}

// TestEvictedRowsAreFreed checks a cache's memory after many more rows have gone through it than it
// can hold.
// Invariant 71.
func TestEvictedRowsAreFreed(t *testing.T) {
	const size = 4 << 20
	before := testenv.Heap()
	c := NewBlobCache(size)
	for i := range 20_000 {
		account, name := inRequest("an-account", fmt.Sprint(i))
		if _, err := c.get(blobKey(account, name), func() (*blobRow, error) {
			return &blobRow{found: true, first: []metastore.Extent{{Size: 1, Blocks: []uint32{1}, Body: make([]byte, 1+i%2000)}}}, nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	c.rows.CleanUp()
	took, counted := testenv.Heap()-before, c.Stats().Bytes
	t.Logf("%d bytes are counted, %d are used", counted, took)
	if counted > size || counted < size/2 || float64(took) > 1.3*size {
		t.Errorf("a cache of %d bytes counts %d and takes %d", size, counted, took)
	}
}
