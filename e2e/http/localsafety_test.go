package http

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"sluice/e2e"
	"sluice/test/testenv"
)

// TestHostsAndOrigins checks that the server refuses a host name that an attacker's DNS could
// resolve to this machine, that the instance's own page under an allowed host may use it, and that
// pages from other hosts and ports may not.
// Invariant 53.
func TestHostsAndOrigins(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Flags: []string{
		"--allowed-hosts", "Files.Example,other.example.,fd00::1,[FD00:0::2]",
		"--cors-origins", "https://app.example:443",
	}})
	network := e2e.Start(t, e2e.Options{Flags: []string{"--open-to-network"}})
	_, port, err := net.SplitHostPort(s.Host)
	testenv.OK(t, err)
	for _, test := range []struct {
		s            *e2e.Server
		host, origin string // no origin: not a page
		status       int
	}{
		{s, "localhost", "", 204},
		{s, "localhost:" + port, "", 204},
		{s, "LocalHost", "", 204},
		{s, "127.0.0.1", "", 204},
		{s, "127.0.0.1:" + port, "", 204},
		{s, "127.8.8.8", "", 204},
		{s, "[::1]", "", 204},
		{s, "[::1]:" + port, "", 204},
		{s, "files.example", "", 204},
		{s, "other.example:80", "", 204},

		{s, "evil.example", "", 421},
		{s, "evil.example:" + port, "", 421},
		{s, "localhost.evil.example", "", 421},
		{s, "127.0.0.1.evil.example", "", 421},
		{s, "xfiles.example", "", 421},
		{s, "a.files.example", "", 421},
		{s, "192.0.2.1", "", 421},
		{s, "[2001:db8::1]", "", 421},
		{s, "0.0.0.0", "", 421},

		{s, "files.example:9090", "http://files.example:9090", 204},
		{s, "FILES.example.", "http://files.example", 204},
		{s, "files.example:80", "http://files.example", 204},
		{s, "files.example", "https://files.example", 204}, // a proxy in front has the certificate
		{s, "files.example:443", "https://files.example", 204},
		{s, "other.example", "http://other.example", 204},
		{s, "[fd00::1]:9090", "http://[fd00::1]:9090", 204},
		{s, "[fd00::2]", "http://[fd00::2]", 204},
		{s, "localhost", "https://app.example", 204},
		{network, "192.0.2.1:9090", "http://192.0.2.1:9090", 204},
		{network, "[2001:db8::1]", "http://[2001:db8::1]", 204},

		{s, "files.example:9090", "http://files.example:8080", 403},
		{s, "files.example:9090", "http://files.example", 403},
		{s, "files.example", "http://files.example:8080", 403},
		{s, "files.example", "http://files.example:443", 403},
		{s, "files.example:9090", "http://other.example:9090", 403},
		{s, "localhost", "http://files.example", 403},
		{s, "files.example", "http://files.example.evil.example", 403},
		{s, "files.example", "http://evil.example@files.example", 403},
		{s, "files.example", "ftp://files.example", 403},
		{s, "files.example", "null", 403},
		{s, "[fd00::1]", "http://[fd00::2]", 403},
		{s, "localhost", "http://app.example", 403},
		{network, "192.0.2.1:9090", "http://192.0.2.2:9090", 403},
		{network, "192.0.2.1", "http://evil.example", 403},

		{s, "evil.example", "http://evil.example", 421},
		{s, "[fd00::3]", "http://[fd00::3]", 421},
		{network, "evil.example", "http://evil.example", 421},
	} {
		label := "by " + test.origin + " to " + test.host
		r := test.s.Do("PUT", e2e.BlobTarget("0x1", label), []byte("x"), headersOf(test.host, test.origin)...)
		if r.Status != test.status {
			t.Errorf("%s: %v, want %d", label, r, test.status)
		}
		if r.Status == 421 {
			e2e.CheckProblem(t, r, 421, "foreign_host")
		}
		allowed := r.Header.Get("Access-Control-Allow-Origin")
		if test.origin != "" && (allowed == test.origin) != (test.status == 204) {
			t.Errorf("%s: Access-Control-Allow-Origin is %q", label, allowed)
		}
		if stored := slices.Contains(test.s.Names("0x1"), label); stored != (test.status == 204) {
			t.Errorf("%s: stored: %t", label, stored)
		}
	}
	// A target in absolute form contains the host.
	r := s.Raw("GET", "GET http://evil.example/v1/info HTTP/1.1\r\nHost: localhost\r\n\r\n")
	e2e.CheckProblem(t, r, 421, "foreign_host")
}

// headersOf returns a request's Host and, unless it is empty, its Origin.
func headersOf(host, origin string) e2e.Headers {
	if origin == "" {
		return e2e.Headers{"Host", host}
	}
	return e2e.Headers{"Host", host, "Origin", origin}
}

// TestConsoleOnAllowedHost uses the console under a host that only the flag allows: its page stores
// a blob, and a page from another port on that host stores none.
// Invariant 53.
func TestConsoleOnAllowedHost(t *testing.T) {
	testenv.Require(t, testenv.Chromium)
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Flags: []string{"--allowed-hosts", e2e.ForeignHost}})
	_, port, err := net.SplitHostPort(s.Host)
	testenv.OK(t, err)
	own := "http://" + net.JoinHostPort(e2e.ForeignHost, port)
	put := func(browser context.Context, name string) string {
		got, err := chromedp.Run(browser, chromedp.Evaluate[string](fmt.Sprintf(
			`fetch(%s, {method: "PUT", body: "x"}).then((r) => String(r.status), (e) => e.name)`, e2e.AsJSON(t, own+e2e.BlobTarget("0x1", name))), chromedp.EvalAwaitPromise))
		testenv.OK(t, err)
		return got
	}
	if got := put(e2e.OpenForeign(t, strings.Replace(own, e2e.ForeignHost, "localhost", 1)+"/console/"), "own"); got != "204" {
		t.Errorf("a PUT of the console got %s", got)
	}
	if got := put(e2e.OpenForeign(t, e2e.ServePage(t, "/dev/null")), "foreign"); got != "TypeError" {
		t.Errorf("a PUT of another page of the host got %s", got)
	}
	s.ListsOnly("0x1", "own")
}
