package e2e

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"sluice/internal/testenv"
)

// TestForeignHosts checks that the server refuses a host name that an attacker's DNS could resolve
// to this machine.
func TestForeignHosts(t *testing.T) {
	t.Parallel()
	s := start(t, options{flags: []string{"--allowed-hosts", "files.example,other.example"}})
	_, port, err := net.SplitHostPort(s.host)
	if err != nil {
		t.Fatal(err)
	}
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
		r := s.do("PUT", blobTarget("0x1", "by "+test.host), []byte("x"), "Host", test.host)
		if test.fine && r.status != 204 {
			t.Errorf("Host %s: %v, want 204", test.host, r)
		}
		if !test.fine {
			checkProblem(t, r, 421, "foreign_host")
		}
	}
	for _, name := range s.names("0x1") {
		if strings.Contains(name, "evil") || strings.Contains(name, "192") {
			t.Errorf("a refused request stored %q", name)
		}
	}
	// A target in absolute form contains the host.
	r := s.raw("GET", "GET http://evil.example/v1/info HTTP/1.1\r\nHost: localhost\r\n\r\n")
	checkProblem(t, r, 421, "foreign_host")
}

// TestForeignOrigins checks that a page from another site has no effect.
func TestForeignOrigins(t *testing.T) {
	t.Parallel()
	s := start(t, options{flags: []string{"--cors-origins", "https://app.example"}})
	s.must(204, "PUT", blobTarget("0x1", "kept"), []byte("kept"))
	session := s.session()
	upload := s.begin("0x1", "upload", 1000)
	for _, origin := range []string{"https://evil.example", "http://localhost.evil.example", "http://app.example", "https://app.example.evil.example",
		"https://app.example:444", "null", "http://192.0.2.1", "file://", "http://0.0.0.0:3000", "nonsense"} {
		for _, request := range []struct{ method, target string }{
			{"PUT", blobTarget("0x1", "new")},
			{"PUT", blobTarget("0x1", "kept")},
			{"DELETE", blobTarget("0x1", "kept")},
			{"GET", blobTarget("0x1", "kept")},
			{"POST", "/v1/sessions"},
			{"POST", "/v1/sessions/" + session + "/use"},
			{"POST", "/v1/multipart-uploads"},
			{"PUT", partTarget(upload, 0)},
			{"POST", "/v1/multipart-uploads/" + upload + "/complete"},
			{"DELETE", "/v1/multipart-uploads/" + upload},
			{"OPTIONS", blobTarget("0x1", "kept")},
		} {
			r := s.do(request.method, request.target, nil, "Origin", origin)
			checkProblem(t, r, 403, "forbidden_origin")
			if got := r.header.Get("Access-Control-Allow-Origin"); got != "" {
				t.Errorf("%s from %s: Access-Control-Allow-Origin %q", request.method, origin, got)
			}
		}
	}
	if got := s.names("0x1"); len(got) != 1 {
		t.Errorf("refused requests stored %q", got)
	}
	if got := s.left(session); got != "1000" {
		t.Errorf("refused uses left %s chunksets", got)
	}
	if got := s.openUploads("0x1"); len(got) != 1 || got[0] != upload {
		t.Errorf("refused requests left the uploads %q", got)
	}
}

// TestOwnOrigin checks that the instance's own page under an allowed host may use it, and that
// pages from other hosts and ports may not.
func TestOwnOrigin(t *testing.T) {
	t.Parallel()
	s := start(t, options{flags: []string{"--allowed-hosts", "Files.Example,other.example.,fd00::1,[FD00:0::2]", "--cors-origins", "https://app.example:443"}})
	network := start(t, options{flags: []string{"--open-to-network"}})
	for _, test := range []struct {
		s            *server
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
		r := test.s.do("PUT", blobTarget("0x1", what), []byte("x"), "Host", test.host, "Origin", test.origin)
		if r.status != test.status {
			t.Errorf("from %s: %v, want %d", what, r, test.status)
		}
		if got := r.header.Get("Access-Control-Allow-Origin"); (got == test.origin) != (test.status == 204) {
			t.Errorf("from %s: Access-Control-Allow-Origin is %q", what, got)
		}
	}
}

