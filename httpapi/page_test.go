package httpapi

import (
	"fmt"
	"net/netip"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"sluice/access"
	"sluice/access/keys"
	"sluice/exchange"
	"sluice/ledger"
	"sluice/metastore"
	"sluice/test/testenv"
)

// longBlobs stores n blobs with the longest names and much metadata, and returns how long the texts
// of each are.
func longBlobs(t *testing.T, s *service, n int) (size int) {
	t.Helper()
	for i := range n {
		name := fmt.Sprintf("%04d", i) + strings.Repeat("\u0e01", 1000)
		metadata := "Content-Disposition:" + strings.Repeat("\"", 200) + "\nX-Blob-Meta-A:" + strings.Repeat("\\", 2000) + "\n"
		b := metastore.Blob{Account: "ours", Name: name, Content: metastore.NewContentID(time.Now()), ContentType: "text/plain", Metadata: metadata}
		testenv.OK(t, testenv.Error(s.meta.CommitBlob(t.Context(), b, nil, nil)))
		size = len(name) + len(metadata)
	}
	return size
}

// TestPagesAreBounded lists long entries: a page ends when it has enough bytes, and the pages
// together have everything once.
// Invariant 74.
func TestPagesAreBounded(t *testing.T) {
	s := newService(t, nil)
	const blobs, uploads, sessions = 400, 400, 30
	size := longBlobs(t, s, blobs)
	for i := range uploads {
		u := metastore.Upload{ID: fmt.Sprintf("upload%d", i), Account: "ours", Name: strings.Repeat("\u0e01", 1000), Content: metastore.NewContentID(time.Now()), PartSize: 1}
		testenv.OK(t, testenv.Error(s.meta.BeginUpload(t.Context(), u)))
	}
	for i := range sessions {
		one := ledger.Session{ID: fmt.Sprintf("session%d", i), UserIdentity: strings.Repeat("u", 60<<10), Total: 1, Left: 1, Expires: time.Now().Add(time.Hour)}
		testenv.OK(t, testenv.Error(s.meta.CreateSession(t.Context(), one, nil)))
	}
	for path, want := range map[string]int{
		"/v1/blobs/ours?include=metadata":    blobs,
		"/v1/blobs/ours?delimiter=%E0%B8%81": blobs,
		"/v1/multipart-uploads?account=ours": uploads,
		"/v1/local/sessions?":                sessions,
	} {
		got, pages, next := 0, 0, ""
		for {
			_, body := s.want(t, 200, "GET", path+"&after="+url.QueryEscape(next), "")
			if most := 2*exchange.PageBytes + 64<<10; len(body) > most {
				t.Errorf("%s: a page of %d bytes, want at most %d", path, len(body), most)
			}
			var page struct {
				Blobs, Uploads, Sessions, Prefixes []any
				Next                               string
			}
			testenv.OK(t, json.Unmarshal([]byte(body), &page, json.MatchCaseInsensitiveNames(true)))
			entries := len(page.Blobs) + len(page.Uploads) + len(page.Sessions) + len(page.Prefixes)
			if entries == 0 {
				t.Fatalf("%s: a page without entries", path)
			}
			got += entries
			pages++
			if next = page.Next; next == "" {
				break
			}
		}
		if got != want {
			t.Errorf("%s: %d entries on %d pages, want %d", path, got, pages, want)
		}
		if strings.Contains(path, "metadata") && pages < blobs*size/exchange.PageBytes {
			t.Errorf("%s: %d pages", path, pages)
		}
	}
	for s.ReplyMemory() > 0 { // until the last handler has ended
		runtime.Gosched()
	}
}

// TestPagesCostRequests: a page of many entries uses up as much of the request rate as several
// requests.
// Invariant 74.
func TestPagesCostRequests(t *testing.T) {
	const rate = 4
	h := newHosted(t, access.ReadsPublic, access.ScopeRead, limited(keys.Limits{RequestsPerSecond: rate, ConcurrentRequests: 64}))
	const names = 3*exchange.EntriesOfRequest + 1
	for i := range names {
		b := metastore.Blob{Account: "ours", Name: fmt.Sprintf("%d/n", i), Content: metastore.NewContentID(time.Now())}
		testenv.OK(t, testenv.Error(h.meta.CommitBlob(t.Context(), b, nil, nil)))
	}
	from := netip.MustParseAddr("192.0.2.1")
	for path, cost := range map[string]time.Duration{
		"/v1/blobs/ours?limit=100":            1,
		"/v1/blobs/ours?limit=101":            2,
		"/v1/blobs/ours?delimiter=/":          4,
		"/v1/blobs/ours?delimiter=/&prefix=x": 1,
	} {
		address := h.Limiter().OfAddress(from)
		began := time.Now()
		testenv.Equal(t, h.direct(t.Context(), from.String()+":1", "GET", path, "").StatusCode, 200, "%s", path)
		_, full := address.Requests()
		// The rate makes up for the cost since the request began.
		if most := cost * time.Second / rate; full > most || full < most-time.Since(began) {
			t.Errorf("%s: the rate is full again in %v, want at most %v and not much less", path, full, most)
		}
		address.Release()
		from = from.Next() // with the full rate
	}
}
