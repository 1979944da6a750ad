package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sluice/database"
	"sluice/database/dbtest"
	"sluice/internal/testclock"
	"sluice/metastore"
)

// opening is a handle that finds blobs by OpenBlob. All handles of a test share one store.
type opening struct {
	*Store
	close func() error
}

func (s opening) Blob(ctx context.Context, account, name string) (metastore.Blob, error) {
	b, _, err := s.OpenBlob(ctx, account, name)
	return b, err
}

func (s opening) Close() error { return s.close() }

// newOpeningHarness returns a harness whose stores have a cache of this size.
func newOpeningHarness(cache int64) func(tb testing.TB) *dbtest.Harness {
	return func(tb testing.TB) *dbtest.Harness {
		path := databasePath(tb)
		clock := testclock.New()
		var mu sync.Mutex
		var shared *Store
		handles := 0
		return dbtest.NewHarness(clock, func() (dbtest.Handle, error) {
			mu.Lock()
			defer mu.Unlock()
			if shared == nil {
				var err error
				if shared, err = OpenSQLite(path, Options{Now: clock.Now, BlobCache: cache}); err != nil {
					return nil, err
				}
			}
			handles++
			return opening{shared, func() error {
				mu.Lock()
				defer mu.Unlock()
				if handles--; handles > 0 {
					return nil
				}
				s := shared
				shared = nil
				return s.Close()
			}}, nil
		})
	}
}

// TestConformanceOpening runs the checks of the suite that store blobs on stores that find every blob
// by OpenBlob. (The handles share one store, but a charge is remembered by the handle that made it.)
func TestConformanceOpening(t *testing.T) {
	for name, cache := range map[string]int64{"large cache": 64 << 20, "small cache": 4 << 10, "no cache": 0} {
		t.Run(name, func(t *testing.T) {
			ran := 0
			for _, c := range slices.Concat(suites()...) {
				group, _, _ := strings.Cut(c.Name, "/")
				if !slices.Contains([]string{"blobs", "names", "uploads", "garbage", "purge", "extents"}, group) {
					continue
				}
				ran++
				t.Run(c.Name, func(t *testing.T) {
					h := newOpeningHarness(cache)(t)
					if err := errors.Join(c.Run(t.Context(), h), h.Close()); err != nil {
						t.Fatal(err)
					}
				})
			}
			if ran < 30 {
				t.Errorf("only %d checks ran", ran)
			}
		})
	}
}

// TestCacheServesWithoutQuery checks that the second read of a blob makes no query.
func TestCacheServesWithoutQuery(t *testing.T) {
	s := openForTest(t, Options{BlobCache: 1 << 20})
	putForTest(t, s, "name", 1)
	for range 3 {
		if _, _, err := s.OpenBlob(t.Context(), "a", "name"); err != nil {
			t.Fatal(err)
		}
	}
	readers := s.db.eng.(*sqliteEngine).readers
	var held []*sqliteConn
	for range cap(readers.free) {
		held = append(held, <-readers.free)
	}
	defer func() {
		for _, c := range held {
			readers.free <- c
		}
	}()
	ctx := database.WithPatience(t.Context(), time.Millisecond)
	if b, extents, err := s.OpenBlob(ctx, "a", "name"); err != nil || b.Size != 1 || len(extents) != 1 {
		t.Errorf("a cached blob was not opened without a connection: %v", err)
	}
	if _, _, err := s.OpenBlob(ctx, "a", "other"); !errors.Is(err, database.ErrBusy) {
		t.Errorf("error %v for a blob that is not cached", err)
	}
}

// TestCacheIsBounded checks the size of the cache after more blobs were read than it can hold.
func TestCacheIsBounded(t *testing.T) {
	const size = 256 << 10
	s := openForTest(t, Options{BlobCache: size})
	for i := range 100 {
		name := fmt.Sprint(i)
		putForTest(t, s, name, 16<<10)
		if _, _, err := s.OpenBlob(t.Context(), "a", name); err != nil {
			t.Fatal(err)
		}
	}
	s.rows.rows.CleanUp()
	if got := s.rows.rows.WeightedSize(); got > size || got < size/2 {
		t.Errorf("the cache has %d bytes, want at most %d", got, size)
	}
}

// TestCacheCountsMetadata checks that what the writers of blobs state about them counts towards the size of the
// cache.
func TestCacheCountsMetadata(t *testing.T) {
	const size = 256 << 10
	s := openForTest(t, Options{BlobCache: size})
	metadata := strings.Repeat("m", 3<<10)
	for i := range 300 {
		name := fmt.Sprint(i)
		if _, err := s.CommitBlob(t.Context(), metastore.Blob{Account: "a", Name: name, Content: metastore.NewContentID(s.Now()), Metadata: metadata}, nil, nil); err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.OpenBlob(t.Context(), "a", name); err != nil {
			t.Fatal(err)
		}
	}
	s.rows.rows.CleanUp()
	if rows := s.rows.rows.EstimatedSize(); rows == 0 || rows*len(metadata) > size {
		t.Errorf("a cache of %d bytes has %d rows, each with %d bytes of metadata", size, rows, len(metadata))
	}
}

// TestUnknownOutcomeEmptiesCache checks that after a COMMIT with an unknown outcome nothing is
// served from the cache.
func TestUnknownOutcomeEmptiesCache(t *testing.T) {
	c := newBlobCache(1 << 20)
	k := blobKey("a", "name")
	query := func() (*blobRow, error) { return &blobRow{found: true}, nil }
	get := func() int {
		queries := 0
		if _, err := c.get(k, func() (*blobRow, error) { queries++; return query() }); err != nil {
			t.Fatal(err)
		}
		return queries
	}
	if get() != 1 || get() != 0 {
		t.Fatal("the row was not inserted by the first query")
	}
	other := []RowKey{blobKey("a", "other")}
	c.BeginCommit(other)
	c.EndCommit(other, false)
	if first, second := get(), get(); first != 1 || second != 1 {
		t.Error("a row was served after an unknown outcome")
	}
}

func openForTest(t *testing.T, opt Options) *Store {
	t.Helper()
	s, err := OpenSQLite(databasePath(t), opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func putForTest(t *testing.T, s *Store, name string, size int) {
	t.Helper()
	b := metastore.Blob{Account: "a", Name: name, Content: metastore.NewContentID(time.Now()), Size: int64(size)}
	e := metastore.Extent{Size: b.Size, Blocks: []uint32{1}, Body: make([]byte, size)}
	if _, err := s.CommitBlob(t.Context(), b, []metastore.Extent{e}, nil); err != nil {
		t.Fatal(err)
	}
}

// TestCacheIsExact compares the cache with a model under random interleavings of commits and
// queries: a lookup returns the version that was committed when it, or its query, ran.
func TestCacheIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type query struct {
			key  int
			fill *rowFill
			row  *blobRow // nil: not read yet
		}
		c := newBlobCache(1 << 20)
		keys := []RowKey{blobKey("a", "0"), blobKey("a", "1"), blobKey("b", "0")}
		committed := make([]int64, len(keys))
		next := make([]int64, len(keys))
		var queries []*query
		var committing []int
		moment := "idle"
		pick := func() int { return rapid.IntRange(0, len(keys)-1).Draw(t, "key") }
		chosen := func() []RowKey {
			var list []RowKey
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