// TestConsoleOnAllowedHost uses the console under a host that only the flag allows: its page stores
// a blob, and a page from another port on that host stores none.
func TestConsoleOnAllowedHost(t *testing.T) {
	testenv.Require(t, testenv.Chromium)
	t.Parallel()
	s := start(t, options{flags: []string{"--allowed-hosts", foreignHost}})
	_, port, err := net.SplitHostPort(s.host)
	if err != nil {
		t.Fatal(err)
	}
	own := "http://" + net.JoinHostPort(foreignHost, port)
	put := func(browser context.Context, name string) string {
		got, err := chromedp.Run(browser, chromedp.Evaluate[string](fmt.Sprintf(
			`fetch(%s, {method: "PUT", body: "x"}).then((r) => String(r.status), (e) => e.name)`, asJSON(t, own+blobTarget("0x1", name))), chromedp.EvalAwaitPromise))
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := put(openForeign(t, strings.Replace(own, foreignHost, "localhost", 1)+"/console/"), "own"); got != "204" {
		t.Errorf("a PUT of the console got %s", got)
	}
	if got := put(openForeign(t, servePage(t, "/dev/null")), "foreign"); got != "TypeError" {
		t.Errorf("a PUT of another page of the host got %s", got)
	}
	if names := s.names("0x1"); len(names) != 1 || names[0] != "own" {
		t.Errorf("the blobs are %q", names)
	}
}

// TestAllowedOrigins checks the headers that let an allowed origin's page read every response.
func TestAllowedOrigins(t *testing.T) {
	t.Parallel()
	s := start(t, options{flags: []string{"--cors-origins", "https://app.example,https://second.example:8443"}})
	target := blobTarget("0x1", "name")
	s.must(204, "PUT", target, []byte("x"))
	for _, origin := range []string{"http://localhost:3000", "http://localhost", "https://localhost:1", "http://127.0.0.1:8080", "http://[::1]:3000",
		"https://app.example", "https://second.example:8443"} {
		for _, request := range []struct {
			method, target string
			status         int
		}{
			{"GET", target, 200},
			{"HEAD", target, 200},
			{"PUT", target, 204},
			{"GET", blobTarget("0x1", "absent"), 404},
			{"GET", "/nowhere", 404},
			{"POST", target, 405},
			{"POST", "/v1/multipart-uploads", 400},
		} {
			r := s.must(request.status, request.method, request.target, nil, "Origin", origin)
			checkCORS(t, r, origin)
			exposed := strings.ToLower(r.header.Get("Access-Control-Expose-Headers"))
			for _, name := range []string{"Content-Length", "Content-Range", "ETag", "X-Request-Id",
				"Chunksets-Left", "Chunksets-Charged", "Chunksets-Required", "Chunkset-Price"} {
				if !holdsWord(exposed, strings.ToLower(name)) {
					t.Errorf("%s %s: %s is not exposed: %q", request.method, request.target, name, exposed)
				}
			}
		}
		preflight(t, s, target, origin)
	}
	// The response depends on the Origin even if the request has none.
	if r := s.must(200, "GET", target, nil); !holdsWord(strings.ToLower(strings.Join(r.header.Values("Vary"), ",")), "origin") {
		t.Errorf("Vary is %q without an Origin, want it to name Origin", r.header.Values("Vary"))
	}
}

func preflight(t *testing.T, s *server, target, origin string) {
	t.Helper()
	asked := []string{"authorization", "content-type", "range", "x-shelby-micropayment"}
	for _, method := range []string{"GET", "PUT", "DELETE"} {
		r := s.do("OPTIONS", target, nil, "Origin", origin, "Access-Control-Request-Method", method,
			"Access-Control-Request-Headers", strings.Join(asked, ","))
		if r.status != 204 && r.status != 200 {
			t.Errorf("preflight: %v", r)
		}
		checkCORS(t, r, origin)
		if methods := strings.ToLower(r.header.Get("Access-Control-Allow-Methods")); !holdsWord(methods, strings.ToLower(method)) {
			t.Errorf("preflight for %s allows %q", method, methods)
		}
		allowed := strings.ToLower(r.header.Get("Access-Control-Allow-Headers"))
		for _, name := range append(asked, "if-none-match", "idempotency-key", "session-id", "max-chunksets", "content-digest", "blob-expires") {
			if !holdsWord(allowed, name) {
				t.Errorf("preflight does not allow the header %s: %q", name, allowed)
			}
		}
	}
}

// checkCORS fails the test unless the response names the origin, allows no credentials, and varies
// by Origin.
func checkCORS(t *testing.T, r response, origin string) {
	t.Helper()
	if got := r.header.Get("Access-Control-Allow-Origin"); got != origin {
		t.Errorf("Access-Control-Allow-Origin is %q, want %q (%d)", got, origin, r.status)
	}
	if got := r.header.Get("Access-Control-Allow-Credentials"); got != "" {
		t.Errorf("Access-Control-Allow-Credentials is %q", got)
	}
	if vary := strings.ToLower(strings.Join(r.header.Values("Vary"), ",")); !holdsWord(vary, "origin") {
		t.Errorf("Vary is %q, want it to name Origin", vary)
	}
}

// holdsWord reports whether a comma-separated list contains a word.
func holdsWord(list, word string) bool {
	for _, entry := range strings.Split(list, ",") {
		if strings.TrimSpace(entry) == word {
			return true
		}
	}
	return false
}

// TestCredentialsAreIgnored checks that a client configured for the hosted network works with a
// local instance.
func TestCredentialsAreIgnored(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	for _, h := range []headers{
		{"Authorization", "Bearer some-key"},
		{"Authorization", "Basic eDp5"},
		{"Authorization", "nonsense"},
		{"X-Api-Key", "some-key"},
	} {
		s.must(204, "PUT", blobTarget("0x1", "name"), []byte("x"), h...)
		s.must(200, "GET", blobTarget("0x1", "name"), nil, h...)
	}
}

// TestRequestIds checks that every response has a unique id.
func TestRequestIds(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	seen := map[string]bool{}
	for range 100 {
		seen[s.must(200, "GET", "/livez", nil).header.Get("X-Request-Id")] = true
	}
	if len(seen) != 100 || seen[""] {
		t.Errorf("100 responses had %d ids", len(seen))
	}
}

// TestLogsKeepSecrets checks that the server logs neither names nor ids that grant access.
func TestLogsKeepSecrets(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	session := s.session()
	s.must(200, "POST", "/v1/sessions/"+session+"/use", nil)
	upload := s.begin("0x1", "secret-name", 1000)
	s.must(204, "DELETE", "/v1/multipart-uploads/"+upload, nil)
	channel := text(t, s.must(201, "POST", "/v1/sessions/micropaymentchannels", nil).object(t), "channelId")
	s.must(200, "GET", "/v1/sessions/micropaymentchannels/"+channel, nil)
	s.must(204, "PUT", blobTarget("0x1", "secret-name"), []byte("x"))
	last := s.must(200, "GET", "/v1/info", nil).header.Get("X-Request-Id")
	s.stop()
	log := s.log.String()
	for what, secret := range map[string]string{"session id": session, "upload id": upload, "channel id": channel, "blob name": "secret-name"} {
		if strings.Contains(log, secret) {
			t.Errorf("the log contains the %s %s:\n%s", what, secret, tail(log))
		}
		if strings.Contains(log, secret[:7]) && what != "blob name" {
			t.Errorf("the log contains more than 6 characters of the %s %s", what, secret)
		}
	}
	if !strings.Contains(log, last) {
		t.Errorf("the log does not contain the request id %s:\n%s", last, tail(log))
	}
	if !strings.Contains(log, "/v1/sessions/{sessionId}/use") {
		t.Errorf("the log does not contain the route pattern:\n%s", tail(log))
	}
}
