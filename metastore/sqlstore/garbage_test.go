package sqlstore

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"sluice/internal/testenv"
	"sluice/metastore"
)

// TestUnreferencedIsExact asks for keys that stand close together and far apart,
// with and without extents, in any order.
func TestUnreferencedIsExact(t *testing.T) {
	check := func(t *testing.T, s *Store) {
		key := func(i int) string { return fmt.Sprintf("%04d-object", i) }
		held := map[string]bool{}
		for _, i := range rand.Perm(400)[:200] {
			held[key(i)] = true
			b := metastore.Blob{Account: "a", Name: key(i), Content: metastore.NewContentID(time.Now()), Size: 1}
			e := metastore.Extent{Size: 1, Blocks: []uint32{0}, Key: key(i), Created: time.Now()}
			if _, err := s.CommitBlob(t.Context(), b, []metastore.Extent{e}, nil); err != nil {
				t.Fatal(err)
			}
		}
		for range 100 {
			first := rand.IntN(400)
			numbers := rand.Perm(400 - first) // of which some are taken
			var keys, want []string
			for _, i := range numbers[:rand.IntN(len(numbers)+1)] {
				k := key(first + i)
				if keys = append(keys, k); !held[k] {
					want = append(want, k)
				}
			}
			got, err := s.Unreferenced(t.Context(), keys)
			if err != nil {
				t.Fatal(err)
			}
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Fatalf("of %q\nthese are free: %q\nnot these: %q", keys, want, got)
			}
		}
	}
	t.Run("sqlite", func(t *testing.T) { check(t, openAt(t, databasePath(t), Options{})) })
	t.Run("postgres", func(t *testing.T) {
		s, _ := openNode(t, testenv.Postgres(t))
		check(t, s)
	})
}
