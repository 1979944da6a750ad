package meta

import (
	"fmt"
	"testing"
	"time"

	"sluice/internal/testenv"
	"sluice/metastore"
)

// TestAllocationsOfLists checks that a page of names takes little more than one allocation for each
// name, which is the name.
func TestAllocationsOfLists(t *testing.T) {
	const names = 300
	s, _ := openPostgres(t)
	for i := range names {
		b := metastore.Blob{
			Account: "a", Name: fmt.Sprintf("name %03d", i), Content: metastore.NewContentID(time.Now()), CRC64: uint64(i) << 40,
			ContentType: "text/plain", Owner: "owner", Expires: time.Now().Add(time.Hour),
		}
		testenv.Must(s.CommitBlob(t.Context(), b, nil, nil))(t)
	}
	got := testing.AllocsPerRun(50, func() {
		p, err := s.ListBlobs(t.Context(), metastore.ListQuery{Account: "a", Limit: names})
		if err != nil || len(p.Blobs) != names || p.Blobs[7].Name != "name 007" || p.Blobs[7].CRC64 != 7<<40 || p.Blobs[7].ContentType != "text/plain" || p.Blobs[7].Owner != "owner" {
			t.Errorf("%d names, %v", len(p.Blobs), err)
		}
	})
	t.Logf("%v allocations", got)
	if got > names+100 && !testenv.Race { // the race detector allocates, too
		t.Errorf("%v allocations for %d names, want at most %d", got, names, names+100)
	}
}
