package e2e

import (
	"strings"
	"testing"

	"sluice/internal/testenv"
)

// Linux has all of 127.0.0.0/8 on loopback, so clients can have different addresses.
const (
	clientOne = "127.0.0.2"
	clientTwo = "127.0.0.3"
)

// TestClientsBehindNginx checks that behind a trusted proxy each client address has separate
// limits, whatever X-Forwarded-For the client sends.
func TestClientsBehindNginx(t *testing.T) {
	testenv.Require(t, testenv.Nginx)
	t.Parallel()
	s := startHosted(t, "public", "--trusted-proxies", "127.0.0.1/32", "--address-concurrent-requests", "1")
	target := blobTarget("bob", "name")
	s.asAdmin().must(204, "PUT", target, content(1, heldSize))
	through := s.behindNginx()
	held := through.hold(clientOne, target, "X-Forwarded-For: 192.0.2.1\r\n")
	for _, lines := range []string{"", "X-Forwarded-For: 192.0.2.2\r\n", "X-Forwarded-For: 127.0.0.3\r\n", "X-Forwarded-For: 192.0.2.3, 127.0.0.1\r\n"} {
		checkProblem(t, through.ask(clientOne, "GET", "/v1/info", lines), 429, "too_many_at_once")
		if r := through.ask(clientTwo, "GET", "/v1/info", lines); r.status != 200 {
			t.Errorf("another client, with %q: %v", lines, r)
		}
		// The same client without the proxy has another address.
		checkProblem(t, s.ask(clientOne, "GET", "/v1/info", lines), 429, "too_many_at_once")
	}
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	s.await("a request that has ended still counts", func() bool { return through.ask(clientOne, "GET", "/v1/info", "").status == 200 })
	if log := s.settledLog(); !strings.Contains(log, "client="+clientOne) || !strings.Contains(log, "client="+clientTwo) || strings.Contains(log, "192.0.2.") {
		t.Errorf("the log contains other addresses than the clients':\n%s", tail(log))
	}
}

// TestForwardedForOfUntrustedPeers checks that the server ignores X-Forwarded-For if the peer is
// not a trusted proxy.
func TestForwardedForOfUntrustedPeers(t *testing.T) {
	t.Parallel()
	for _, flags := range [][]string{nil, {"--trusted-proxies", "127.0.0.9,10.0.0.0/8"}} {
		s := startHosted(t, "public", append(flags, "--address-concurrent-requests", "1")...)
		target := blobTarget("bob", "name")
		s.asAdmin().must(204, "PUT", target, content(1, heldSize))
		s.hold(clientOne, target, "X-Forwarded-For: 192.0.2.1\r\n")
		for _, lines := range []string{"", "X-Forwarded-For: 192.0.2.2\r\n", "Forwarded: for=192.0.2.2\r\n", "X-Real-IP: 192.0.2.2\r\n"} {
			checkProblem(t, s.ask(clientOne, "GET", "/v1/info", lines), 429, "too_many_at_once")
		}
		// A client that names another's address does not share that client's limit.
		if r := s.ask(clientTwo, "GET", "/v1/info", "X-Forwarded-For: "+clientOne+"\r\n"); r.status != 200 {
			t.Errorf("another client: %v", r)
		}
		if strings.Contains(s.settledLog(), "192.0.2.") {
			t.Errorf("the log contains a forged address:\n%s", tail(s.log.String()))
		}
	}
}
