package load

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"sluice/test/testenv"
)

// timeout is longer than any request in the tests takes.
const timeout = time.Minute

func newTarget(t testing.TB, url string, timeout time.Duration) *Target {
	t.Helper()
	target := testenv.Must(NewTarget(url, "key", "agent", timeout))(t)
	return target
}

// serve runs a server that counts its connections, and returns their number.
func serve(t testing.TB, handler http.HandlerFunc) (url string, connections func() int) {
	t.Helper()
	opened := make(chan struct{}, 1000)
	s := httptest.NewUnstartedServer(handler)
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			opened <- struct{}{}
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	return s.URL, func() int { return len(opened) }
}

// get requests a path, and returns the request's error.
func get(ctx context.Context, c *Conn, path string) error {
	_, err := c.Do(ctx, &Request{Method: "GET", Path: path}, 200, false)
	return err
}

// TestConnReceivesResponses sends requests with all kinds of responses over one connection, so that
// one's rest would be taken for the next.
func TestConnReceivesResponses(t *testing.T) {
	url, connections := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.Header.Get("Authorization") != "Bearer key" || r.UserAgent() != "agent" || int64(len(body)) != r.ContentLength {
			t.Errorf("%s %s: %v %v", r.Method, r.URL, r.Header, err)
		}
		switch strings.TrimPrefix(r.URL.Path, "/base") {
		case "/echo":
			_, err = w.Write(body)
		case "/large":
			_, err = w.Write(bytes.Repeat([]byte("x"), 3<<20))
		case "/chunked":
			w.Header().Set("Trailer", "Sum")
			_, err = io.WriteString(w, "first ")
			w.(http.Flusher).Flush()
			if err == nil {
				_, err = io.WriteString(w, "second")
			}
			w.Header().Set("Sum", "1")
		case "/early":
			w.Header().Set("Link", "</x>")
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusNoContent)
		case "/problem":
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusTooManyRequests)
			_, err = io.WriteString(w, `{"code":"rate_limited","detail":"Slow down.","requestId":"r"}`)
		case "/plain":
			w.WriteHeader(http.StatusBadGateway)
		case "/unmodified":
			w.WriteHeader(http.StatusNotModified)
		}
		testenv.Check(t, err)
	})
	content := Content{Size: 2*noiseSize + 5, Seed: 3}
	whole := testenv.Must(io.ReadAll(content.reader()))(t)
	c := NewConn(newTarget(t, url+"/base/", timeout))
	defer c.Close()
	for range 2 {
		for _, test := range []struct {
			request Request
			status  int // that is wanted
			length  int64
			body    string
			err     string
		}{
			{Request{Method: "POST", Path: "/echo", Body: []byte("body")}, 200, 4, "body", ""},
			{Request{Method: "POST", Path: "/echo", Body: []byte{}}, 200, 0, "", ""},
			{Request{Method: "PUT", Path: "/echo", Content: content, Offset: 100, Length: 1000}, 200, 1000, string(whole[100:1100]), ""},
			{Request{Method: "PUT", Path: "/echo", Content: content, Length: content.Size}, 200, content.Size, string(whole[:maxKept]), ""},
			{Request{Method: "GET", Path: "/large"}, 200, 3 << 20, strings.Repeat("x", maxKept), ""},
			{Request{Method: "HEAD", Path: "/large"}, 200, 0, "", ""},
			{Request{Method: "GET", Path: "/chunked", Fields: "A: b\r\n"}, 200, 12, "first second", ""},
			{Request{Method: "GET", Path: "/early"}, 204, 0, "", ""},
			{Request{Method: "GET", Path: "/unmodified"}, 304, 0, "", ""},
			{Request{Method: "GET", Path: "/problem"}, 200, 61, "", "rate_limited"},
			{Request{Method: "GET", Path: "/plain"}, 200, 0, "", "502"},
			{Request{Method: "GET", Path: "/unmodified"}, 200, 0, "", "304"},
		} {
			for _, keep := range []bool{true, false} {
				p, err := c.Do(t.Context(), &test.request, test.status, keep)
				if test.err != "" {
					if err == nil || codeOf(err) != test.err {
						t.Errorf("%s: %v, want the code %s", test.request.Path, err, test.err)
					}
					continue
				}
				if err != nil || p.Status != test.status || p.Length != test.length || keep && string(p.Body) != test.body || !keep && p.Body != nil {
					t.Errorf("%s %s: status %d, %d bytes (want %d), %d kept, %v", test.request.Method, test.request.Path, p.Status, p.Length, test.length, len(p.Body), err)
				}
			}
		}
	}
	testenv.Equal(t, connections(), 1, "connections that were opened")
}

