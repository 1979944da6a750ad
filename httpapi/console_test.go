package httpapi

import (
	"log/slog"
	"strings"
	"testing"

	"sluice/access"
	"sluice/console"
	"sluice/exchange"
	"sluice/test/testenv"
	"sluice/wire"
)

// TestStartLeadsBrowsersToTheConsole checks that the service's root leads browsers to the
// console, and stays unknown to all other clients, and without a console.
func TestStartLeadsBrowsersToTheConsole(t *testing.T) {
	page := testenv.Must(console.New())(t)
	local := Config{Reads: access.ReadsPublic, Console: page}
	based := local
	based.BasePath = "/sluice"
	hosted := based
	hosted.Keys, hosted.Limiter = access.NewAuthenticator(nil, access.AuthenticatorOptions{}), access.NewLimiter(access.LimiterOptions{})
	for _, c := range []struct {
		name                 string
		config               Config
		method, path, accept string
		status               int
		location             string
	}{
		{"browser", local, "GET", "/", "text/html,*/*;q=0.8", 302, "console/"},
		{"HEAD", local, "HEAD", "/", "text/html", 302, "console/"},
		{"program", local, "GET", "/", "*/*", 404, ""},
		{"no Accept", local, "GET", "/", "", 404, ""},
		{"POST", local, "POST", "/", "text/html", 404, ""},
		{"other path", local, "GET", "/x", "text/html", 404, ""},
		{"no console", Config{Reads: access.ReadsPublic}, "GET", "/", "text/html", 404, ""},
		{"console off", Config{Reads: access.ReadsPublic}, "GET", "/console/", "text/html", 404, ""},
		{"below the base path", based, "GET", "/sluice/", "text/html", 302, "console/"},
		{"above the base path", based, "GET", "/", "text/html", 302, "sluice/console/"},
		{"at the base path", based, "GET", "/sluice", "text/html", 302, "sluice/console/"},
		{"hosted", hosted, "GET", "/sluice/", "text/html", 302, "console/"},
		{"hosted without the slash", hosted, "GET", "/sluice", "text/html", 302, "sluice/console/"},
		{"hosted, above the base path", hosted, "GET", "/", "text/html", 404, ""},
		{"hosted console", hosted, "GET", "/sluice/console/", "text/html", 200, ""},
		{"without the slash", based, "GET", "/sluice/console", "text/html", 302, "console/"},
		{"page", local, "GET", "/console/", "text/html", 200, ""},
		{"no such file", local, "GET", "/console/x", "text/html", 404, ""},
		{"PUT", local, "PUT", "/console/", "", 405, ""},
	} {
		c.config.Log = slog.New(slog.DiscardHandler)
		s := testenv.Must(New(c.config))(t)
		res := s.direct(t.Context(), "192.0.2.1:1", c.method, c.path, "", "Accept", c.accept)
		if got := res.Header.Get("Location"); res.StatusCode != c.status || got != c.location {
			t.Errorf("%s: status %d and Location %q, want %d and %q", c.name, res.StatusCode, got, c.status, c.location)
		}
	}
}

// TestScriptsOfTheConsole checks that the console's pages run scripts of its own folder only, and
// that no Host that a client sends adds another source.
// Invariant 48.
func TestScriptsOfTheConsole(t *testing.T) {
	page := testenv.Must(console.New())(t)
	for _, c := range []struct{ host, base, url, want string }{
		{"localhost:9090", "", "", "localhost:9090/console/"},
		{"localhost", "/sluice", "", "localhost/sluice/console/"},
		{"127.0.0.1:1", "", "https://files.example:8443/a", "127.0.0.1:1/console/ https://files.example:8443/a/console/"},
		{"localhost", "", "https://files.example/a;b,c d", "localhost/console/ https://files.example/a%3Bb%2Cc%20d/console/"},
		{"[::1]:9090", "", "", "'self'"},
		{"localhost.", "", "", "'self'"},
		{"localhost;script-src", "", "", "'self'"},
		{"localhost,evil.example", "", "", "'self'"},
		{"*", "", "", "'self'"},
		{"*.example", "", "", "'self'"},
		{"localhost:*", "", "", "'self'"},
		{"", "", "", "'self'"},
	} {
		s, err := New(Config{Reads: access.ReadsPublic, Console: page, BasePath: c.base, URL: c.url, Config: exchange.Config{Log: slog.New(slog.DiscardHandler)}})
		testenv.OK(t, err)
		testenv.Equal(t, s.consoleSources(c.host), c.want, "Host %q", c.host)
	}
	s := newService(t, func(c *Config) { c.Console = page })
	res, _ := s.do(t, "GET", "/console/", "")
	got, want := res.Header.Get("Content-Security-Policy"), "default-src 'none'; script-src "+s.addr+"/console/; style-src "+s.addr+"/console/; worker-src "+s.addr+"/console/;"
	if !strings.HasPrefix(got, want) {
		t.Errorf("Content-Security-Policy %q, want %q", got, want)
	}
}

// TestNoServiceWorkers checks that a blob cannot be registered as a service worker.
// Invariant 48.
func TestNoServiceWorkers(t *testing.T) {
	s := newService(t, nil)
	const path = "/v1/blobs/0x1/worker.js"
	s.want(t, 204, "PUT", path, "x", "Content-Type", "text/javascript")
	s.refused(t, 403, wire.CodeScriptForbidden, "GET", path, "", "Service-Worker", "script")
	s.want(t, 200, "GET", path, "")
}
