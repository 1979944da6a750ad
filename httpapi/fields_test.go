package httpapi

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"testing"
)

// TestFields checks that fields have the values that were set and added last, however they are
// given to net/http, and also those that are set after that.
func TestFields(t *testing.T) {
	changes := map[string]func(*fields){
		"nothing":   func(*fields) {},
		"a field":   func(f *fields) { f.set("Etag", "1") },
		"set twice": func(f *fields) { f.set("Etag", "1"); f.set("Etag", "2") },
		"added":     func(f *fields) { f.add("Vary", "A"); f.set("Etag", "1"); f.add("Vary", "B"); f.add("Vary", "C") },
		"set after added": func(f *fields) {
			f.add("Vary", "A")
			f.add("Vary", "B")
			f.set("Vary", "C")
		},
		"removed": func(f *fields) {
			f.set("Etag", "1")
			f.add("Vary", "A")
			f.add("Vary", "B")
			f.remove("Vary")
			f.remove("Date")
		},
		"framing": func(f *fields) { f.set("Content-Length", "4"); f.set("Etag", "1"); f.set("Connection", "close") },
		"many": func(f *fields) {
			for i := range 100 {
				f.set("X-"+strconv.Itoa(i), strconv.Itoa(i))
			}
			f.add("X-3", "more")
		},
	}
	for first, begin := range changes {
		for second, then := range changes {
			plain := fields{header: http.Header{}}
			begin(&plain)
			then(&plain)
			want := plain.header

			inserting := fields{header: http.Header{}, inserts: true}
			begin(&inserting)
			then(&inserting)
			for name := range inserting.header {
				if inserting.inserts && !isFraming(name) {
					t.Errorf("%s is not inserted", name)
				}
			}
			if got := inserting.giveAll(); !maps.EqualFunc(got, want, slices.Equal) {
				t.Errorf("%s, then %s: inserted %v, want %v", first, second, got, want)
			}
		}
	}
	two := fields{header: http.Header{}}
	changes["added"](&two)
	changes["set after added"](&two)
	if want := (http.Header{"Etag": {"1"}, "Vary": {"C"}}); !maps.EqualFunc(two.header, want, slices.Equal) {
		t.Errorf("the header is %v, want %v", two.header, want)
	}
}

// TestInsertedFieldsAreFieldsOfTheResponse sends requests over a connection, which inserts fields,
// and to the handler without one. The responses' header fields must be the same.
func TestInsertedFieldsAreFieldsOfTheResponse(t *testing.T) {
	for _, reads := range []Reads{ReadsPublic, ReadsPaid} {
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

// TestNoFieldIsInsertedThatEndsTheLine checks that a value with a line break is left to net/http.
func TestNoFieldIsInsertedThatEndsTheLine(t *testing.T) {
	for _, value := range []string{"a\r\nInjected: b", "a\nb", "a\rb"} {
		for _, put := range []func(*fields){
			func(f *fields) { f.set("Cache-Control", value) },
			func(f *fields) { f.add("Cache-Control", value) },
		} {
			f := fields{header: http.Header{}, inserts: true}
			if put(&f); len(f.text) > 0 || f.header.Get("Cache-Control") != value {
				t.Errorf("%q was inserted: %q", value, f.text)
			}
		}
	}
}
