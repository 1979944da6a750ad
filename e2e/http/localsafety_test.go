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

// TestForeignOrigins checks that a page from another site has no effect.
func TestForeignOrigins(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Flags: []string{"--cors-origins", "https://app.example"}})
	s.Must(204, "PUT", e2e.BlobTarget("0x1", "kept"), []byte("kept"))
	session := s.Session()
	upload := s.Begin("0x1", "upload", 1000)
	for _, origin := range []string{"https://evil.example", "http://localhost.evil.example", "http://app.example", "https://app.example.evil.example",
		"https://app.example:444", "null", "http://192.0.2.1", "file://", "http://0.0.0.0:3000", "nonsense"} {
		for _, request := range []struct{ method, target string }{
			{"PUT", e2e.BlobTarget("0x1", "new")},
			{"PUT", e2e.BlobTarget("0x1", "kept")},
			{"DELETE", e2e.BlobTarget("0x1", "kept")},
			{"GET", e2e.BlobTarget("0x1", "kept")},
			{"POST", "/v1/sessions"},
			{"POST", "/v1/sessions/" + session + "/use"},
			{"POST", "/v1/multipart-uploads"},
			{"PUT", e2e.PartTarget(upload, 0)},
			{"POST", "/v1/multipart-uploads/" + upload + "/complete"},
			{"DELETE", "/v1/multipart-uploads/" + upload},
			{"OPTIONS", e2e.BlobTarget("0x1", "kept")},
		} {
			r := s.Do(request.method, request.target, nil, "Origin", origin)
			e2e.CheckProblem(t, r, 403, "forbidden_origin")
			if got := r.Header.Get("Access-Control-Allow-Origin"); got != "" {
				t.Errorf("%s from %s: Access-Control-Allow-Origin %q", request.method, origin, got)
			}
		}
	}
	if got := s.Names("0x1"); len(got) != 1 {
		t.Errorf("refused requests stored %q", got)
	}
	if got := s.Left(session); got != "1000" {
		t.Errorf("refused uses left %s chunksets", got)
	}
	if got := s.OpenUploads("0x1"); len(got) != 1 || got[0] != upload {
		t.Errorf("refused requests left the uploads %q", got)
	}
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

// TestAllowedOrigins checks the headers that let an allowed origin's page read every response.
func TestAllowedOrigins(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Flags: []string{"--cors-origins", "https://app.example,https://second.example:8443"}})
	target := e2e.BlobTarget("0x1", "name")
	s.Must(204, "PUT", target, []byte("x"))
	for _, origin := range []string{"http://localhost:3000", "http://localhost", "https://localhost:1", "http://127.0.0.1:8080", "http://[::1]:3000",
		"https://app.example", "https://second.example:8443"} {
		for _, request := range []struct {
			method, target string
			status         int
		}{
			{"GET", target, 200},
			{"HEAD", target, 200},
			{"PUT", target, 204},
			{"GET", e2e.BlobTarget("0x1", "absent"), 404},
			{"GET", "/nowhere", 404},
			{"POST", target, 405},
			{"POST", "/v1/multipart-uploads", 400},
		} {
			r := s.Must(request.status, request.method, request.target, nil, "Origin", origin)
			checkCORS(t, r, origin)
			exposed := strings.ToLower(r.Header.Get("Access-Control-Expose-Headers"))
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
	if r := s.Must(200, "GET", target, nil); !holdsWord(strings.ToLower(strings.Join(r.Header.Values("Vary"), ",")), "origin") {
		t.Errorf("Vary is %q without an Origin, want it to name Origin", r.Header.Values("Vary"))
	}
}

func preflight(t *testing.T, s *e2e.Server, target, origin string) {
	t.Helper()
	asked := []string{"authorization", "content-type", "range", "x-shelby-micropayment"}
	for _, method := range []string{"GET", "PUT", "DELETE"} {
		r := s.Do("OPTIONS", target, nil, "Origin", origin, "Access-Control-Request-Method", method,
			"Access-Control-Request-Headers", strings.Join(asked, ","))
		if r.Status != 204 && r.Status != 200 {
			t.Errorf("preflight: %v", r)
		}
		checkCORS(t, r, origin)
		if methods := strings.ToLower(r.Header.Get("Access-Control-Allow-Methods")); !holdsWord(methods, strings.ToLower(method)) {
			t.Errorf("preflight for %s allows %q", method, methods)
		}
		allowed := strings.ToLower(r.Header.Get("Access-Control-Allow-Headers"))
		for _, name := range append(asked, "if-none-match", "idempotency-key", "session-id", "max-chunksets", "content-digest", "blob-expires") {
			if !holdsWord(allowed, name) {
				t.Errorf("preflight does not allow the header %s: %q", name, allowed)
			}
		}
	}
}

// checkCORS fails the test unless the response names the origin, allows no credentials, and varies
// by Origin.
func checkCORS(t *testing.T, r e2e.Response, origin string) {
	t.Helper()
	if got := r.Header.Get("Access-Control-Allow-Origin"); got != origin {
		t.Errorf("Access-Control-Allow-Origin is %q, want %q (%d)", got, origin, r.Status)
	}
	if got := r.Header.Get("Access-Control-Allow-Credentials"); got != "" {
		t.Errorf("Access-Control-Allow-Credentials is %q", got)
	}
	if vary := strings.ToLower(strings.Join(r.Header.Values("Vary"), ",")); !holdsWord(vary, "origin") {
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
	s := e2e.Start(t, e2e.Options{})
	for _, h := range []e2e.Headers{
		{"Authorization", "Bearer some-key"},
		{"Authorization", "Basic eDp5"},
		{"Authorization", "nonsense"},
		{"X-Api-Key", "some-key"},
	} {
		s.Must(204, "PUT", e2e.BlobTarget("0x1", "name"), []byte("x"), h...)
		s.Must(200, "GET", e2e.BlobTarget("0x1", "name"), nil, h...)
	}
}

// TestRequestIds checks that every response has a unique id.
func TestRequestIds(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{})
	seen := map[string]bool{}
	for range 100 {
		seen[s.Must(200, "GET", "/livez", nil).Header.Get("X-Request-Id")] = true
	}
	if len(seen) != 100 || seen[""] {
		t.Errorf("100 responses had %d ids", len(seen))
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
