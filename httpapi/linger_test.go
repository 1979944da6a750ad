package httpapi

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"sluice/access"
	"sluice/test/testenv"
)

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

// TestRefusedBodiesAreDiscarded: the rest of a refused request is read, in every framing: its
// sender's connection ends and is never reset.
// Invariant 58.
func TestRefusedBodiesAreDiscarded(t *testing.T) {
	t.Parallel()
	h := newHosted(t, access.ReadsKey, access.ScopeWrite)
	addr := serve(t, h.ServerOf(h.Server), newConnections(100))
	for _, c := range refusals {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := dial(t, addr)
			s.send(t, c.head+strings.Repeat("x", c.first))
			res, body := s.receive(t)
			if res.StatusCode != c.status || !res.Close {
				t.Errorf("%d, closes: %t: %s", res.StatusCode, res.Close, body)
			}
			s.wantEnd(t)
			// This is more than the kernels buffer, so the server reads it.
			s.send(t, strings.Repeat("x", 12<<20))
		})
	}
}

// TestLingeringIsBounded: a client that never stops sending is slowed down by flow control, and its
// connection is closed at the timeout.
func TestLingeringIsBounded(t *testing.T) {
	t.Parallel()
	h := newHosted(t, access.ReadsKey, access.ScopeWrite)
	conns := newConnections(100)
	conns.LingerTimeout = time.Second
	s := dial(t, serve(t, h.ServerOf(h.Server), conns))
	s.send(t, refusals[0].head)
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
}

// TestLingeringConnectionIsEvicted: a connection that lingers counts as open, and is evicted like
// an idle one.
func TestLingeringConnectionIsEvicted(t *testing.T) {
	t.Parallel()
	h := newHosted(t, access.ReadsKey, access.ScopeWrite)
	conns := newConnections(1)
	addr := serve(t, h.ServerOf(h.Server), conns)
	s := dial(t, addr)
	s.send(t, refusals[0].head+strings.Repeat("x", refusals[0].first))
	s.receive(t)
	s.wantEnd(t)
	testenv.Equal(t, dial(t, addr).probe(t), http.StatusServiceUnavailable, "while a connection lingers")
	conns.SetMinIdle(0)
	testenv.Equal(t, dial(t, addr).probe(t), http.StatusOK, "after a lingering connection was evicted")
	if got := conns.Counts(); got.Evicted != 1 || got.Refused != 1 {
		t.Errorf("counts %+v", got)
	}
}

// TestConnectionThatDoesNotReadIsEvicted: a client that never reads the small responses to its
// pipelined requests is idle, and its connection is evicted.
// Invariant 65.
func TestConnectionThatDoesNotReadIsEvicted(t *testing.T) {
	t.Parallel()
	h := newHosted(t, access.ReadsKey, access.ScopeWrite)
	conns := newConnections(1)
	addr := serve(t, h.ServerOf(h.Server), conns)
	stuck := dial(t, addr)
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
	if got := dial(t, addr).probe(t); got != http.StatusOK || conns.Counts().Evicted != 1 {
		t.Errorf("%d, counts %+v", got, conns.Counts())
	}
}

// TestCapOfAnAddress: at an address's limit an idle connection of that address is evicted, or the
// new one is refused. Other addresses and proxies are not affected.
// Invariant 65.
func TestCapOfAnAddress(t *testing.T) {
	t.Parallel()
	h := newHosted(t, access.ReadsKey, access.ScopeWrite)
	conns := newConnections(100)
	conns.PerAddress = 2
	addr := serve(t, h.ServerOf(h.Server), conns)
	var all []*connection
	want := func(address string, status int) {
		t.Helper()
		c := dialFrom(t, address, addr)
		all = append(all, c)
		testenv.Equal(t, c.probe(t), status, "connection %d, of %s", len(all), address)
	}
	want("127.0.0.1", 200)
	want("127.0.0.1", 200)
	want("127.0.0.1", 429)
	want("127.0.0.2", 200)
	conns.SetMinIdle(0)
	want("127.0.0.1", 200)
	all[0].wantEnd(t) // which was idle for the longest time
	if got := all[3].probe(t); got != 200 {
		t.Errorf("the connection of the other address: %d", got)
	}
	if got := conns.Counts(); got.Crowded != 1 || got.Evicted != 1 || got.Open != 3 {
		t.Errorf("counts %+v", got)
	}
}
