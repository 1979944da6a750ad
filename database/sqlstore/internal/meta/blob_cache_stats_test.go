package meta

import (
	"fmt"
	"testing"
	"time"

	"sluice/metastore"
	"sluice/test/testenv"
)

// TestStatsOfTheBlobCache reads blobs that are cached, that are not, and that do not fit together.
func TestStatsOfTheBlobCache(t *testing.T) {
	s := openCached(t, 4<<10, 0)
	const blobs = 20
	for i := range blobs {
		b := metastore.Blob{Account: "a", Name: fmt.Sprint(i), Content: metastore.NewContentID(time.Now()), Size: 1}
		testenv.Must(s.CommitBlob(t.Context(), b, []metastore.Extent{{Size: 1, Blocks: []uint32{1}, Body: []byte("x")}}, nil))(t)
	}
	for i := range blobs {
		for range 2 {
			opened(t, s, fmt.Sprint(i))
		}
	}
	s.rows.rows.CleanUp() // evictions are made in the background
	got := s.rows.Stats()
	if got.Hits+got.Misses != 2*blobs || got.Hits == 0 || got.Misses < blobs || got.Evictions == 0 || got.Bytes == 0 || got.Bytes > 8<<10 {
		t.Errorf("the figures are %+v", got)
	}
}
