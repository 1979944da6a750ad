package sqlstore

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"sluice/database/dbtest"
	"sluice/metastore"
	"sluice/test/testclock"
)

// opening is a handle that finds blobs by OpenBlob. A test's handles share one store.
type opening struct {
	*Store
	close func() error
}

// openingHarness returns a function that returns harnesses; their stores have a cache with this
// size.
func openingHarness(tb testing.TB, cache int64) func(tb testing.TB) *dbtest.Harness {
	newPath := dbtest.Copies(tb, openSQLite)
	return func(tb testing.TB) *dbtest.Harness {
		path, clock := newPath(tb), testclock.New()
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

// TestConformanceOpening runs the suite's checks that store blobs, on stores that find every blob
// by OpenBlob and cache it. Without a cache the check blobs/open shows the same in TestConformance.
// (The handles share one store, but a charge is remembered by the handle that made it.)
// Invariant 13.
func TestConformanceOpening(t *testing.T) {
	caches := map[string]int64{"large cache": 64 << 20, "small cache": 4 << 10}
	if testing.Short() {
		delete(caches, "large cache") // an eviction finds more than a hit
	}
	for name, cache := range caches {
		t.Run(name, func(t *testing.T) {
			var storing []dbtest.Check
			for _, c := range slices.Concat(suites()...) {
				group, _, _ := strings.Cut(c.Name, "/")
				// A content of thousands of extents is the same to the cache as one of two, and
				// blobs/open-races alone races opens with changes.
				large := strings.HasPrefix(c.Name, "blobs/large") || strings.Contains(c.Name, "/race")
				if !large && slices.Contains([]string{"blobs", "copies", "moves", "names", "uploads", "purge"}, group) {
					storing = append(storing, c)
				}
			}
			if len(storing) < 30 {
				t.Errorf("only %d checks store blobs", len(storing))
			}
			dbtest.Run(t, openingHarness(t, cache), storing)
		})
	}
}

func (s opening) Blob(ctx context.Context, account, name string) (metastore.Blob, error) {
	b, _, err := s.OpenBlob(ctx, account, name)
	return b, err
}

func (s opening) Close() error { return s.close() }
