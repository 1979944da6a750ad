package httpapi

import (
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"sluice/test/testenv"
)

// answer is a response as a client sees it.
type answer struct {
	status int
	header http.Header
	body   string
}

// exchangeOf sends requests on one connection, each after the response to the one before.
func exchangeOf(t *testing.T, addr string, requests []string) (answers []answer, err error) {
	t.Helper()
	conn := dial(t, addr)
	for _, request := range requests {
		conn.send(t, request)
		method, _, _ := strings.Cut(request, " ")
		var res *http.Response
		for res == nil || res.StatusCode == http.StatusContinue {
			if res, err = http.ReadResponse(conn.r, &http.Request{Method: method}); err != nil {
				return answers, err
			}
		}
		body, err := io.ReadAll(res.Body)
		if err != nil {
			return answers, err
		}
		for _, differs := range []string{"Date", "Last-Modified", "Server-Timing"} {
			res.Header.Del(differs)
		}
		answers = append(answers, answer{res.StatusCode, res.Header, string(body)})
	}
	return answers, nil
}

// TestPlainPath serves requests by a release of Go with which httpconn is not tested: on the plain
// path, which one warning announces, each response is as usual.
func TestPlainPath(t *testing.T) {
	s := newService(t, nil)
	content := strings.Repeat("content ", 10_000) // which sendfile sends
	request := func(line, fields, body string) string {
		return line + " HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: id\r\n" + fields + "\r\n" + body
	}
	requests := []string{
		request("PUT /v1/blobs/0x1/small", "Content-Length: 4\r\nBlob-Meta-Color: blue\r\n", "blob"),
		request("PUT /v1/blobs/0x1/large", "Expect: 100-continue\r\nContent-Length: 80000\r\n", content),
		request("GET /v1/blobs/0x1/small", "", ""),
		request("GET /v1/blobs/0x1/large", "", ""),
		request("GET /v1/blobs/0x1/large", "Range: bytes=1-4\r\n", ""),
		request("GET /v1/blobs/0x1/large", "Range: bytes=1-4,9-9999\r\nIf-Range: \"x\"\r\n", ""),
		request("HEAD /v1/blobs/0x1/large", "", ""),
		request("GET /v1/blobs/0x1/none", "", ""),
		request("OPTIONS /v1/info", "Origin: http://localhost:1\r\n", ""),
		request("DELETE /v1/blobs/0x1/small", "", ""),
	}
	want := testenv.Must(exchangeOf(t, s.addr, requests))(t)
	for i, status := range []int{204, 204, 200, 200, 206, 200, 200, 404, 204, 204} {
		if want[i].status != status {
			t.Fatalf("request %d: status %d, want %d", i+1, want[i].status, status)
		}
	}
	same := func(a, b answer) bool {
		return a.status == b.status && maps.EqualFunc(a.header, b.header, slices.Equal) && a.body == b.body
	}

	addr, log := serveBy(t, s.ServerOf(s.Server), newConnections(10), "go1.0")
	got, err := exchangeOf(t, addr, requests)
	if err != nil || !slices.EqualFunc(got, want, same) {
		t.Errorf("on the plain path: %v, %v\nwant %v", err, got, want)
	}
	if text := log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "level=WARN") {
		t.Errorf("the log of a release that was not tested: %q", text)
	}
}