// answer runs a server that answers each connection with a text, after it has received something,
// and closes it.
func answer(t testing.TB, text string) (url string) {
	t.Helper()
	listener := testenv.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			if _, err = conn.Read(make([]byte, 1<<10)); err == nil {
				_, err = io.WriteString(conn, text)
			}
			if err := errors.Join(err, conn.Close()); err != nil {
				t.Log(err) // the client may have closed it
			}
		}
	}()
	return "http://" + listener.Addr().String()
}

func TestConnRefusesWrongResponses(t *testing.T) {
	for text, want := range map[string]string{
		"":                          codeClosed,
		"HTTP/1.1 200 OK\r\n":       codeClosed,
		"HTTP/1.1 200 OK\r\nConten": codeClosed,
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n1234":                            codeClosed,
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n":           codeClosed,
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n":                  codeClosed,
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n":            codeMalformed,
		"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n":                               codeMalformed,
		"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n12":         codeMalformed,
		"HTTP/1.1 200 OK\r\nnonsense\r\n\r\n":                                         codeMalformed,
		"HTTP/1.1 20x OK\r\n\r\n":                                                     codeMalformed,
		"HTTP/1.1 101 Switching Protocols\r\n\r\n":                                    codeMalformed,
		"SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u3\r\n":                                  codeMalformed,
		"HTTP/1.1 200 OK\r\nA: " + strings.Repeat("x", bufferSize) + "\r\n\r\n":       codeMalformed,
		"HTTP/1.1 200 OK\r\n" + strings.Repeat("A: b\r\n", maxHeaderLines+1) + "\r\n": codeMalformed,
		"HTTP/1.1 503 Service Unavailable\r\n\r\nno body":                             "503",
	} {
		c := NewConn(newTarget(t, answer(t, text), timeout))
		err := get(t.Context(), c, "/")
		c.Close()
		if err == nil || codeOf(err) != want {
			t.Errorf("%.60q: %v, want the code %s", text, err, want)
		}
	}
	for text, want := range map[string]int64{
		"HTTP/1.0 200 OK\r\n\r\nuntil the end":              13,
		"HTTP/1.1 200\r\ncontent-LENGTH:  4  \r\n\r\n12345": 4,
		"HTTP/1.1 200 OK\nContent-Length: 0\n\n":            0,
	} {
		c := NewConn(newTarget(t, answer(t, text), timeout))
		p, err := c.Do(t.Context(), &Request{Method: "GET", Path: "/"}, 200, false)
		c.Close()
		if err != nil || p.Length != want {
			t.Errorf("%q: %d bytes, %v, want %d", text, p.Length, err, want)
		}
	}
}

// TestRefusalBeforeTheBody checks that a server that refuses a request without reading its body is
// reported with its error, or with a closed connection if the kernel has discarded the response.
func TestRefusalBeforeTheBody(t *testing.T) {
	c := NewConn(newTarget(t, answer(t, "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"), timeout))
	defer c.Close()
	for range 2 {
		_, err := c.Do(t.Context(), &Request{Method: "PUT", Path: "/", Content: Content{Size: 1 << 30}, Length: 1 << 30}, 204, false)
		if err == nil || codeOf(err) != "403" && codeOf(err) != codeClosed {
			t.Errorf("%v, want a refusal or a closed connection", err)
		}
	}
}

