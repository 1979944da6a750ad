package e2e

import (
	"net/http"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// adminLine matches the log line that contains the admin address.
var adminLine = regexp.MustCompile(`"serving metrics and profiles"(?: url=|,"url":")([^\s"]+)`)

// admin returns the server's admin address. The server writes the log to another pipe than its
// ready line, so the test may read the log later.
func (s *server) admin() string {
	s.t.Helper()
	var found []string
	s.eventually("the log does not contain the admin address", func() bool {
		found = adminLine.FindStringSubmatch(s.log.String())
		return found != nil
	})
	return found[1]
}

// adminGet sends a GET to the admin address.
func (s *server) adminGet(path string) (response, error) {
	request, err := http.NewRequest("GET", s.admin()+path, nil)
	if err != nil {
		return response{}, err
	}
	request.Close = true
	return s.send(request)
}

// TestAdminAddress checks that the server serves metrics and profiles on a separate address, until
// the drain ends, and nowhere else.
func TestAdminAddress(t *testing.T) {
	t.Parallel()
	s := start(t, options{flags: []string{"--admin-addr", "127.0.0.1:0", "--drain-wait", longWait}})
	check := func() {
		t.Helper()
		for path, want := range map[string]string{
			"/metrics": "process_open_fds", "/livez": "ok", "/debug/pprof/": "goroutine", "/debug/pprof/goroutine?debug=1": "main.main",
		} {
			if r, err := s.adminGet(path); err != nil || r.status != 200 || !strings.Contains(string(r.body), want) {
				t.Errorf("%s on the admin address: %v, %v, want 200 with %q", path, r, err, want)
			}
		}
	}
	check()
	for _, path := range []string{"/metrics", "/debug/pprof/", "/debug/pprof/heap", "/debug/vars"} {
		checkProblem(t, s.do("GET", path, nil), 404, "")
	}
	for _, path := range []string{"/v1/info", "/v1/blobs/0x1/name", "/readyz"} {
		if r, err := s.adminGet(path); err != nil || r.status != 404 {
			t.Errorf("%s on the admin address: %v, %v, want 404", path, r, err)
		}
	}
	s.signal(syscall.SIGTERM)
	s.awaitDrain()
	check()
	s.signal(syscall.SIGTERM)
	if code := s.wait(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	if r, err := s.adminGet("/livez"); err == nil {
		t.Errorf("the admin address responds with %v after the server has ended", r)
	}
}

// TestNoAdminAddress checks that a local instance has no admin address unless it is configured.
func TestNoAdminAddress(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	s.must(200, "GET", "/readyz", nil)
	if adminLine.MatchString(s.log.String()) {
		t.Errorf("the log contains an admin address:\n%s", s.log)
	}
}
