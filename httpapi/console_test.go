package httpapi

import (
	"log/slog"
	"net/http/httptest"
	"testing"

	"sluice/access"
	"sluice/console"
)

// TestStartLeadsBrowsersToTheConsole checks that the root of a local instance leads browsers to the
// console, and stays unknown to all other clients, when hosted, and without a console.
func TestStartLeadsBrowsersToTheConsole(t *testing.T) {
	page, err := console.New()
	if err != nil {
		t.Fatal(err)
	}
	local := Config{Reads: ReadsPublic, Console: page}
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
		{"no console", Config{Reads: ReadsPublic}, "GET", "/", "text/html", 404, ""},
		{"console off", Config{Reads: ReadsPublic}, "GET", "/console/", "text/html", 404, ""},
		{"below the base path", based, "GET", "/sluice/", "text/html", 302, "console/"},
		{"above the base path", based, "GET", "/", "text/html", 302, "sluice/console/"},
		{"hosted", hosted, "GET", "/sluice/", "text/html", 404, ""},
		{"hosted console", hosted, "GET", "/sluice/console/", "text/html", 200, ""},
		{"without the slash", based, "GET", "/sluice/console", "text/html", 302, "console/"},
		{"page", local, "GET", "/console/", "text/html", 200, ""},
		{"no such file", local, "GET", "/console/x", "text/html", 404, ""},
		{"PUT", local, "PUT", "/console/", "", 405, ""},
	} {
		c.config.Log = slog.New(slog.DiscardHandler)
		s, err := New(c.config)
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest(c.method, "http://localhost"+c.path, nil)
		r.Header.Set("Accept", c.accept)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if got := w.Header().Get("Location"); w.Code != c.status || got != c.location {
			t.Errorf("%s: status %d and Location %q, want %d and %q", c.name, w.Code, got, c.status, c.location)
		}
	}
}
