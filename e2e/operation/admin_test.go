package operation

import (
	"strings"
	"syscall"
	"testing"

	"sluice/e2e"
)

// TestAdminAddress checks that the server serves metrics and profiles on a separate address, until
// the drain ends, and nowhere else.
func TestAdminAddress(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Flags: []string{"--admin-addr", "127.0.0.1:0", "--drain-wait", e2e.LongWait}})
	check := func() {
		t.Helper()
		for path, want := range map[string]string{
			"/metrics": "process_open_fds", "/livez": "ok", "/debug/pprof/": "goroutine", "/debug/pprof/goroutine?debug=1": "main.main",
		} {
			if r, err := s.AdminGet(path); err != nil || r.Status != 200 || !strings.Contains(string(r.Body), want) {
				t.Errorf("%s on the admin address: %v, %v, want 200 with %q", path, r, err, want)
			}
		}
	}
	check()
	for _, path := range []string{"/metrics", "/debug/pprof/", "/debug/pprof/heap", "/debug/vars"} {
		e2e.CheckProblem(t, s.Do("GET", path, nil), 404, "")
	}
	for _, path := range []string{"/v1/info", "/v1/blobs/0x1/name", "/readyz"} {
		if r, err := s.AdminGet(path); err != nil || r.Status != 404 {
			t.Errorf("%s on the admin address: %v, %v, want 404", path, r, err)
		}
	}
	s.Signal(syscall.SIGTERM)
	s.AwaitDrain()
	check()
	s.Signal(syscall.SIGTERM)
	s.Exits(0)
	if r, err := s.AdminGet("/livez"); err == nil {
		t.Errorf("the admin address responds with %v after the server has ended", r)
	}
}
