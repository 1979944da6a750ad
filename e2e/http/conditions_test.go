package http

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
	"time"

	"sluice/e2e"
	"sluice/internal/testenv"
)

// TestConditionsOfReads tests the preconditions of GET and HEAD.
func TestConditionsOfReads(t *testing.T) { overEachProtocol(t, testConditionsOfReads) }

func testConditionsOfReads(t *testing.T, s *e2e.Server) {
	for _, b := range storeShapes(s)[1:3] {
		t.Run(b.name, func(t *testing.T) {
			at := *s
			at.T = t
			conditionsOfReads(&at, b)
			ifRange(&at, b)
		})
	}
	// A missing blob has no version to compare.
	for _, header := range []string{"If-None-Match", "If-Match"} {
		e2e.CheckProblem(t, s.Do("GET", e2e.BlobTarget("0x1", "absent"), nil, header, "*"), 404, "blob_not_found")
	}
}

// httpDate shifts an HTTP-date.
func httpDate(t testing.TB, date string, by time.Duration) string {
	t.Helper()
	when, err := http.ParseTime(date)
	testenv.OK(t, err)
	return when.Add(by).Format(http.TimeFormat)
}

func conditionsOfReads(s *e2e.Server, b stored) {
	s.T.Helper()
	modified := s.Must(200, "HEAD", b.target(), nil).Header.Get("Last-Modified")
	before, after := httpDate(s.T, modified, -time.Hour), httpDate(s.T, modified, time.Hour)
	tests := []struct {
		headers e2e.Headers
		status  int
	}{
		{e2e.Headers{"If-None-Match", b.etag}, 304},
		{e2e.Headers{"If-None-Match", "W/" + b.etag}, 304},
		{e2e.Headers{"If-None-Match", "*"}, 304},
		{e2e.Headers{"If-None-Match", `"x", ` + b.etag}, 304},
		{e2e.Headers{"If-None-Match", `"x"`, "If-None-Match", b.etag}, 304},
		{e2e.Headers{"If-None-Match", `"x"`}, 200},
		{e2e.Headers{"If-None-Match", b.etag, "Range", "bytes=0-0"}, 304},
		{e2e.Headers{"If-None-Match", `"x"`, "Range", "bytes=0-0"}, 206},
		{e2e.Headers{"If-Match", b.etag}, 200},
		{e2e.Headers{"If-Match", "*"}, 200},
		{e2e.Headers{"If-Match", `"x", ` + b.etag}, 200},
		{e2e.Headers{"If-Match", `"x"`}, 412},
		{e2e.Headers{"If-Match", "W/" + b.etag}, 412},
		{e2e.Headers{"If-Match", b.etag, "If-None-Match", b.etag}, 304},
		{e2e.Headers{"If-Match", `"x"`, "If-None-Match", b.etag}, 412},
		{e2e.Headers{"If-Modified-Since", modified}, 304},
		{e2e.Headers{"If-Modified-Since", after}, 304},
		{e2e.Headers{"If-Modified-Since", before}, 200},
		{e2e.Headers{"If-Modified-Since", "yesterday"}, 200},
		{e2e.Headers{"If-Modified-Since", modified, "If-None-Match", `"x"`}, 200},
		{e2e.Headers{"If-Modified-Since", before, "If-None-Match", b.etag}, 304},
		{e2e.Headers{"If-Unmodified-Since", modified}, 200},
		{e2e.Headers{"If-Unmodified-Since", after}, 200},
		{e2e.Headers{"If-Unmodified-Since", before}, 412},
		{e2e.Headers{"If-Unmodified-Since", "yesterday"}, 200},
		{e2e.Headers{"If-Unmodified-Since", before, "If-Match", b.etag}, 200},
		{e2e.Headers{"If-Unmodified-Since", after, "If-Match", `"x"`}, 412},
		{e2e.Headers{"If-Match", `"x"`, "Range", "bytes=99999999999-"}, 412},
		{e2e.Headers{"If-None-Match", b.etag, "Range", "bytes=99999999999-"}, 304},
		{e2e.Headers{"If-Match", b.etag, "Range", "bytes=99999999999-"}, 416},
	}
	for _, test := range tests {
		if s.Proxied && len(test.headers) == 4 && test.headers[0] == test.headers[2] {
			continue // nginx refuses a repeated condition
		}
		r := s.Do("GET", b.target(), nil, test.headers...)
		if r.Status != test.status {
			s.T.Errorf("%q: %v, want %d", test.headers, r, test.status)
			continue
		}
		switch r.Status {
		case 304:
			if len(r.Body) != 0 || r.Header.Get("ETag") != b.etag || r.Header.Get("Cache-Control") != "no-cache" {
				s.T.Errorf("%q: %v", test.headers, r)
			}
		case 412:
			e2e.CheckProblem(s.T, r, 412, "precondition_failed")
		}
		if head := s.Do("HEAD", b.target(), nil, test.headers...); head.Status != test.status && test.status != 206 && test.status != 416 {
			s.T.Errorf("HEAD %q: %d, want %d", test.headers, head.Status, test.status)
		}
	}
}

