package sqlstore

import (
	"testing"
	"time"

	"sluice/metastore"
	"sluice/test/testenv"
)

// TestVersionsCostOthersNothing: in an account without versions, locks and rules, each operation
// runs as many statements as it did before accounts could have them, on SQLite and on PostgreSQL.
func TestVersionsCostOthersNothing(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		var texts []string
		recordAll(s, &texts)
		for _, operation := range []struct {
			name             string
			sqlite, postgres int
			do               func()
		}{
			{"put an object", 3, 5, func() { putObject(t, s, "a", "object", 5, time.Time{}) }},
			{"replace it", 6, 6, func() { putObject(t, s, "a", "object", 6, time.Time{}) }},
			{"put an inline content", 4, 6, func() { putFor(t, s, "x", "inline", "abc") }},
			{"open an object", 1, 1, func() { testenv.OK(t, opened(s.OpenBlob(t.Context(), "a", "object"))) }},
			{"open an inline content", 1, 1, func() { testenv.OK(t, opened(s.OpenBlob(t.Context(), "a", "inline"))) }},
			{"copy an object", 7, 9, func() { copyFor(t, s, metastore.Blob{Account: "a", Name: "object"}, "a", "copy", time.Time{}) }},
			{"copy an inline content", 7, 9, func() { copyFor(t, s, metastore.Blob{Account: "a", Name: "inline"}, "a", "inline copy", time.Time{}) }},
			{"move an object", 7, 9, func() { moveBlob(t, s, "copy", "moved") }},
			{"delete an object", 5, 6, func() { remove(t, s, "object") }},
			{"delete an inline content", 5, 6, func() { remove(t, s, "inline") }},
			{"list", 1, 1, func() { testenv.Must(s.ListBlobs(t.Context(), metastore.ListQuery{Account: "a", Limit: 10}))(t) }},
		} {
			texts = nil
			operation.do()
			want := operation.sqlite
			if s.db.ListsInside() { // on PostgreSQL
				want = operation.postgres
			}
			testenv.Equal(t, len(texts), want, "statements to %s", operation.name)
		}
	})
}

func opened(_ metastore.Blob, _ []metastore.Extent, err error) error { return err }
