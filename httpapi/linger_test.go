package httpapi

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"sluice/access"
	"sluice/internal/connlimit"
	"sluice/internal/testenv"
)

// newConnections returns a limiter with the refusals of this package.
func newConnections(limit int) *connlimit.Limiter {
	return connlimit.New(limit, ConnectionRefusal(false))
}

// underCapOf serves a service's handler a second time, with limited connections.
func underCapOf(t *testing.T, s *service, conns *connlimit.Limiter) string {
	t.Helper()
	return handlerUnderCap(t, s, s.Server, conns)
}

// handlerUnderCap is underCapOf for a handler around the service's.
func handlerUnderCap(t *testing.T, s *service, h http.Handler, conns *connlimit.Limiter) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testenv.OK(t, err)
	server := NewHTTPServer(s.Server)
	server.Handler = h
	conns.Attach(server)
	served := make(chan error, 1)
	limited := adopt(t, server, conns.Listener(listener, false))
	go func() { served <- server.Serve(limited) }()
	t.Cleanup(func() { stopLimited(t, server, conns, served) })
	return listener.Addr().String()
}

// stopLimited ends a server, and checks that it counts no connection afterwards.
func stopLimited(t *testing.T, server *http.Server, conns *connlimit.Limiter, served <-chan error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		t.Error(err)
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		t.Error(err)
	}
	conns.Wait(ctx)
	if open := conns.Counts().Open; open != 0 {
		t.Errorf("%d connections are counted after the end", open)
	}
}

// sender is a client that continues to send whatever it receives.
type sender struct {
	*net.TCPConn
	r *bufio.Reader
}

