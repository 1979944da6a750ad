package sqlstore

import (
	"fmt"
	"strings"
	"testing"

	"sluice/metastore"
	"sluice/test/testenv"
)

// TestManyEndedUploads measures the space that the outcomes of many uploads with parts, metadata
// and types take in the database after a purge: no more than they count.
// Invariant 42.
func TestManyEndedUploads(t *testing.T) {
	s := openAt(t, databasePath(t), Options{})
	const uploads, parts = 100, 40
	size := func() int64 {
		t.Helper()
		return value(t, s, `SELECT (page_count - freelist_count) * page_size FROM pragma_page_count(), pragma_freelist_count(), pragma_page_size()`)
	}
	before := size()
	metadata := strings.Repeat("m", 4096)
	for i := range uploads {
		id := fmt.Sprint("upload", i)
		u := metastore.Upload{
			ID: id, Account: "a", Name: fmt.Sprint("name", i), Content: metastore.NewContentID(s.Now()), PartSize: 1, Owner: "x",
			ContentType: strings.Repeat("t", 200), Metadata: metadata,
		}
		testenv.Must(s.BeginUpload(t.Context(), u))(t)
		for k := range parts {
			testenv.OK(t, s.PutPart(t.Context(), id, metastore.Part{Index: k, Size: 1}, []metastore.Extent{{Part: k, Size: 1, Body: []byte("b")}}))
		}
		testenv.Must(s.AbortUpload(t.Context(), id))(t)
	}
	garbage := testenv.Must(s.GarbageContents(t.Context(), 0, metastore.GarbageContent{}, uploads))(t)
	for _, g := range garbage {
		extents := testenv.Must(s.Extents(t.Context(), g.Content, metastore.Position{}, parts))(t)
		var positions []metastore.Position
		for _, e := range extents {
			positions = append(positions, metastore.Position{Part: e.Part, Offset: e.Offset})
		}
		testenv.OK(t, s.DropExtents(t.Context(), g.Content, positions))
		testenv.OK(t, s.DropContent(t.Context(), g.Content))
	}
	for n := 1; n > 0; {
		n = testenv.Must(s.Purge(t.Context(), 1000))(t)
	}
	used := usageIsExact(t, s, "x")
	taken := size() - before
	t.Logf("%d ended uploads count %d bytes and take %d", uploads, used.Retained, taken)
	if used.Occupied() != used.Retained || used.Retained < uploads*metastore.RowCharge || taken > used.Retained {
		t.Errorf("%d ended uploads take %d bytes, and count %+v", uploads, taken, used)
	}
}
