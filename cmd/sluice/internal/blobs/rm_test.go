package blobs

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"sluice/client"
	"sluice/cmd/sluice/internal/cli"
	"sluice/cmd/sluice/internal/contexts"
	"sluice/test/testenv"
	"sluice/wire"
)

// TestRemovalSparesWhatIsNew checks that a blob that was written after the question is not deleted.
func TestRemovalSparesWhatIsNew(t *testing.T) {
	blobs := 5
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		var page wire.BlobPage
		for i := range blobs {
			page.Blobs = append(page.Blobs, wire.Blob{Name: fmt.Sprint("x/", i), Size: 1, LastModified: time.Unix(int64(i), 0)})
		}
		testenv.Check(t, json.NewEncoder(w).Encode(page))
	}))
	defer s.Close()
	on, err := cli.NewClient(&cli.Console{Err: io.Discard}, contexts.Server{URL: s.URL}, client.Options{})
	testenv.OK(t, err)
	var of cli.RemoteOperand
	testenv.OK(t, of.UnmarshalText([]byte("team/x")))
	d := &belowAll{on: on, prefixes: []cli.RemoteOperand{of}}
	if err := d.count(t.Context()); err != nil || d.blobs != 5 || d.bytes != 5 {
		t.Fatalf("%d blobs with %d bytes, %v", d.blobs, d.bytes, err)
	}
	blobs = 7
	n := 0
	for _, err := range d.items(t.Context()) {
		testenv.OK(t, err)
		n++
	}
	if n != 5 {
		t.Errorf("%d would be deleted", n)
	}
}
