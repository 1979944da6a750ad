package e2e

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestConditionsOfReads tests the preconditions of GET and HEAD.
func TestConditionsOfReads(t *testing.T) { overEachProtocol(t, testConditionsOfReads) }

func testConditionsOfReads(t *testing.T, s *server) {
	for _, b := range storeShapes(s)[1:3] {
		t.Run(b.name, func(t *testing.T) {
			at := *s
			at.t = t
			at.conditionsOfReads(b)
			at.ifRange(b)
		})
	}
	// A missing blob has no version to compare.
	for _, header := range []string{"If-None-Match", "If-Match"} {
		checkProblem(t, s.do("GET", blobTarget("0x1", "absent"), nil, header, "*"), 404, "blob_not_found")
	}
}

// httpDate shifts an HTTP-date.
func httpDate(t testing.TB, date string, by time.Duration) string {
	t.Helper()
	when, err := http.ParseTime(date)
	if err != nil {
		t.Fatal(err)
	}
	return when.Add(by).Format(http.TimeFormat)
}

func (s *server) conditionsOfReads(b stored) {
	s.t.Helper()
	modified := s.must(200, "HEAD", b.target(), nil).header.Get("Last-Modified")
	before, after := httpDate(s.t, modified, -time.Hour), httpDate(s.t, modified, time.Hour)
	tests := []struct {
		headers headers
		status  int
	}{
		{headers{"If-None-Match", b.etag}, 304},
		{headers{"If-None-Match", "W/" + b.etag}, 304},
		{headers{"If-None-Match", "*"}, 304},
		{headers{"If-None-Match", `"x", ` + b.etag}, 304},
		{headers{"If-None-Match", `"x"`, "If-None-Match", b.etag}, 304},
		{headers{"If-None-Match", `"x"`}, 200},
		{headers{"If-None-Match", b.etag, "Range", "bytes=0-0"}, 304},
		{headers{"If-None-Match", `"x"`, "Range", "bytes=0-0"}, 206},
		{headers{"If-Match", b.etag}, 200},
		{headers{"If-Match", "*"}, 200},
		{headers{"If-Match", `"x", ` + b.etag}, 200},
		{headers{"If-Match", `"x"`}, 412},
		{headers{"If-Match", "W/" + b.etag}, 412},
		{headers{"If-Match", b.etag, "If-None-Match", b.etag}, 304},
		{headers{"If-Match", `"x"`, "If-None-Match", b.etag}, 412},
		{headers{"If-Modified-Since", modified}, 304},
		{headers{"If-Modified-Since", after}, 304},
		{headers{"If-Modified-Since", before}, 200},
		{headers{"If-Modified-Since", "yesterday"}, 200},
		{headers{"If-Modified-Since", modified, "If-None-Match", `"x"`}, 200},
		{headers{"If-Modified-Since", before, "If-None-Match", b.etag}, 304},
		{headers{"If-Unmodified-Since", modified}, 200},
		{headers{"If-Unmodified-Since", after}, 200},
		{headers{"If-Unmodified-Since", before}, 412},
		{headers{"If-Unmodified-Since", "yesterday"}, 200},
		{headers{"If-Unmodified-Since", before, "If-Match", b.etag}, 200},
		{headers{"If-Unmodified-Since", after, "If-Match", `"x"`}, 412},
		{headers{"If-Match", `"x"`, "Range", "bytes=99999999999-"}, 412},
		{headers{"If-None-Match", b.etag, "Range", "bytes=99999999999-"}, 304},
		{headers{"If-Match", b.etag, "Range", "bytes=99999999999-"}, 416},
	}
	for _, test := range tests {
		if s.proxied && len(test.headers) == 4 && test.headers[0] == test.headers[2] {
			continue // nginx refuses a repeated condition
		}
		r := s.do("GET", b.target(), nil, test.headers...)
		if r.status != test.status {
			s.t.Errorf("%q: %v, want %d", test.headers, r, test.status)
			continue
		}
		switch r.status {
		case 304:
			if len(r.body) != 0 || r.header.Get("ETag") != b.etag || r.header.Get("Cache-Control") != "no-cache" {
				s.t.Errorf("%q: %v", test.headers, r)
			}
		case 412:
			checkProblem(s.t, r, 412, "precondition_failed")
		}
		if head := s.do("HEAD", b.target(), nil, test.headers...); head.status != test.status && test.status != 206 && test.status != 416 {
			s.t.Errorf("HEAD %q: %d, want %d", test.headers, head.status, test.status)
		}
	}
}

