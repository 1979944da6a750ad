package httpapi

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"sluice/access"
	"sluice/test/testenv"
)

// TestServerTiming checks a local instance's timings, which pages of allowed origins may read, and
// that a hosted one reports none.
func TestServerTiming(t *testing.T) {
	s := newService(t, nil)
	form := regexp.MustCompile(`^db;dur=(\d+\.\d{3}), store;dur=(\d+\.\d{3}), total;dur=(\d+\.\d{3})$`)
	for _, c := range []struct {
		method, path, body string
		database           bool
	}{
		{"PUT", "/v1/blobs/0x1/n", strings.Repeat("x", 100<<10), true},
		{"GET", "/v1/blobs/0x1/n", "", false}, // its row may be cached
		{"GET", "/v1/blobs/0x1/none", "", true},
		{"GET", "/v1/info", "", false},
	} {
		res, _ := s.do(t, c.method, c.path, c.body, "Origin", "http://localhost:3000")
		found := form.FindStringSubmatch(res.Header.Get("Server-Timing"))
		if found == nil {
			t.Fatalf("%s %s: %q", c.method, c.path, res.Header.Get("Server-Timing"))
		}
		var ms [4]float64
		for i := 1; i < 4; i++ {
			ms[i] = testenv.Must(strconv.ParseFloat(found[i], 64))(t)
		}
		if c.database && ms[1] == 0 || ms[1] > ms[3] || ms[3] == 0 {
			t.Errorf("%s %s: %q", c.method, c.path, found[0])
		}
		if got := res.Header.Get("Timing-Allow-Origin"); got != "http://localhost:3000" || !strings.Contains(res.Header.Get("Access-Control-Expose-Headers"), "Server-Timing") {
			t.Errorf("%s %s: Timing-Allow-Origin %q, exposed %q", c.method, c.path, got, res.Header.Get("Access-Control-Expose-Headers"))
		}
	}
	res, _ := s.do(t, "GET", "/v1/info", "", "Origin", "https://evil.example")
	if got := res.Header.Get("Timing-Allow-Origin"); got != "" {
		t.Errorf("a foreign page may read timings: %q", got)
	}
	h := newHosted(t, access.ReadsPublic, access.ScopeWrite)
	res, _ = h.do(t, "GET", "/v1/info", "", "Origin", "https://app.example")
	if res.Header.Get("Server-Timing") != "" || res.Header.Get("Timing-Allow-Origin") != "" {
		t.Errorf("a hosted service reports timings: %q", res.Header)
	}
}
