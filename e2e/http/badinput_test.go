package http

import (
	"bufio"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"sluice/e2e"
	"sluice/test/testenv"
)

// TestHostileRequests sends malformed and contradictory requests.
func TestHostileRequests(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{})
	upload := s.Begin("0x1", "upload", 1000)
	tests := []struct {
		name    string
		request string
		status  int
	}{
		{"malformed escape", "GET /v1/blobs/0x1/%zz HTTP/1.1\r\nHost: localhost\r\n\r\n", 400},
		{"two lengths", "PUT /v1/blobs/0x1/name HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx", 400},
		{"negative length", "PUT /v1/blobs/0x1/name HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n", 400},
		{"no host", "GET /v1/info HTTP/1.1\r\n\r\n", 400},
		{"headers of 40 KiB", "GET /v1/info HTTP/1.1\r\nHost: localhost\r\nX-Pad: " + strings.Repeat("x", 40<<10) + "\r\n\r\n", 431},
		{"length above 5 TiB", "PUT /v1/blobs/0x1/name HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5497558138881\r\n\r\n", 413},
		{"part declared too long", "PUT " + e2e.PartTarget(upload, 0) + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5000000000\r\n\r\n", 400},
		{"too long chunked part", "PUT " + e2e.PartTarget(upload, 0) + " HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n" +
			strings.Repeat("x", 1001) + "\r\n0\r\n\r\n", 400},
		{"chunked part empty", "PUT " + e2e.PartTarget(upload, 0) + " HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
		{"malformed chunk", "PUT /v1/blobs/0x1/name HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400},
		{"JSON declared huge", "POST /v1/multipart-uploads HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\nExpect: 100-continue\r\n\r\n", 413},
		{"PUT refused before its body", "PUT /v1/blobs/0x1/name HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\nIf-Match: \"x\"\r\n\r\n", 412},
		{"PUT with Expect: 100-continue", "PUT /v1/blobs/0x1/name HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\nIf-Match: \"x\"\r\nExpect: 100-continue\r\n\r\n", 412},
		{"JSON nested deeply", fmt.Sprintf("POST /v1/multipart-uploads HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", 5+60_000, `{"a":`+strings.Repeat("[", 60_000)), 400},
		{"no host in HTTP/1.0", "GET /v1/info HTTP/1.0\r\n\r\n", 421},
		{"tunnel", "CONNECT localhost:1 HTTP/1.1\r\nHost: localhost\r\n\r\n", 404},
		{"not HTTP", "HELO there\r\n\r\n", 400},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			at := *s
			at.T = t
			if r := at.Raw(strings.Fields(test.request)[0], test.request); r.Status != test.status {
				t.Errorf("%v, want %d", r, test.status)
			} else if r.Header.Get("Content-Type") == "application/problem+json" {
				e2e.CheckProblem(t, r, test.status, "")
			}
		})
	}
	s.ListsOnly("0x1")
}

// TestContentLengthWithChunks sends a request with both a Content-Length and chunks. The chunks
// count, and the server closes the connection after its response: a proxy that used the length may
// take the next bytes for the body's end.
func TestContentLengthWithChunks(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{})
	const smuggled = "GET /v1/info HTTP/1.1\r\nHost: localhost\r\n\r\n"
	for _, request := range []string{
		"PUT " + e2e.BlobTarget("0x1", "both") + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
		"POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nContent-Length: 60\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
		"GET /livez HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nContent-Length: 60\r\n\r\n0\r\n\r\n",
	} {
		connection := s.Dial()
		s.Write(connection, request+smuggled)
		answers := bufio.NewReader(connection)
		method, _, _ := strings.Cut(request, " ")
		first, err := e2e.ReadAnswer(answers, method)
		if err != nil || first.Status >= 300 {
			t.Errorf("response to %q: %v, %v", request, first, err)
		}
		if second, err := e2e.ReadAnswer(answers, "GET"); err == nil {
			t.Errorf("the bytes after %q got the response %v", request, second)
		}
	}
	if got := s.Must(200, "GET", e2e.BlobTarget("0x1", "both"), nil); string(got.Body) != "hello" {
		t.Errorf("the blob is %q", got.Body)
	}
}

// TestCutRequestsLeaveNothing cuts uploads and downloads in the middle, and checks that no
// additional file and no blob remains.
func TestCutRequestsLeaveNothing(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{})
	s.Must(204, "PUT", e2e.BlobTarget("0x1", "kept"), e2e.Content(1, 8<<20))
	upload := s.Begin("0x1", "upload", 4<<20)
	e2e.Client.CloseIdleConnections()
	// Only objects are counted: a task may write the reserve for deletes at any time.
	objects := func() (n int) {
		for name := range s.Files() {
			if strings.HasPrefix(name, filepath.Join(s.Data, "bytes")) {
				n++
			}
		}
		return n
	}
	before := objects()
	for i := range 30 {
		requests := []string{
			fmt.Sprintf("PUT %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8000000\r\n\r\n%s", e2e.BlobTarget("0x1", "cut"), e2e.Content(2, 3<<20)),
			fmt.Sprintf("PUT %s HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n100000\r\n%s", e2e.BlobTarget("0x1", "cut"), e2e.Content(2, 1<<20)),
			fmt.Sprintf("PUT %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4000000\r\n\r\n%s", e2e.PartTarget(upload, i), e2e.Content(2, 2<<20)),
			fmt.Sprintf("GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", e2e.BlobTarget("0x1", "kept")),
		}
		for _, request := range requests {
			connection := s.Dial()
			s.Write(connection, request)
			testenv.OK(t, connection.SetLinger(0))
			testenv.OK(t, connection.Close())
		}
	}
	s.Eventually("cut uploads left files", func() bool { return objects() == before })
	s.ListsOnly("0x1", "kept")
}
