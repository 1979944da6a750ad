package httpapi

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sluice/access"
	"sluice/access/keys"
	"sluice/bytestore"
	"sluice/test/testenv"
	"sluice/wire"
)

// TestProbesAreNotLogged: probes and preflights are not logged by default, and why the service is
// not ready is logged once.
func TestProbesAreNotLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var failing atomic.Bool
		s := build(t, setup{now: time.Now, config: func(c *Config) {
			c.Ready = func(context.Context) error {
				if failing.Load() {
					return bytestore.ErrNoSpace
				}
				return nil
			}
		}})
		ask := func(method, path string, status int) {
			t.Helper()
			testenv.Equal(t, s.direct(t.Context(), "127.0.0.1:1", method, path, "").StatusCode, status, "%s %s", method, path)
		}
		probe := func(status int) {
			t.Helper()
			time.Sleep(time.Second) // so that the stores are asked again
			ask("GET", "/livez", 200)
			ask("OPTIONS", "/v1/info", 204)
			ask("GET", "/readyz", status)
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
		ask("GET", "/v1/info", 200)
		if !strings.Contains(s.logged(), "route=/v1/info") {
			t.Error("no line for another request")
		}
	})
}

// TestProbesAndPreflightsHaveLimits: a loose limit applies to an address's probes and preflights.
// Above it they are refused, and their connection is closed.
func TestProbesAndPreflightsHaveLimits(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"GET /livez", "GET /readyz", "OPTIONS /v1/info"} {
		h := newHosted(t, access.ReadsPublic, access.ScopeWrite, func(c *Config) {
			c.ProbeLimits = keys.Limits{RequestsPerSecond: 1, ConcurrentRequests: 1}
		})
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
	h := newHosted(t, access.ReadsPublic, access.ScopeWrite, func(c *Config) { c.MaxRequests = -1 })
	h.want(t, 503, "GET", "/openapi.yaml", "")
}

// TestFiguresCountDamage: the figures have the damage that a read has found.
func TestFiguresCountDamage(t *testing.T) {
	s := newService(t, nil)
	s.do(t, "PUT", "/v1/blobs/0x1/n", strings.Repeat("x", 1<<20))
	totals := func() (d wire.DamageFigures) {
		t.Helper()
		s.figures.taken = time.Time{} // so that they are counted again
		f, err := s.countFigures(t.Context())
		testenv.OK(t, err)
		if f.Damaged != nil {
			d = *f.Damaged
			d.Since = time.Time{}
		}
		return d
	}
	testenv.Equal(t, totals(), wire.DamageFigures{}, "damage before it was found")
	s.loseExtent(t, "0x1", "n", 0)
	s.refused(t, 500, wire.CodeDamaged, "GET", "/v1/blobs/0x1/n", "")
	testenv.Equal(t, totals(), wire.DamageFigures{Contents: 1, Extents: 1, Bytes: 1 << 20}, "damage")
}

// TestFiguresSayWhyTheNodeIsNotReady: the figures have the reason, and no caller gets another
// caller's ended request as the reason.
func TestFiguresSayWhyTheNodeIsNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var failing, hanging atomic.Bool
		ended, leave := context.WithCancel(t.Context())
		s := build(t, setup{now: time.Now, config: func(c *Config) {
			c.Ready = func(ctx context.Context) error {
				if hanging.Load() {
					leave() // the client does, while the stores are asked
					<-ctx.Done()
					return ctx.Err()
				}
				if failing.Load() {
					return bytestore.ErrNoSpace
				}
				return nil
			}
		}})
		reason := func() string {
			t.Helper()
			time.Sleep(figuresAge) // so that they are counted again
			f, err := s.countFigures(t.Context())
			testenv.OK(t, err)
			return f.NotReady
		}
		testenv.Equal(t, reason(), "", "the reason of a node that is ready")
		failing.Store(true)
		testenv.Equal(t, reason(), bytestore.ErrNoSpace.Error(), "the reason of a node without space")
		failing.Store(false)
		testenv.Equal(t, reason(), "", "the reason of a node that is ready again")
		hanging.Store(true)
		time.Sleep(figuresAge)
		_, err := s.countFigures(ended)
		testenv.Is(t, err, context.Canceled, "figures for a client that has left")
		hanging.Store(false)
		time.Sleep(time.Minute) // the check that hangs is the stores', and other callers wait for it
		testenv.Equal(t, reason(), "", "the reason after that")
	})
}
