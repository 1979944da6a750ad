package httpapi

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestFixedHeadersAreNotWrittenTo checks that what is added to or set in one response does not
// appear in the next.
func TestFixedHeadersAreNotWrittenTo(t *testing.T) {
	for _, value := range []fixed{noReferrer, varyOrigin, noCache} {
		want := value[0]
		h := http.Header{}
		setFixed(h, "Vary", value)
		h.Add("Vary", "Accept")
		if got := h.Values("Vary"); len(got) != 2 || got[0] != want {
			t.Errorf("after Add the header is %q", got)
		}
		setFixed(h, "Vary", value)
		h.Set("Vary", "Accept")
		next := http.Header{}
		setFixed(next, "Vary", value)
		if got := next.Values("Vary"); len(got) != 1 || got[0] != want {
			t.Errorf("the next response has %q, want %q", got, want)
		}
	}
}

// TestInsertedFieldsAreFieldsOfTheResponse sends requests over a connection, which inserts fields, and
// to the handler without one. The header fields of the responses must be the same.
func TestInsertedFieldsAreFieldsOfTheResponse(t *testing.T) {
	for _, reads := range []Reads{ReadsPublic, ReadsPaid} {
		s := newService(t, func(c *Config, _ *Server) { c.Reads = reads })
		put, body := s.do(t, "PUT", "/v1/blobs/0x1/n", "some content of a blob",
			"Content-Type", "text/plain", "Blob-Meta-Color", "blue", "Content-Language", "de")
		if put.StatusCode != http.StatusNoContent {
			t.Fatalf("%d %s", put.StatusCode, body)
		}
		_, text := s.do(t, "POST", "/v1/sessions", "")
		session := strings.Split(text, `"`)[3]
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
				r := httptest.NewRequest(one.method, "http://localhost"+one.path, nil)
				for i := 0; i < len(header); i += 2 {
					r.Header.Set(header[i], header[i+1])
				}
				w := httptest.NewRecorder()
				s.ServeHTTP(w, r)
				want := w.Result()
				if got.StatusCode != one.status || want.StatusCode != one.status {
					t.Errorf("status %d and %d, want %d", got.StatusCode, want.StatusCode, one.status)
				}
				for _, h := range []http.Header{got.Header, want.Header} {
					h.Del("Date") // net/http adds it
					h.Del("Chunksets-Left")
					h.Del("Server-Timing")
				}
				if !maps.EqualFunc(got.Header, want.Header, slices.Equal) {
					t.Errorf("over a connection:\n%v\nwithout:\n%v", got.Header, want.Header)
				}
			})
		}
	}
}

// TestNoFieldIsInsertedThatEndsTheLine checks that a value with a line break is left to net/http.
func TestNoFieldIsInsertedThatEndsTheLine(t *testing.T) {
	for _, value := range []string{"a\r\nInjected: b", "a\nb", "a\rb"} {
		var fields inserted
		if fields.insert("Cache-Control", value) || len(fields.text) > 0 {
			t.Errorf("%q was inserted: %q", value, fields.text)
		}
	}
}
