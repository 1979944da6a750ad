package httpapi

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"sluice/access"
	"sluice/metastore"
)

// streamRecorder is a recorder with the deadlines of a stream, which it never
// meets.
type streamRecorder struct{ *httptest.ResponseRecorder }

func (streamRecorder) SetReadDeadline(time.Time) error  { return nil }
func (streamRecorder) SetWriteDeadline(time.Time) error { return nil }

// A caller over HTTP/2 holds a place for each reply until it is sent to its end,
// also when it is a refusal or the answer to a probe. Beyond that a stream is
// reset, and when the replies are taken he is served as before.
func TestRepliesThatAreNotTakenAreBounded(t *testing.T) {
	h := newHosted(t, ReadsPublic, access.ScopeWrite)
	h.Limiter = access.NewLimiter(access.LimiterOptions{Address: metastore.Limits{ConcurrentRequests: 1}})
	h.probes = access.NewLimiter(access.LimiterOptions{Address: metastore.Limits{ConcurrentRequests: 1}})
	for _, path := range []string{"/v1/info", "/v1/nothing", "/livez"} {
		ended := make(chan context.CancelFunc, 100)
		request := func() *httptest.ResponseRecorder {
			ctx, cancel := context.WithCancel(t.Context()) // that of a stream ends when the reply is out
			ended <- cancel
			r := httptest.NewRequestWithContext(ctx, "GET", path, nil)
			r.ProtoMajor, r.ProtoMinor, r.Proto = 2, 0, "HTTP/2.0"
			w := httptest.NewRecorder()
			func() {
				defer func() {
					if p := recover(); p != nil {
						if p != http.ErrAbortHandler { //nolint:errorlint // a panic is no error that was wrapped
							t.Errorf("panic %v", p)
						}
						w = nil
					}
				}()
				h.ServeHTTP(streamRecorder{w}, r)
			}()
			return w
		}
		served := 0
		for request() != nil {
			if served++; served == 50 {
				t.Fatalf("%s: there is no end to the replies that are not taken", path)
			}
		}
		if served < 2 {
			t.Errorf("%s: %d replies, want at least two", path, served)
		}
		close(ended)
		for cancel := range ended {
			cancel()
		}
		const tries = 100_000
		ended = make(chan context.CancelFunc, tries)
		again := 0
		for request() == nil { // until the places are free again
			if again++; again == tries {
				t.Fatalf("%s: the places are never free again", path)
			}
			runtime.Gosched()
		}
		close(ended)
		for cancel := range ended {
			cancel()
		}
	}
}

// A client that resets streams for which handlers work loses its connection, and
// one that has now and then reset one does not. A proxy does not lose its
// connection, on which there are streams of others.
func TestResetsEndTheConnection(t *testing.T) {
	t.Run("client", func(t *testing.T) { testResets(t, false) })
	t.Run("proxy", func(t *testing.T) { testResets(t, true) })
}

func testResets(t *testing.T, proxy bool) {
	conns := NewConnections(10)
	if proxy {
		conns.Exempt = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	}
	s := newCapped(t, conns, false, nil)
	nc := s.rests()
	conns.mu.Lock()
	conn := conns.idle.Front().Value.(*connection)
	conns.mu.Unlock()
	for range 2 * maxResets {
		for _, reset := range []bool{true, false} {
			conn.begin()
			conn.end(reset)
		}
	}
	if _, err := io.WriteString(nc, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(nc)
	res, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatalf("after as many replies as resets: %v", err)
	}
	closeOrFail(t, res.Body)
	for range maxResets + 1 {
		conn.begin()
		conn.end(true)
	}
	if proxy {
		if _, err := io.WriteString(nc, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatalf("after many resets by a proxy: %v", err)
		}
		closeOrFail(t, res.Body)
		return
	}
	if n, err := r.Read(make([]byte, 1)); err == nil {
		t.Errorf("after too many resets the connection reads %d bytes, %v; want its end", n, err)
	}
}
