package meta

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sluice/database"
	"sluice/database/sqlstore/internal/engine"
	"sluice/metastore"
	"sluice/test/testenv"
)

// TestCacheServesWithoutQuery checks that a blob's second read makes no query.
func TestCacheServesWithoutQuery(t *testing.T) {
	const readers = 2
	s := openCached(t, 1<<20, readers)
	putForTest(t, s, "name", 1)
	for range 3 {
		opened(t, s, "name")
	}
	running, release := make(chan struct{}), make(chan struct{})
	var held sync.WaitGroup
	for range readers { // every connection
		held.Go(func() {
			testenv.Check(t, s.db.Read(t.Context(), func(*engine.Tx) error {
				running <- struct{}{}
				<-release
				return nil
			}))
		})
		<-running
	}
	defer held.Wait()
	defer close(release)
	ctx := database.WithPatience(t.Context(), time.Millisecond)
	if b, extents, err := s.OpenBlob(ctx, "a", "name"); err != nil || b.Size != 1 || len(extents) != 1 {
		t.Errorf("a cached blob was not opened without a connection: %v", err)
	}
	if _, _, err := s.OpenBlob(ctx, "a", "other"); !errors.Is(err, database.ErrBusy) {
		t.Errorf("error %v for a blob that is not cached", err)
	}
}

// TestCacheIsBounded checks the cache's size after more blobs were read than it can hold.
func TestCacheIsBounded(t *testing.T) {
	const size = 256 << 10
	s := openCached(t, size, 0)
	for i := range 100 {
		name := fmt.Sprint(i)
		putForTest(t, s, name, 16<<10)
		opened(t, s, name)
	}
	s.rows.rows.CleanUp()
	if got := s.rows.rows.WeightedSize(); got > size || got < size/2 {
		t.Errorf("the cache has %d bytes, want at most %d", got, size)
	}
}

// TestCacheCountsMetadata checks that blobs' metadata counts towards the cache's size.
func TestCacheCountsMetadata(t *testing.T) {
	const size = 256 << 10
	s := openCached(t, size, 0)
	metadata := strings.Repeat("m", 3<<10)
	for i := range 300 {
		name := fmt.Sprint(i)
		testenv.Must(s.CommitBlob(t.Context(), metastore.Blob{Account: "a", Name: name, Content: metastore.NewContentID(s.db.Now()), Metadata: metadata}, nil, nil))(t)
		opened(t, s, name)
	}
	s.rows.rows.CleanUp()
	if rows := s.rows.rows.EstimatedSize(); rows == 0 || rows*len(metadata) > size {
		t.Errorf("a cache of %d bytes has %d rows, each with %d bytes of metadata", size, rows, len(metadata))
	}
}

// TestUnknownOutcomeEmptiesCache checks that after a COMMIT with an unknown outcome nothing is
// served from the cache.
// Invariant 13.
func TestUnknownOutcomeEmptiesCache(t *testing.T) {
	c := NewBlobCache(1 << 20)
	k := blobKey("a", "name")
	query := func() (*blobRow, error) { return &blobRow{found: true}, nil }
	get := func() int {
		queries := 0
		testenv.Must(c.get(k, func() (*blobRow, error) { queries++; return query() }))(t)
		return queries
	}
	if get() != 1 || get() != 0 {
		t.Fatal("the row was not inserted by the first query")
	}
	other := []engine.RowKey{blobKey("a", "other")}
	c.BeginCommit(other)
	c.EndCommit(other, false)
	if first, second := get(), get(); first != 1 || second != 1 {
		t.Error("a row was served after an unknown outcome")
	}
}

func putForTest(t *testing.T, s *Metastore, name string, size int) {
	t.Helper()
	b := metastore.Blob{Account: "a", Name: name, Content: metastore.NewContentID(time.Now()), Size: int64(size)}
	e := metastore.Extent{Size: b.Size, Blocks: []uint32{1}, Body: make([]byte, size)}
	testenv.Must(s.CommitBlob(t.Context(), b, []metastore.Extent{e}, nil))(t)
}

// TestCacheIsExact compares the cache with a model under random interleavings of commits and
// queries: a lookup returns the version that was committed when it, or its query, ran.
// Invariant 13.
func TestCacheIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type query struct {
			key  int
			fill *rowFill
			row  *blobRow // nil: not read yet
		}
		c := NewBlobCache(1 << 20)
		keys := []engine.RowKey{blobKey("a", "0"), blobKey("a", "1"), blobKey("b", "0")}
		committed := make([]int64, len(keys))
		next := make([]int64, len(keys))
		var queries []*query
		var committing []int
		moment := "idle"
		pick := func() int { return rapid.IntRange(0, len(keys)-1).Draw(t, "key") }
		chosen := func() []engine.RowKey {
			var list []engine.RowKey
			for _, i := range committing {
				list = append(list, keys[i])
			}
			return list
		}
		t.Repeat(map[string]func(*rapid.T){
			"commit": func(t *rapid.T) {
				switch moment {
				case "idle":
					committing = rapid.SliceOfNDistinct(rapid.IntRange(0, len(keys)-1), 1, len(keys), rapid.ID).Draw(t, "keys")
					c.BeginCommit(chosen())
					moment = "begun"
				case "begun":
					if rapid.Bool().Draw(t, "succeeds") {
						for _, i := range committing {
							next[i]++
							committed[i] = next[i]
						}
					}
					moment = "committed"
				case "committed":
					c.EndCommit(chosen(), true)
					moment = "idle"
				}
			},
			"lookup": func(t *rapid.T) {
				i := pick()
				if row, ok := c.rows.GetIfPresent(keys[i]); ok {
					if row.blob.Size != committed[i] {
						t.Fatalf("version %d was in the cache, %d is committed", row.blob.Size, committed[i])
					}
					return
				}
				queries = append(queries, &query{key: i, fill: c.beginFill(keys[i])})
			},
			"query": func(t *rapid.T) {
				if len(queries) == 0 {
					return
				}
				at := rapid.IntRange(0, len(queries)-1).Draw(t, "query")
				q := queries[at]
				if q.row == nil {
					q.row = &blobRow{found: true, blob: metastore.Blob{Size: committed[q.key]}}
					return
				}
				c.endFill(keys[q.key], q.fill, q.row, nil)
				queries = append(queries[:at], queries[at+1:]...)
			},
			"": func(t *rapid.T) {
				for i, k := range keys {
					if row, ok := c.rows.GetIfPresent(k); ok && row.blob.Size != committed[i] {
						t.Fatalf("version %d is in the cache, %d is committed", row.blob.Size, committed[i])
					}
				}
				if len(queries) == 0 && len(c.fills) > 0 {
					t.Fatalf("%d fills without queries", len(c.fills))
				}
			},
		})
	})
}
