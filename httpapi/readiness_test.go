package httpapi

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sluice/access"
	"sluice/access/keys"
	"sluice/bytestore"
)

// TestReadinessIsCachedForASecond: the stores are checked once a second, and concurrent callers
// share the result.
func TestReadinessIsCachedForASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		r := &readiness{log: slog.New(slog.DiscardHandler), stopped: func() bool { return false }, check: func(context.Context) error {
			time.Sleep(time.Second / 2)
			if asked.Add(1) == 2 {
				return bytestore.ErrNoSpace
			}
			return nil
		}}
		begun := time.Now()
		for time.Since(begun) < 10*time.Second {
			var all sync.WaitGroup
			for range 50 {
				all.Go(func() {
					err := r.get(t.Context())
					if want := asked.Load() == 2; errors.Is(err, bytestore.ErrNoSpace) != want {
						t.Errorf("response %d: %v", asked.Load(), err)
					}
				})
			}
			all.Wait()
			time.Sleep(10 * time.Millisecond)
		}
		if got := asked.Load(); got < 9 || got > 10 {
			t.Errorf("%d checks in 10 s, want one a second", got)
		}
	})
}

// TestReadinessOfStoresThatHang: a store that hangs delays no caller for longer than readyTimeout,
// and no caller after its context has ended.
func TestReadinessOfStoresThatHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		letGo := make(chan struct{})
		var asked atomic.Int64
		r := &readiness{log: slog.New(slog.DiscardHandler), stopped: func() bool { return false }, check: func(ctx context.Context) error {
			asked.Add(1)
			<-ctx.Done()
			<-letGo // it ignores its context
			return ctx.Err()
		}}
		gone, leave := context.WithCancel(t.Context())
		left := make(chan error)
		go func() { left <- r.get(gone) }()
		synctest.Wait()
		leave()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("a cancelled caller gets %v", err)
		}
		begun := time.Now()
		for range 3 {
			if err := r.get(t.Context()); err == nil || !strings.Contains(err.Error(), "have not responded") {
				t.Errorf("stores that hang: %v", err)
			}
		}
		if took := time.Since(begun); took != 3*readyTimeout || asked.Load() != 1 {
			t.Errorf("three responses took %v, and %d checks", took, asked.Load())
		}
		close(letGo)
		synctest.Wait()
	})
}

// TestProbesAreNotLogged: probes and preflights are not logged by default, and why the service is
// not ready is logged once.
func TestProbesAreNotLogged(t *testing.T) {
	var failing atomic.Bool
	s := newService(t, func(c *Config, _ *Server) {
		c.Ready = func(context.Context) error {
			if failing.Load() {
				return bytestore.ErrNoSpace
			}
			return nil
		}
	})
	probe := func(ready int) {
		t.Helper()
		s.readiness.mu.Lock()
		s.readiness.last = nil // as if a second had passed
		s.readiness.mu.Unlock()
		for _, c := range []struct {
			method, path string
			want         int
		}{{"GET", "/livez", 200}, {"GET", "/readyz", ready}, {"OPTIONS", "/v1/info", 204}} {
			if res, body := s.do(t, c.method, c.path, ""); res.StatusCode != c.want {
				t.Errorf("%s %s: %d %s, want %d", c.method, c.path, res.StatusCode, body, c.want)
			}
		}
	}
	probe(200)
	if log := s.logged(); log != "" {
		t.Errorf("probes are logged:\n%s", log)
	}
	failing.Store(true)
	probe(503)
	probe(503)
	failing.Store(false)
	probe(200)
	probe(200)
	s.Drain()
	probe(503)
	probe(503)
	log := s.logged()
	if strings.Count(log, "level=ERROR") != 1 || strings.Count(log, "level=INFO") != 1 || strings.Count(log, "\n") != 2 ||
		!strings.Contains(log, "not ready") || !strings.Contains(log, bytestore.ErrNoSpace.Error()) || !strings.Contains(log, "ready again") {
		t.Errorf("want one line for each change:\n%s", log)
	}
	if _, body := s.do(t, "GET", "/v1/info", ""); !strings.Contains(s.logged(), "route=/v1/info") {
		t.Errorf("no line for another request: %s", body)
	}
}

// TestProbesAreLoggedOnDemand checks that probes are logged at the level debug.
func TestProbesAreLoggedOnDemand(t *testing.T) {
	all := &lockedBuffer{}
	s := newService(t, func(c *Config, _ *Server) {
		c.Log = slog.New(slog.NewTextHandler(all, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	s.do(t, "GET", "/livez", "")
	s.logged() // waits for the line
	if !strings.Contains(all.String(), "level=DEBUG msg=request") || !strings.Contains(all.String(), "route=/livez") {
		t.Errorf("the log:\n%s", all.String())
	}
}

// TestProbesAndPreflightsHaveLimits: a loose limit applies to an address's probes and preflights.
// Above it they are refused, and their connection is closed.
func TestProbesAndPreflightsHaveLimits(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"GET /livez", "GET /readyz", "OPTIONS /v1/info"} {
		h := newHosted(t, ReadsPublic, access.ScopeWrite)
		h.probeLimiter = access.NewLimiter(access.LimiterOptions{Address: keys.Limits{RequestsPerSecond: 1, ConcurrentRequests: 1}})
		var asked sync.WaitGroup
		var served, refused atomic.Int64
		for range 8 {
			asked.Go(func() {
				conn, err := net.Dial("tcp", h.addr)
				if err != nil {
					t.Error(err)
					return
				}
				_, err = io.WriteString(conn, line+" HTTP/1.1\r\nHost: h\r\n\r\n")
				if err != nil {
					t.Error(err)
					return
				}
				res, err := http.ReadResponse(bufio.NewReader(conn), nil)
				if err != nil {
					t.Error(err)
					return
				}
				switch {
				case res.StatusCode < 300 && !res.Close:
					served.Add(1)
				case res.StatusCode == 429 && res.Close && res.Header.Get("Retry-After") != "":
					refused.Add(1)
				default:
					t.Errorf("%s: %d, closes: %t, %v", line, res.StatusCode, res.Close, res.Header)
				}
				if err := errors.Join(res.Body.Close(), conn.Close()); err != nil {
					t.Error(err)
				}
			})
		}
		asked.Wait()
		if served.Load() == 0 || refused.Load() == 0 {
			t.Errorf("%s: %d served, %d refused", line, served.Load(), refused.Load())
		}
	}
}

// TestOpenAPIIsServedWithinLimits checks that the OpenAPI document is served within the caller's
// limits.
func TestOpenAPIIsServedWithinLimits(t *testing.T) {
	h := newHosted(t, ReadsPublic, access.ScopeWrite)
	h.slots.max = -1
	if res, body := h.do(t, "GET", "/openapi.yaml", ""); res.StatusCode != 503 {
		t.Errorf("%d %.100s", res.StatusCode, body)
	}
}