func (s *server) ifRange(b stored) {
	s.t.Helper()
	modified := s.must(200, "HEAD", b.target(), nil).header.Get("Last-Modified")
	tests := []struct {
		value  string
		status int
	}{
		{b.etag, 206},
		{`"x"`, 200},
		{"W/" + b.etag, 200},
		{httpDate(s.t, modified, -time.Hour), 200},
		{httpDate(s.t, modified, time.Hour), 200},
		{"nonsense", 200},
	}
	for _, test := range tests {
		r := s.do("GET", b.target(), nil, "Range", "bytes=3-9", "If-Range", test.value)
		want := b.data
		if test.status == 206 {
			want = b.data[3:10]
		}
		if r.status != test.status || !bytes.Equal(r.body, want) {
			s.t.Errorf("If-Range %s: %v, want %d", test.value, r, test.status)
		}
	}
	if r := s.do("GET", b.target(), nil, "If-Range", `"x"`); r.status != 200 {
		s.t.Errorf("If-Range alone: %v", r)
	}
	if r := s.do("GET", b.target(), nil, "Range", "bytes=99999999999-", "If-Range", `"x"`); r.status != 200 {
		s.t.Errorf("If-Range of another version with an unsatisfiable range: %v", r)
	}
}

// TestConditionsOfWrites tests the preconditions of PUT, DELETE and complete.
func TestConditionsOfWrites(t *testing.T) { overEachProtocol(t, testConditionsOfWrites) }

func testConditionsOfWrites(t *testing.T, s *server) {
	target := blobTarget("0x1", "name")
	first := s.must(204, "PUT", target, []byte("first"), "If-None-Match", "*").header.Get("ETag")
	refused := []headers{
		{"If-None-Match", "*"},
		{"If-Match", `"x"`},
		{"If-Match", "W/" + first},
	}
	for _, h := range refused {
		for _, body := range []string{"second", strings.Repeat("long", 1<<20)} {
			checkProblem(t, s.do("PUT", target, []byte(body), h...), 412, "precondition_failed")
		}
		if h[0] == "If-Match" {
			checkProblem(t, s.do("DELETE", target, nil, h...), 412, "precondition_failed")
		}
		id := s.begin("0x1", "name", 1000)
		s.parts(id, []byte("second"), 1000)
		checkProblem(t, s.do("POST", "/v1/multipart-uploads/"+id+"/complete", nil, h...), 412, "precondition_failed")
		if state := s.must(200, "GET", "/v1/multipart-uploads/"+id, nil).object(t); text(t, state, "state") != "open" {
			t.Errorf("a refused complete left the upload %v", state)
		}
		s.must(204, "DELETE", "/v1/multipart-uploads/"+id, nil)
		if r := s.must(200, "GET", target, nil); string(r.body) != "first" {
			t.Errorf("a refused write changed the blob to %q", r.body)
		}
	}
	id := s.begin("0x1", "name", 1000, "ifNoneMatch", "*")
	checkProblem(t, s.do("POST", "/v1/multipart-uploads/"+id+"/complete", nil), 412, "precondition_failed")

	second := s.must(204, "PUT", target, []byte("second"), "If-Match", `"x", `+first).header.Get("ETag")
	if second == first {
		t.Errorf("other bytes have the same ETag %s", first)
	}
	s.must(204, "DELETE", target, nil, "If-Match", second)
	s.must(200, "POST", "/v1/multipart-uploads/"+id+"/complete", nil)
	checkProblem(t, s.do("DELETE", blobTarget("0x1", "absent"), nil, "If-Match", "*"), 412, "precondition_failed")
}

// TestCreateOnce sends many concurrent PUTs with If-None-Match for one name: one must succeed.
func TestCreateOnce(t *testing.T) { overEachProtocol(t, testCreateOnce) }

func testCreateOnce(t *testing.T, s *server) {
	for round := range 5 {
		target := blobTarget("0x1", "name") + strings.Repeat("x", round)
		const racers = 16
		statuses := make(chan int, racers)
		for i := range racers {
			go func() {
				r, err := s.try("PUT", target, content(uint64(i), 1000), "If-None-Match", "*")
				if err != nil {
					t.Errorf("PUT: %v", err)
				}
				statuses <- r.status
			}()
		}
		count := map[int]int{}
		for range racers {
			count[<-statuses]++
		}
		if count[204] != 1 || count[412] != racers-1 {
			t.Errorf("statuses %v, want one 204 and %d 412", count, racers-1)
		}
	}
}
