package sqlstore

import (
	"path/filepath"
	"testing"
	"time"

	"sluice/database"
	"sluice/metastore"
	"sluice/test/testenv"
)

// TestHealEmptiesTheCache opens a blob from the cache, heals it, and opens it again: the cache has
// not kept the damaged object.
// Invariant 118.
func TestHealEmptiesTheCache(t *testing.T) {
	s := testenv.Must(OpenSQLite(filepath.Join(testenv.MemoryDir(t), "meta.db"), Options{BlobCache: 1 << 20}))(t)
	testenv.AtEnd(t, s.Close)
	extent := metastore.Extent{Size: 5, Blocks: []uint32{1}, Object: "3f-old", Created: time.Now()}
	b := metastore.Blob{Account: "a", Name: "n", Content: metastore.NewContentID(time.Now()), Size: 5}
	testenv.Must(s.CommitBlob(t.Context(), b, []metastore.Extent{extent}, nil))(t)
	object := func() string {
		_, first, err := s.OpenBlob(t.Context(), "a", "n")
		testenv.OK(t, err)
		return first[0].Object
	}
	for range 2 {
		testenv.Equal(t, object(), "3f-old", "object before the heal")
	}
	testenv.Equal(t, s.Stats().BlobCache.Hits, 1, "hits of the cache")
	d := metastore.Damage{ExtentID: metastore.ExtentID{Content: b.Content}, Size: 5, Object: "3f-old", Bad: 1}
	fresh := metastore.Extent{Object: "3f-new", Created: time.Now()}
	testenv.OK(t, s.HealExtent(t.Context(), d, fresh, metastore.NewContentID(time.Now())))
	for range 2 {
		testenv.Equal(t, object(), "3f-new", "object after the heal")
	}
}

// TestHealBodyThatIsMissing heals bodies with rows that are changed, empty and gone.
func TestHealBodyThatIsMissing(t *testing.T) {
	for _, c := range []struct{ statement, found string }{
		{`UPDATE bodies SET body = CAST('abd' AS BLOB)`, "abd"},
		{`UPDATE bodies SET body = CAST('' AS BLOB)`, ""},
		{`DELETE FROM bodies`, ""},
	} {
		onBoth(t, func(t *testing.T, s *Store) {
			putFor(t, s, "", "inline", "abc")
			b := testenv.Must(s.Blob(t.Context(), "a", "inline"))(t)
			executeBoth(t, s, c.statement)
			damaged := testenv.Must(s.Extents(t.Context(), b.Content, metastore.Position{}, 1))(t)[0].Body
			testenv.Equal(t, string(damaged), c.found, "body after %s", c.statement)
			d := metastore.Damage{ExtentID: metastore.ExtentID{Content: b.Content}, Size: 3, Bad: 1}
			testenv.OK(t, s.HealBody(t.Context(), d, damaged, []byte("abc")))
			_, first, err := s.OpenBlob(t.Context(), "a", "inline")
			testenv.OK(t, err)
			testenv.Equal(t, string(first[0].Body), "abc", "healed body after %s", c.statement)
			testenv.Is(t, s.HealBody(t.Context(), d, damaged, []byte("abc")), database.ErrNotFound, "a second heal")
			audited(t, s)
		})
	}
}
