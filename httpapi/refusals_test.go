package httpapi

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sluice/access"
	"sluice/access/keys"
	"sluice/internal/metrics"
	"sluice/test/testenv"
)

var omittedLines = regexp.MustCompile(`msg="requests not logged" source=(\S+) omitted=(\d+) `)

// TestRefusalsDoNotFillTheLog sends requests that are refused in any number, and checks how many
// bytes the log takes, that lines and counts are all of the requests, that the metrics count each,
// and that every line of another caller is written, refusals included.
// Invariants 134, 135.
func TestRefusalsDoNotFillTheLog(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]struct {
		key, path string
		status    int
		busy      bool // the address's slot is taken
		full      bool // all slots are taken
	}{
		"beyond the limits of the address": {"", "/v1/info", http.StatusTooManyRequests, true, false},
		"beyond the limits of the service": {"", "/v1/info", http.StatusServiceUnavailable, false, true},
		"unknown keys":                     {"nonsense", "/v1/info", http.StatusUnauthorized, false, false},
		"routes that do not exist":         {"", "/wp-login.php", http.StatusNotFound, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const requests, seconds = 12_000, 90
				set := metrics.NewSet()
				s := build(t, setup{now: time.Now, keys: keysOf, config: func(c *Config) {
					c.Limiter = access.NewLimiter(access.LimiterOptions{Address: keys.Limits{ConcurrentRequests: 1}})
					c.Metrics = set
					if one.full {
						c.MaxRequests = 1
					}
				}})
				ask := func(from, path, key string) int {
					return s.direct(t.Context(), from, "GET", path, "", keyHeader(key)...).StatusCode
				}
				if one.busy {
					taken := s.Limiter().OfAddress(netip.MustParseAddr("2001:db8::1"))
					leave := testenv.Must(taken.Enter(t.Context()))(t)
					defer taken.Release()
					defer leave()
				}
				if one.full {
					_, end := s.admitted(t, "192.0.2.9:1")
					defer end()
				}
				normal := 0
				for i := range requests {
					from := fmt.Sprintf("[2001:db8::%x]:1", i%1000+1) // one client
					if status := ask(from, one.path, one.key); status != one.status {
						t.Fatalf("%d, want %d", status, one.status)
					}
					if i%600 == 0 {
						ask("192.0.2.7:1", "/v1/info", "")
						ask("192.0.2.7:1", "/v1/info", "nonsense")
						ask("192.0.2.7:1", "/v1/blobs/0x1/none", "")
						normal += 3
					}
					time.Sleep(seconds * time.Second / requests)
				}
				s.FlushLog()
				log := s.log.String()
				written := strings.Count(log, "peer=[2001:db8::")
				counted := 0
				for _, m := range omittedLines.FindAllStringSubmatch(log, -1) {
					n, err := strconv.Atoi(m[2])
					if err != nil || m[1] != "2001:db8::/64" {
						t.Fatalf("%q, %v", m, err)
					}
					counted += n
				}
				if written+counted != requests || written != 120 {
					t.Errorf("%d requests have a line and %d are counted, of %d; want 60 lines a minute", written, counted, requests)
				}
				if n := strings.Count(log, "peer=192.0.2.7:1"); n != normal {
					t.Errorf("%d lines of another caller, want %d", n, normal)
				}
				if most := (normal + 140) * 400; len(log) > most {
					t.Errorf("the log has %d bytes for %d refusals in %d s, want at most %d", len(log), requests, seconds, most)
				}
				w := httptest.NewRecorder()
				set.Handler(slog.New(slog.DiscardHandler)).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
				total := 0
				for _, m := range regexp.MustCompile(`(?m)^sluice_http_requests_total\{.*\} (\S+)$`).FindAllStringSubmatch(w.Body.String(), -1) {
					n := testenv.Must(strconv.ParseFloat(m[1], 64))(t)
					total += int(n)
				}
				if total != requests+normal {
					t.Errorf("the metrics count %d requests, want %d", total, requests+normal)
				}
			})
		})
	}
}

// TestErrorsOfNetHTTPDoNotFillTheLog checks that the errors that clients cause before a request are
// bounded like refusals.
// Invariant 135.
func TestErrorsOfNetHTTPDoNotFillTheLog(t *testing.T) {
	out := &lockedBuffer{}
	s := newService(t, func(c *Config) {
		c.Log = slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	log := s.ServerOf(s.Server).ErrorLog
	const errors = 10_000
	for range errors {
		log.Print("http: TLS handshake error from 192.0.2.1:1: EOF")
	}
	s.FlushLog()
	if written := strings.Count(out.String(), `msg="http: TLS handshake error`); written != 60 || !strings.Contains(out.String(), fmt.Sprintf("source=net/http omitted=%d\n", errors-written)) {
		t.Errorf("%d lines are written of %d:\n%.500s", written, errors, out)
	}
}

// TestRefusalsEndTheConnection checks that a connection on which requests go on to be refused is
// closed after a response, and a trusted proxy's connection is not.
// Invariant 68.
func TestRefusalsEndTheConnection(t *testing.T) {
	for _, proxy := range []bool{false, true} {
		t.Run(fmt.Sprintf("proxy=%t", proxy), func(t *testing.T) {
			s := newHosted(t, access.ReadsPublic, access.ScopeRead)
			conns := newConnections(10)
			if proxy {
				conns.Exempt = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
			}
			conn := dial(t, serve(t, s.ServerOf(s.Server), conns))
			const most = 1000
			got := 0
			for closed := false; !closed && got < most; got++ {
				conn.send(t, "GET /v1/info HTTP/1.1\r\nHost: localhost\r\nX-Api-Key: nonsense\r\n\r\n")
				res, body := conn.receive(t)
				if res.StatusCode != http.StatusUnauthorized {
					t.Fatalf("%d %s", res.StatusCode, body)
				}
				closed = res.Close
			}
			if want := map[bool]int{false: 501, true: most}[proxy]; got != want {
				t.Fatalf("the connection had %d responses, want %d", got, want)
			}
			if !proxy {
				conn.wantEnd(t)
			}
		})
	}
}
