package nodes

import (
	"strings"
	"testing"

	"sluice/e2e"
	"sluice/test/testenv"
)

// Linux has all of 127.0.0.0/8 on loopback, so clients can have different addresses.
const (
	clientOne = "127.0.0.2"
	clientTwo = "127.0.0.3"
)

// TestClientsBehindNginx checks that behind a trusted proxy each client address has separate
// limits, whatever X-Forwarded-For the client sends.
// Invariant 51.
func TestClientsBehindNginx(t *testing.T) {
	testenv.Require(t, testenv.Nginx)
	t.Parallel()
	s := e2e.StartHosted(t, "public", "--trusted-proxies", "127.0.0.1/32", "--address-limits", "concurrent-requests=1")
	target := e2e.BlobTarget("bob", "name")
	s.AsAdmin().Must(204, "PUT", target, e2e.Content(1, heldSize))
	through := s.BehindNginx()
	held := hold(through, clientOne, target, "X-Forwarded-For: 192.0.2.1\r\n")
	for _, lines := range []string{"", "X-Forwarded-For: 192.0.2.2\r\n", "X-Forwarded-For: 127.0.0.3\r\n", "X-Forwarded-For: 192.0.2.3, 127.0.0.1\r\n"} {
		e2e.CheckProblem(t, ask(through, clientOne, "GET", "/v1/info", lines), 429, "too_many_at_once")
		if r := ask(through, clientTwo, "GET", "/v1/info", lines); r.Status != 200 {
			t.Errorf("another client, with %q: %v", lines, r)
		}
		// The same client without the proxy has another address.
		e2e.CheckProblem(t, ask(s, clientOne, "GET", "/v1/info", lines), 429, "too_many_at_once")
	}
	testenv.OK(t, held.Close())
	s.Await("a request that has ended still counts", func() bool { return ask(through, clientOne, "GET", "/v1/info", "").Status == 200 })
	if log := s.SettledLog(); !strings.Contains(log, "client="+clientOne) || !strings.Contains(log, "client="+clientTwo) || strings.Contains(log, "192.0.2.") {
		t.Errorf("the log contains other addresses than the clients':\n%s", e2e.Tail(log))
	}
}

// TestForwardedForOfUntrustedPeers checks that the server ignores X-Forwarded-For if the peer is
// not a trusted proxy.
// Invariant 51.
func TestForwardedForOfUntrustedPeers(t *testing.T) {
	t.Parallel()
	for _, flags := range [][]string{nil, {"--trusted-proxies", "127.0.0.9,10.0.0.0/8"}} {
		s := e2e.StartHosted(t, "public", append(flags, "--address-limits", "concurrent-requests=1")...)
		target := e2e.BlobTarget("bob", "name")
		s.AsAdmin().Must(204, "PUT", target, e2e.Content(1, heldSize))
		hold(s, clientOne, target, "X-Forwarded-For: 192.0.2.1\r\n")
		for _, lines := range []string{"", "X-Forwarded-For: 192.0.2.2\r\n", "Forwarded: for=192.0.2.2\r\n", "X-Real-IP: 192.0.2.2\r\n"} {
			e2e.CheckProblem(t, ask(s, clientOne, "GET", "/v1/info", lines), 429, "too_many_at_once")
		}
		// A client that names another's address does not share that client's limit.
		if r := ask(s, clientTwo, "GET", "/v1/info", "X-Forwarded-For: "+clientOne+"\r\n"); r.Status != 200 {
			t.Errorf("another client: %v", r)
		}
		if strings.Contains(s.SettledLog(), "192.0.2.") {
			t.Errorf("the log contains a forged address:\n%s", e2e.Tail(s.Log.String()))
		}
	}
}
