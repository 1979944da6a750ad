package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sluice/access"
	"sluice/access/keys"
	"sluice/bytestore"
	"sluice/wire"
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
	s := newService(t, func(c *Config) {
		c.Ready = func(context.Context) error {
			if failing.Load() {
				return bytestore.ErrNoSpace
			}
			return nil
		}
	})
	probe := func(refusal wire.Code) {
		t.Helper()
		s.readiness.mu.Lock()
		s.readiness.last = nil // as if a second had passed
		s.readiness.mu.Unlock()
		s.want(t, 200, "GET", "/livez", "")
		s.want(t, 204, "OPTIONS", "/v1/info", "")
		if refusal == "" {
			s.want(t, 200, "GET", "/readyz", "")
		} else {
			s.refused(t, 503, refusal, "GET", "/readyz", "")
		}
	}
	probe("")
	if log := s.logged(); log != "" {
		t.Errorf("probes are logged:\n%s", log)
	}
	failing.Store(true)
	probe(wire.CodeNotReady)
	probe(wire.CodeNotReady)
	failing.Store(false)
	probe("")
	probe("")
	s.Drain()
	probe(wire.CodeDraining)
	probe(wire.CodeDraining)
	log := s.logged()
	if strings.Count(log, "level=ERROR") != 1 || strings.Count(log, "level=INFO") != 1 || strings.Count(log, "\n") != 2 ||
		!strings.Contains(log, "not ready") || !strings.Contains(log, bytestore.ErrNoSpace.Error()) || !strings.Contains(log, "ready again") {
		t.Errorf("want one line for each change:\n%s", log)
	}
	s.do(t, "GET", "/v1/info", "")
	if !strings.Contains(s.logged(), "route=/v1/info") {
		t.Error("no line for another request")
	}
}

// TestProbesAreLoggedOnDemand checks that probes are logged at the level debug.
func TestProbesAreLoggedOnDemand(t *testing.T) {
	all := &lockedBuffer{}
	s := newService(t, func(c *Config) {
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
	h := newHosted(t, ReadsPublic, access.ScopeWrite)
	for _, line := range []string{"GET /livez", "GET /readyz", "OPTIONS /v1/info"} {
		h.probeLimiter = access.NewLimiter(access.LimiterOptions{Address: keys.Limits{RequestsPerSecond: 1, ConcurrentRequests: 1}})
		var asked sync.WaitGroup
		var served, refused atomic.Int64
		for range 8 {
			asked.Go(func() {
				res, _ := h.raw(t, line+" HTTP/1.1\r\nHost: h\r\n\r\n")
				switch {
				case res.StatusCode < 300 && !res.Close:
					served.Add(1)
				case res.StatusCode == 429 && res.Close && res.Header.Get("Retry-After") != "":
					refused.Add(1)
				default:
					t.Errorf("%s: %d, closes: %t, %v", line, res.StatusCode, res.Close, res.Header)
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
	h.want(t, 503, "GET", "/openapi.yaml", "")
}