func TestConnTimesOutAndOpensAgain(t *testing.T) {
	release := make(chan struct{})
	url, connections := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			<-release
		}
	})
	defer close(release)
	slow := NewConn(newTarget(t, url, 50*time.Millisecond))
	defer slow.Close()
	if err := get(t.Context(), slow, "/slow"); err == nil || codeOf(err) != codeTimeout {
		t.Errorf("%v, want a timeout", err)
	}
	c := NewConn(newTarget(t, url, timeout))
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	if err := get(ctx, c, "/slow"); err == nil {
		t.Error("the request did not end with its context")
	}
	testenv.Is(t, get(t.Context(), c, "/"), nil, "on a new connection")
	c.used = time.Now().Add(-2 * idleTime) // the server may close it at any time
	testenv.Is(t, get(t.Context(), c, "/"), nil, "after a pause")
	c.Close()
	testenv.Equal(t, connections(), 4, "connections that were opened")
	refused := NewConn(newTarget(t, "http://127.0.0.1:1", timeout))
	if err := get(t.Context(), refused, "/"); err == nil || codeOf(err) != codeRefused {
		t.Errorf("%v, want a refused connection", err)
	}
}

func TestConnOverTLS(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 1 {
			t.Errorf("the protocol is %s", r.Proto)
		}
	}))
	defer s.Close()
	target := newTarget(t, s.URL, timeout)
	c := NewConn(target)
	if err := get(t.Context(), c, "/"); err == nil {
		t.Error("an unknown certificate was accepted")
	}
	target.Trust(s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs)
	defer c.Close()
	testenv.Check(t, get(t.Context(), c, "/"))
}

func TestTargets(t *testing.T) {
	for url, address := range map[string]string{"http://h": "h:80", "https://h/sluice": "h:443", "http://[::1]:9090/": "[::1]:9090", "http://h:1/a%20b": "h:1"} {
		if target := newTarget(t, url, timeout); target.address != address || strings.HasSuffix(target.base, "/") {
			t.Errorf("%s: %+v, want %s", url, target, address)
		}
	}
	for _, url := range []string{"ftp://h", ":", "h"} {
		if _, err := NewTarget(url, "", "", timeout); err == nil {
			t.Errorf("%s was accepted", url)
		}
	}
	if _, err := NewTarget("http://h", "a\r\nb: c", "", timeout); err == nil {
		t.Error("a key with a line break was accepted")
	}
}

// FuzzResponse compares the parser with net/http's: a response that both accept is the same.
func FuzzResponse(f *testing.F) {
	for _, text := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", "HTTP/1.1 204 No Content\r\n\r\n", "HTTP/1.0 200 OK\r\n\r\nabc",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nA: b\r\n\r\n", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 304 Not Modified\r\n\r\n",
		"HTTP/1.1 404 Not Found\r\nContent-Type: application/problem+json\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}",
	} {
		f.Add([]byte(text), false)
		f.Add([]byte(text), true)
	}
	f.Fuzz(func(t *testing.T, text []byte, head bool) {
		method := http.MethodGet
		if head {
			method = http.MethodHead
		}
		ours := bufio.NewReaderSize(bytes.NewReader(text), bufferSize)
		h, err := readHead(ours, method)
		if err != nil {
			return
		}
		var body []byte
		if h.length != 0 {
			body, err = io.ReadAll(bodyReader(ours, h))
		}
		_ = newError(h, body)
		reference := bufio.NewReader(bytes.NewReader(text))
		var want *http.Response
		for want == nil || want.StatusCode < 200 {
			var wantErr error
			if want, wantErr = http.ReadResponse(reference, &http.Request{Method: method}); wantErr != nil {
				return
			}
		}
		wantBody, wantErr := io.ReadAll(want.Body)
		testenv.Equal(t, h.status, want.StatusCode, "the status")
		if err == nil && wantErr == nil && !bytes.Equal(body, wantBody) {
			t.Errorf("the body is %q, want %q", body, wantBody)
		}
	})
}

// BenchmarkConn compares a Conn with an http.Client; the server is the same process.
func BenchmarkConn(b *testing.B) {
	body := bytes.Repeat([]byte("x"), 4<<10)
	url, _ := serve(b, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(body) })
	b.Run("conn", func(b *testing.B) {
		c := NewConn(newTarget(b, url, timeout))
		defer c.Close()
		for b.Loop() {
			testenv.OK(b, get(b.Context(), c, "/"))
		}
	})
	b.Run("net-http", func(b *testing.B) {
		for b.Loop() {
			p, err := http.Get(url)
			if err == nil {
				_, err = io.Copy(io.Discard, p.Body)
			}
			testenv.OK(b, errors.Join(err, p.Body.Close()))
		}
	})
}