func dialSender(t *testing.T, addr string) *sender {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	testenv.OK(t, err)
	testenv.OK(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	return &sender{conn.(*net.TCPConn), bufio.NewReader(conn)}
}

// refusals are requests that are refused while their body is still being sent, in every framing.
var refusals = []struct {
	name, head string
	first      int // bytes that are sent before the response is read
	status     int
}{
	{"chunks", "PUT /v1/blobs/ours/x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1000000\r\n", 400 << 10, 401},
	{"few chunks", "PUT /v1/blobs/ours/x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1000000\r\n", 100, 401},
	{"a length", "PUT /v1/blobs/ours/x HTTP/1.1\r\nHost: h\r\nContent-Length: 100000000\r\n\r\n", 400 << 10, 401},
	{"a body without 100 Continue", "PUT /v1/blobs/ours/x HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 100000000\r\n\r\n", 400 << 10, 401},
	{"chunks without 100 Continue", "PUT /v1/blobs/ours/x HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n1000000\r\n", 400 << 10, 401},
	{"malformed chunks", "PUT /v1/blobs/ours/x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nnonsense\r\n", 400 << 10, 401},
	{"a body of HTTP/1.0", "PUT /v1/blobs/ours/x HTTP/1.0\r\nHost: h\r\nContent-Length: 100000000\r\n\r\n", 400 << 10, 401},
	{"too long JSON", "POST /v1/sessions HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1000000\r\n", 400 << 10, 413},
	{"no route", "PUT /v1/nothing HTTP/1.1\r\nHost: h\r\nContent-Length: 100000000\r\n\r\n", 400 << 10, 404},
	{"a probe with a body", "GET /livez HTTP/1.1\r\nHost: h\r\nContent-Length: 100000000\r\n\r\n", 400 << 10, 200},
	{"a preflight with a body", "OPTIONS /v1/info HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1000000\r\n", 400 << 10, 204},
	{"a malformed path", "PUT /% HTTP/1.1\r\nHost: h\r\nContent-Length: 100000000\r\n\r\n", 400 << 10, 400},
	{"two lengths", "PUT /v1/blobs/ours/x HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", 400 << 10, 400},
	{"no host", "PUT /v1/blobs/ours/x HTTP/1.1\r\nContent-Length: 100000000\r\n\r\n", 400 << 10, 400},
	{"headers without end", "PUT /v1/blobs/ours/x HTTP/1.1\r\nHost: h\r\nX: ", 400 << 10, 431},
	{"an unknown coding", "PUT /v1/blobs/ours/x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip\r\n\r\n", 400 << 10, 501},
	{"an unknown expectation", "PUT /v1/blobs/ours/x HTTP/1.1\r\nHost: h\r\nExpect: more\r\nContent-Length: 100000000\r\n\r\n", 400 << 10, 417},
}

// TestRefusedBodiesAreDiscarded: what is left of a refused request is read, in every framing: the
// connection of its sender ends and is never reset.
func TestRefusedBodiesAreDiscarded(t *testing.T) {
	t.Parallel()
	h := newHosted(t, ReadsKey, access.ScopeWrite)
	addr := underCapOf(t, h.service, newConnections(100))
	for _, c := range refusals {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := dialSender(t, addr)
			if _, err := io.WriteString(s, c.head+strings.Repeat("x", c.first)); err != nil {
				t.Fatalf("before the response: %v", err)
			}
			res, err := http.ReadResponse(s.r, nil)
			testenv.OK(t, err)
			body, err := io.ReadAll(res.Body)
			if err != nil || res.StatusCode != c.status || !res.Close {
				t.Errorf("%d, closes: %t, %v: %s", res.StatusCode, res.Close, err, body)
			}
			if _, err := s.r.ReadByte(); !errors.Is(err, io.EOF) {
				t.Errorf("after the response: %v, want EOF", err)
			}
			// This is more than the kernels buffer, so the server reads it.
			if _, err := io.WriteString(s, strings.Repeat("x", 12<<20)); err != nil {
				t.Errorf("after the end: %v", err)
			}
			if err := errors.Join(res.Body.Close(), s.Close()); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestLingeringIsBounded: a client that never stops sending is slowed down by flow control, and its
// connection is closed at the timeout.
func TestLingeringIsBounded(t *testing.T) {
	t.Parallel()
	h := newHosted(t, ReadsKey, access.ScopeWrite)
	conns := newConnections(100)
	conns.LingerTimeout = time.Second
	s := dialSender(t, underCapOf(t, h.service, conns))
	if _, err := io.WriteString(s, refusals[0].head); err != nil {
		t.Fatal(err)
	}
	sent, piece := 0, make([]byte, 64<<10)
	for {
		n, err := s.Write(piece)
		sent += n
		if err != nil {
			break
		}
	}
	if sent > 36<<20 {
		t.Errorf("%d bytes of a refused request were read", sent)
	}
	closeOrFail(t, s)
}

// TestLingeringConnectionIsEvicted: a connection that lingers counts as open, and is evicted like
// an idle one.
func TestLingeringConnectionIsEvicted(t *testing.T) {
	t.Parallel()
	h := newHosted(t, ReadsKey, access.ScopeWrite)
	conns := newConnections(1)
	addr := underCapOf(t, h.service, conns)
	s := dialSender(t, addr)
	if _, err := io.WriteString(s, refusals[0].head+strings.Repeat("x", refusals[0].first)); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(s.r, nil)
	testenv.OK(t, err)
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		t.Fatal(err)
	}
	if _, err := s.r.ReadByte(); !errors.Is(err, io.EOF) {
		t.Fatalf("after the response: %v, want EOF", err)
	}
	ask := func() int {
		c := dialSender(t, addr)
		if _, err := io.WriteString(c, "GET /livez HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(c.r, nil)
		testenv.OK(t, err)
		if err := errors.Join(res.Body.Close(), c.Close()); err != nil {
			t.Error(err)
		}
		return res.StatusCode
	}
	if got := ask(); got != http.StatusServiceUnavailable {
		t.Errorf("while a connection lingers: %d, want 503", got)
	}
	conns.SetMinIdle(0)
	if got := ask(); got != http.StatusOK {
		t.Errorf("after a lingering connection was evicted: %d, want 200", got)
	}
	if got := conns.Counts(); got.Evicted != 1 || got.Refused != 1 {
		t.Errorf("counts %+v", got)
	}
	if err := errors.Join(res.Body.Close(), s.Close()); err != nil {
		t.Error(err)
	}
}

// TestConnectionThatDoesNotReadIsEvicted: a client that never reads the small responses to its
// pipelined requests is idle, and its connection is evicted.
func TestConnectionThatDoesNotReadIsEvicted(t *testing.T) {
	t.Parallel()
	h := newHosted(t, ReadsKey, access.ScopeWrite)
	conns := newConnections(1)
	addr := underCapOf(t, h.service, conns)
	stuck := dialSender(t, addr)
	testenv.OK(t, stuck.SetReadBuffer(4<<10))
	asked := strings.Repeat("GET /v1/info HTTP/1.1\r\nHost: h\r\n\r\n", 1000)
	// The loop runs until no byte moves for half a second: then the server waits to write a
	// response.
	for {
		testenv.OK(t, stuck.SetWriteDeadline(time.Now().Add(500*time.Millisecond)))
		if n, err := io.WriteString(stuck, asked); err != nil && n == 0 {
			break
		}
	}
	conns.SetMinIdle(0)
	other := dialSender(t, addr)
	if _, err := io.WriteString(other, "GET /livez HTTP/1.1\r\nHost: h\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(other.r, nil)
	testenv.OK(t, err)
	if res.StatusCode != http.StatusOK || conns.Counts().Evicted != 1 {
		t.Errorf("%d, counts %+v", res.StatusCode, conns.Counts())
	}
	if err := errors.Join(res.Body.Close(), stuck.Close(), other.Close()); err != nil {
		t.Error(err)
	}
}

// TestCapOfAnAddress: at an address's limit an idle connection of that address is evicted, or the
// new one is refused. Other addresses and proxies are not affected.
func TestCapOfAnAddress(t *testing.T) {
	t.Parallel()
	h := newHosted(t, ReadsKey, access.ScopeWrite)
	conns := newConnections(100)
	conns.PerAddress = 2
	addr := underCapOf(t, h.service, conns)
	ask := func(c *sender) int {
		t.Helper()
		if _, err := io.WriteString(c, "GET /livez HTTP/1.1\r\nHost: h\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(c.r, nil)
		testenv.OK(t, err)
		if _, err := io.Copy(io.Discard, res.Body); err != nil {
			t.Fatal(err)
		}
		closeOrFail(t, res.Body)
		return res.StatusCode
	}
	dialFrom := func(address string) *sender {
		t.Helper()
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
		conn, err := dialer.DialContext(t.Context(), "tcp", addr)
		testenv.OK(t, err)
		return &sender{conn.(*net.TCPConn), bufio.NewReader(conn)}
	}
	var all []*sender
	want := func(address string, status int) {
		t.Helper()
		c := dialFrom(address)
		all = append(all, c)
		if got := ask(c); got != status {
			t.Errorf("connection %d, of %s: %d, want %d", len(all), address, got, status)
		}
	}
	want("127.0.0.1", 200)
	want("127.0.0.1", 200)
	want("127.0.0.1", 429)
	want("127.0.0.2", 200)
	conns.SetMinIdle(0)
	want("127.0.0.1", 200)
	if _, err := all[0].r.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("the longest idle connection of the address reads %v, want EOF", err)
	}
	if got := ask(all[3]); got != 200 {
		t.Errorf("the connection of the other address: %d", got)
	}
	if got := conns.Counts(); got.Crowded != 1 || got.Evicted != 1 || got.Open != 3 {
		t.Errorf("counts %+v", got)
	}
	for _, c := range all {
		closeOrFail(t, c)
	}
}
