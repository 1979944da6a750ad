package httpapi

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"testing"

	"sluice/access"
)

// TestInsertedFieldsAreFieldsOfTheResponse sends requests over a connection, which inserts fields,
// and to the handler without one. The responses' header fields must be the same.
func TestInsertedFieldsAreFieldsOfTheResponse(t *testing.T) {
	for _, reads := range []access.Reads{access.ReadsPublic, access.ReadsPaid} {
		s := newService(t, func(c *Config) { c.Reads = reads })
		put, _ := s.want(t, 204, "PUT", "/v1/blobs/0x1/n", "some content of a blob",
			"Content-Type", "text/plain", "Blob-Meta-Color", "blue", "Content-Language", "de")
		session := s.newSession(t)
		for _, one := range []struct {
			method, path string
			header       []string
			status       int
		}{
			{"GET", "/v1/blobs/0x1/n", []string{"Session-Id", session}, 200},
			{"GET", "/v1/blobs/0x1/n", []string{"Session-Id", session, "Range", "bytes=1-4"}, 206},
			{"GET", "/v1/blobs/0x1/n", []string{"Session-Id", session, "Range", "bytes=99-"}, 416},
			{"GET", "/v1/blobs/0x1/n", []string{"Session-Id", session, "If-None-Match", put.Header.Get("ETag")}, 304},
			{"GET", "/v1/blobs/0x1/n", []string{"Session-Id", session, "If-Match", `"x"`}, 412},
			{"HEAD", "/v1/blobs/0x1/n", []string{"Origin", "http://localhost:1"}, 200},
			{"GET", "/v1/blobs/0x1/none", []string{"Session-Id", session, "Origin", "http://foreign"}, 403},
			{"POST", "/v1/sessions/" + session + "/use", nil, 200},
			{"PATCH", "/v1/info", nil, 405},
		} {
			t.Run(string(reads)+" "+one.method+" "+strconv.Itoa(one.status), func(t *testing.T) {
				header := append([]string{"X-Request-Id", "id"}, one.header...)
				got, _ := s.do(t, one.method, one.path, "", header...)
				want := s.direct(t.Context(), "192.0.2.1:1", one.method, one.path, "", header...)
				if got.StatusCode != one.status || want.StatusCode != one.status {
					t.Errorf("status %d and %d, want %d", got.StatusCode, want.StatusCode, one.status)
				}
				for _, h := range []http.Header{got.Header, want.Header} {
					h.Del("Date") // net/http adds it
					h.Del("Chunksets-Left")
					h.Del("Server-Timing")
				}
				for name := range want.Header {
					if name != http.CanonicalHeaderKey(name) {
						t.Errorf("the name %s is not canonical", name)
					}
				}
				if !maps.EqualFunc(got.Header, want.Header, slices.Equal) {
					t.Errorf("over a connection:\n%v\nwithout:\n%v", got.Header, want.Header)
				}
			})
		}
	}
}