func ifRange(s *e2e.Server, b stored) {
	s.T.Helper()
	modified := s.Must(200, "HEAD", b.target(), nil).Header.Get("Last-Modified")
	tests := []struct {
		value  string
		status int
	}{
		{b.etag, 206},
		{`"x"`, 200},
		{"W/" + b.etag, 200},
		{httpDate(s.T, modified, -time.Hour), 200},
		{httpDate(s.T, modified, time.Hour), 200},
		{"nonsense", 200},
	}
	for _, test := range tests {
		r := s.Do("GET", b.target(), nil, "Range", "bytes=3-9", "If-Range", test.value)
		want := b.data
		if test.status == 206 {
			want = b.data[3:10]
		}
		if r.Status != test.status || !bytes.Equal(r.Body, want) {
			s.T.Errorf("If-Range %s: %v, want %d", test.value, r, test.status)
		}
	}
	if r := s.Do("GET", b.target(), nil, "If-Range", `"x"`); r.Status != 200 {
		s.T.Errorf("If-Range alone: %v", r)
	}
	if r := s.Do("GET", b.target(), nil, "Range", "bytes=99999999999-", "If-Range", `"x"`); r.Status != 200 {
		s.T.Errorf("If-Range of another version with an unsatisfiable range: %v", r)
	}
}

// TestConditionsOfWrites tests the preconditions of PUT, DELETE and complete.
func TestConditionsOfWrites(t *testing.T) { overEachProtocol(t, testConditionsOfWrites) }

func testConditionsOfWrites(t *testing.T, s *e2e.Server) {
	target := e2e.BlobTarget("0x1", "name")
	first := s.Must(204, "PUT", target, []byte("first"), "If-None-Match", "*").Header.Get("ETag")
	refused := []e2e.Headers{
		{"If-None-Match", "*"},
		{"If-Match", `"x"`},
		{"If-Match", "W/" + first},
	}
	for _, h := range refused {
		for _, body := range []string{"second", strings.Repeat("long", 1<<20)} {
			e2e.CheckProblem(t, s.Do("PUT", target, []byte(body), h...), 412, "precondition_failed")
		}
		if h[0] == "If-Match" {
			e2e.CheckProblem(t, s.Do("DELETE", target, nil, h...), 412, "precondition_failed")
		}
		id := s.Begin("0x1", "name", 1000)
		s.Parts(id, []byte("second"), 1000)
		e2e.CheckProblem(t, s.Do("POST", "/v1/multipart-uploads/"+id+"/complete", nil, h...), 412, "precondition_failed")
		if state := s.Must(200, "GET", "/v1/multipart-uploads/"+id, nil).Object(t); e2e.Text(t, state, "state") != "open" {
			t.Errorf("a refused complete left the upload %v", state)
		}
		s.Must(204, "DELETE", "/v1/multipart-uploads/"+id, nil)
		if r := s.Must(200, "GET", target, nil); string(r.Body) != "first" {
			t.Errorf("a refused write changed the blob to %q", r.Body)
		}
	}
	id := s.Begin("0x1", "name", 1000, "ifNoneMatch", "*")
	e2e.CheckProblem(t, s.Do("POST", "/v1/multipart-uploads/"+id+"/complete", nil), 412, "precondition_failed")

	second := s.Must(204, "PUT", target, []byte("second"), "If-Match", `"x", `+first).Header.Get("ETag")
	if second == first {
		t.Errorf("other bytes have the same ETag %s", first)
	}
	s.Must(204, "DELETE", target, nil, "If-Match", second)
	s.Must(200, "POST", "/v1/multipart-uploads/"+id+"/complete", nil)
	e2e.CheckProblem(t, s.Do("DELETE", e2e.BlobTarget("0x1", "absent"), nil, "If-Match", "*"), 412, "precondition_failed")
}

// TestCreateOnce sends many concurrent PUTs with If-None-Match for one name: one must succeed.
func TestCreateOnce(t *testing.T) { overEachProtocol(t, testCreateOnce) }

func testCreateOnce(t *testing.T, s *e2e.Server) {
	for round := range 5 {
		target := e2e.BlobTarget("0x1", "name") + strings.Repeat("x", round)
		const racers = 16
		statuses := make(chan int, racers)
		for i := range racers {
			go func() {
				r, err := s.Try("PUT", target, e2e.Content(uint64(i), 1000), "If-None-Match", "*")
				if err != nil {
					t.Errorf("PUT: %v", err)
				}
				statuses <- r.Status
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
