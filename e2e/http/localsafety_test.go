package http

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"sluice/e2e"
	"sluice/internal/testenv"
)

// TestForeignHosts checks that the server refuses a host name that an attacker's DNS could resolve
// to this machine.
func TestForeignHosts(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Flags: []string{"--allowed-hosts", "files.example,other.example"}})
	_, port, err := net.SplitHostPort(s.Host)
	testenv.OK(t, err)
	tests := []struct {
		host string
		fine bool
	}{
		{"localhost", true},
		{"localhost:" + port, true},
		{"LocalHost", true},
		{"127.0.0.1", true},
		{"127.0.0.1:" + port, true},
		{"127.8.8.8", true},
		{"[::1]", true},
		{"[::1]:" + port, true},
		{"files.example", true},
		{"other.example:80", true},
		{"evil.example", false},
		{"evil.example:" + port, false},
		{"localhost.evil.example", false},
		{"127.0.0.1.evil.example", false},
		{"xfiles.example", false},
		{"a.files.example", false},
		{"192.0.2.1", false},
		{"[2001:db8::1]", false},
		{"0.0.0.0", false},
	}
	for _, test := range tests {
		r := s.Do("PUT", e2e.BlobTarget("0x1", "by "+test.host), []byte("x"), "Host", test.host)
		if test.fine && r.Status != 204 {
			t.Errorf("Host %s: %v, want 204", test.host, r)
		}
		if !test.fine {
			e2e.CheckProblem(t, r, 421, "foreign_host")
		}
	}
	for _, name := range s.Names("0x1") {
		if strings.Contains(name, "evil") || strings.Contains(name, "192") {
			t.Errorf("a refused request stored %q", name)
		}
	}
	// A target in absolute form contains the host.
	r := s.Raw("GET", "GET http://evil.example/v1/info HTTP/1.1\r\nHost: localhost\r\n\r\n")
	e2e.CheckProblem(t, r, 421, "foreign_host")
}

// TestOwnOrigin checks that the instance's own page under an allowed host may use it, and that
// pages from other hosts and ports may not.
func TestOwnOrigin(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Flags: []string{"--allowed-hosts", "Files.Example,other.example.,fd00::1,[FD00:0::2]", "--cors-origins", "https://app.example:443"}})
	network := e2e.Start(t, e2e.Options{Flags: []string{"--open-to-network"}})
	for _, test := range []struct {
		s            *e2e.Server
		host, origin string
		status       int
	}{
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
		what := test.origin + " to " + test.host
		r := test.s.Do("PUT", e2e.BlobTarget("0x1", what), []byte("x"), "Host", test.host, "Origin", test.origin)
		if r.Status != test.status {
			t.Errorf("from %s: %v, want %d", what, r, test.status)
		}
		if got := r.Header.Get("Access-Control-Allow-Origin"); (got == test.origin) != (test.status == 204) {
			t.Errorf("from %s: Access-Control-Allow-Origin is %q", what, got)
		}
	}
}

// TestConsoleOnAllowedHost uses the console under a host that only the flag allows: its page stores
// a blob, and a page from another port on that host stores none.
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
	if names := s.Names("0x1"); len(names) != 1 || names[0] != "own" {
		t.Errorf("the blobs are %q", names)
	}
}

// TestLogsKeepSecrets checks that the server logs neither names nor ids that grant access.
func TestLogsKeepSecrets(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{})
	session := s.Session()
	s.Must(200, "POST", "/v1/sessions/"+session+"/use", nil)
	upload := s.Begin("0x1", "secret-name", 1000)
	s.Must(204, "DELETE", "/v1/multipart-uploads/"+upload, nil)
	channel := e2e.Text(t, s.Must(201, "POST", "/v1/sessions/micropaymentchannels", nil).Object(t), "channelId")
	s.Must(200, "GET", "/v1/sessions/micropaymentchannels/"+channel, nil)
	s.Must(204, "PUT", e2e.BlobTarget("0x1", "secret-name"), []byte("x"))
	last := s.Must(200, "GET", "/v1/info", nil).Header.Get("X-Request-Id")
	s.Stop()
	log := s.Log.String()
	for what, secret := range map[string]string{"session id": session, "upload id": upload, "channel id": channel, "blob name": "secret-name"} {
		if strings.Contains(log, secret) {
			t.Errorf("the log contains the %s %s:\n%s", what, secret, e2e.Tail(log))
		}
		if strings.Contains(log, secret[:7]) && what != "blob name" {
			t.Errorf("the log contains more than 6 characters of the %s %s", what, secret)
		}
	}
	if !strings.Contains(log, last) {
		t.Errorf("the log does not contain the request id %s:\n%s", last, e2e.Tail(log))
	}
	if !strings.Contains(log, "/v1/sessions/{sessionId}/use") {
		t.Errorf("the log does not contain the route pattern:\n%s", e2e.Tail(log))
	}
}
