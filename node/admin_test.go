package node

import (
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"sluice/internal/metrics"
	"sluice/test/testenv"
)

func TestAdminHandler(t *testing.T) {
	set := metrics.NewSet()
	set.Counter("sluice_further_total", "Registered by the test.", func() int64 { return 1 })
	handler := loopbackOnly(adminHandler(set, slog.New(slog.DiscardHandler)))
	for _, test := range []struct {
		host, method, path string
		status             int
		words              []string
	}{
		{"localhost", "GET", "/metrics", 200, []string{"go_goroutines", "process_start_time_seconds", "go_build_info", "sluice_further_total 1"}},
		{"127.0.0.1:9091", "GET", "/livez", 200, []string{"ok"}},
		{"[::1]:9091", "GET", "/debug/pprof/", 200, []string{"goroutine"}},
		{"localhost", "GET", "/debug/pprof/heap?debug=1", 200, []string{"heap profile"}},
		{"localhost", "GET", "/debug/pprof/symbol", 200, nil},
		{"localhost", "GET", "/debug/pprof/cmdline", 404, nil},
		{"localhost", "GET", "/v1/info", 404, nil},
		{"localhost", "POST", "/metrics", 405, nil},
		{"rebound.example", "GET", "/metrics", 421, nil},
		{"10.0.0.1:9091", "GET", "/debug/pprof/heap", 421, nil},
	} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(test.method, "http://"+test.host+test.path, nil))
		testenv.Equal(t, w.Code, test.status, "%s %s of %s", test.method, test.path, test.host)
		for _, word := range test.words {
			if !strings.Contains(w.Body.String(), word) {
				t.Errorf("%s %s lacks %q", test.method, test.path, word)
			}
		}
	}
}

// TestAdminRefusesForeignPages checks that requests of pages of other origins are
// rejected, by Origin and by Sec-Fetch-Site.
func TestAdminRefusesForeignPages(t *testing.T) {
	handler := sameOriginOnly(adminHandler(metrics.NewSet(), slog.New(slog.DiscardHandler)))
	for _, test := range []struct {
		header, value string
		status        int
	}{
		{"Origin", "", 200},
		{"Origin", "http://localhost:9091", 200},
		{"Origin", "http://localhost:3000", 403},
		{"Origin", "https://evil.example", 403},
		{"Origin", "null", 403},
		{"Origin", "http://%zz", 403},
		{"Sec-Fetch-Site", "none", 200},
		{"Sec-Fetch-Site", "same-origin", 200},
		{"Sec-Fetch-Site", "same-site", 403},
		{"Sec-Fetch-Site", "cross-site", 403},
	} {
		r := httptest.NewRequest("GET", "http://localhost:9091/debug/pprof/", nil)
		if test.value != "" {
			r.Header.Set(test.header, test.value)
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if w.Code != test.status {
			t.Errorf("%s: %s: status %d, want %d", test.header, test.value, w.Code, test.status)
		}
	}
}

func TestAdminAddress(t *testing.T) {
	busy := testenv.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	if _, err := startAdmin(t.Context(), busy.Addr().String(), http.NewServeMux(), slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "--admin-addr") {
		t.Errorf("a port in use: error %v, want one that names --admin-addr", err)
	}
	testenv.OK(t, busy.Close())
	for addr, warns := range map[string]bool{"": false, "localhost:0": false, "127.0.0.1:0": false, "0.0.0.0:0": true} {
		log := &logBuffer{}
		stop, err := startAdmin(t.Context(), addr, http.NewServeMux(), slog.New(slog.NewTextHandler(log, nil)))
		testenv.OK(t, err)
		if got := strings.Contains(log.String(), "level=WARN"); got != warns {
			t.Errorf("--admin-addr %s: a warning is %v, want %v", addr, got, warns)
		}
		testenv.Check(t, stop())
	}
}
