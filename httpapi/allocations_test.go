package httpapi

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"sluice/test/testenv"
)

// discarded is a ResponseWriter that has no connection, and takes deadlines.
type discarded struct {
	header http.Header
	status int
}

func (d *discarded) Header() http.Header         { return d.header }
func (d *discarded) WriteHeader(status int)      { d.status = status }
func (d *discarded) Write(p []byte) (int, error) { return len(p), nil }

func (*discarded) SetReadDeadline(time.Time) error  { return nil }
func (*discarded) SetWriteDeadline(time.Time) error { return nil }

// TestAllocationsOfRequests counts the allocations of small requests between the HTTP server and
// the exchange's end, including the store's, which must not become more.
// Invariant 70.
func TestAllocationsOfRequests(t *testing.T) {
	s := newService(t, nil)
	const path = "/v1/blobs/0x1/small"
	res, _ := s.want(t, 204, "PUT", path, strings.Repeat("x", 4<<10))
	tag := res.Header.Get("ETag")
	for _, one := range []struct {
		name, method, path, tag, body string
		status                        int
		most                          float64
	}{
		{"GET", "GET", path, "", "", 200, 17},
		{"HEAD", "HEAD", path, "", "", 200, 12},
		{"304", "GET", path, tag, "", 304, 14},
		{"PUT", "PUT", path, "", strings.Repeat("y", 4<<10), 204, 159},
		{"use", "POST", "/v1/sessions/" + s.newSession(t) + "/use", "", "", 200, 35},
	} {
		t.Run(one.name, func(t *testing.T) {
			r := httptest.NewRequestWithContext(context.Background(), one.method, one.path, nil)
			r.Host = "localhost:1"
			if one.tag != "" {
				r.Header.Set("If-None-Match", one.tag)
			}
			body := bytes.NewReader(nil)
			r.Body = http.NoBody
			if one.body != "" {
				r.Body, r.ContentLength = io.NopCloser(body), int64(len(one.body))
				r.Header.Set("Content-Length", "4096")
			}
			w := &discarded{header: http.Header{}}
			got := leastAllocs(func() {
				clear(w.header)
				body.Reset([]byte(one.body))
				s.ServeHTTP(w, r)
			})
			if w.status != one.status {
				t.Fatalf("status %d, want %d\n%s", w.status, one.status, s.log)
			}
			t.Logf("%v allocations", got)
			if got > one.most && !testenv.Race { // the race detector allocates, too
				t.Errorf("%v allocations, want at most %v", got, one.most)
			}
		})
	}
}

// leastAllocs returns a call's average number of allocations, in the one of several series with the
// fewest: other goroutines' allocations count too, and are more the slower the machine is.
func leastAllocs(call func()) float64 {
	least := testing.AllocsPerRun(20, call)
	for range 9 {
		least = min(least, testing.AllocsPerRun(20, call))
	}
	return least
}
