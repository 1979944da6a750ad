package connlimit

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"testing"
	"time"

	"sluice/test/testenv"
)

// TestNetworkOfAConnection checks which connections count together, and which do not count.
func TestNetworkOfAConnection(t *testing.T) {
	conns := New(10, nil)
	conns.PerAddress = 1
	conns.Exempt = prefixes("10.0.0.0/8", "fd00::/8")
	for peer, want := range map[string]string{
		"192.0.2.1:5":           "192.0.2.1/32",
		"[::ffff:192.0.2.1]:5":  "192.0.2.1/32",
		"[2001:db8:1:2:3::4]:5": "2001:db8:1:2::/64",
		"10.1.2.3:5":            "",
		"[::ffff:10.1.2.3]:5":   "",
		"[fd00::1]:5":           "",
	} {
		address := testenv.Must(net.ResolveTCPAddr("tcp", peer))(t)
		network, counts := conns.networkOf(address)
		got := ""
		if counts {
			got = fmt.Sprint(network)
		}
		testenv.Equal(t, got, want, "%s", peer)
	}
}

func prefixes(texts ...string) []netip.Prefix {
	var all []netip.Prefix
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

// TestResetsEndTheConnection: a client that resets many streams while their handlers run loses its
// connection, and one that resets a stream occasionally does not. After many refusals the next one
// closes the connection. A proxy does not lose its connection, which carries streams of other
// clients.
// Invariant 68.
func TestResetsEndTheConnection(t *testing.T) {
	t.Run("client", func(t *testing.T) { testResets(t, false) })
	t.Run("proxy", func(t *testing.T) { testResets(t, true) })
}

func testResets(t *testing.T, proxy bool) {
	conns := New(10, testRefusal)
	if proxy {
		conns.Exempt = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	}
	s := newCapped(t, conns, false, nil)
	nc := s.rests()
	conns.mu.Lock()
	conn := conns.idle.Front().Value.(*Conn)
	conns.mu.Unlock()
	for range maxWasted {
		for _, outcome := range []Outcome{Reset, Served, Refused, Served} {
			conn.Begin()
			conn.End(outcome)
		}
	}
	if conn.Wasted() {
		t.Error("after as many responses as refusals and resets, the next refusal closes the connection")
	}
	r := bufio.NewReader(nc)
	wantResponse := func(when string) {
		t.Helper()
		testenv.Must(io.WriteString(nc, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"))(t)
		res, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		testenv.Check(t, res.Body.Close())
	}
	wantResponse("after as many responses as resets")
	for n := range maxWasted + 1 {
		testenv.Equal(t, conn.Wasted(), n == maxWasted && !proxy, "after %d refusals: Wasted", n)
		conn.Begin()
		conn.End(Refused)
	}
	conn.Begin()
	conn.End(Reset)
	if proxy {
		wantResponse("after many resets by a proxy")
		return
	}
	if n, err := r.Read(make([]byte, 1)); err == nil {
		t.Errorf("after too many resets the connection reads %d bytes, %v; want its end", n, err)
	}
}

// TestEndedConnectionDoesNotLinger checks that a connection notes that its client has closed its
// end, and not that a read has timed out.
func TestEndedConnectionDoesNotLinger(t *testing.T) {
	inner := testenv.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	client := testenv.Must(net.Dial("tcp", inner.Addr().String()))(t)
	accepted := testenv.Must(New(1, nil).Listener(inner, false).Accept())(t)
	conn := accepted.(*Conn)
	conn.active = true // as when a request was served
	testenv.OK(t, conn.SetReadDeadline(time.Unix(1, 0)))
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) || conn.ended.Load() {
		t.Errorf("a read that has timed out: %v, ended %t", err, conn.ended.Load())
	}
	testenv.OK(t, errors.Join(conn.SetReadDeadline(time.Time{}), client.Close()))
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) || conn.beginsToLinger() {
		t.Errorf("after the client has closed its end: %v, and the connection lingers", err)
	}
	testenv.Check(t, errors.Join(conn.Close(), inner.Close()))
}
