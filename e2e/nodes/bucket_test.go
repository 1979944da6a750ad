package nodes

import (
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sluice/e2e"
	"sluice/test/testenv"
)

// bucketFront stands between the nodes and their object store.
type bucketFront struct {
	store     httputil.ReverseProxy
	throttled atomic.Bool // two of three requests are refused, as S3 does
	slow      atomic.Bool // each request waits for slowness

	refused, delayed atomic.Int64
}

// slowness is how long a request to a slow bucket waits.
const slowness = 200 * time.Millisecond

// ServeHTTP implements http.Handler.
func (f *bucketFront) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if f.throttled.Load() && rand.IntN(3) > 0 {
		f.refused.Add(1)
		_, _ = io.Copy(io.Discard, r.Body) // if it fails, nobody reads the response
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, "<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>")
		return
	}
	if f.slow.Load() {
		f.delayed.Add(1)
		timer := time.NewTimer(slowness)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.Context().Done():
			return
		}
	}
	f.store.ServeHTTP(w, r)
}

// TestBucketIsThrottledAndSlow: while the object store refuses most requests, and while it delays
// all, a single node could have given the same responses.
func TestBucketIsThrottledAndSlow(t *testing.T) {
	testenv.Require(t, testenv.PostgreSQL, testenv.VersityGW)
	t.Parallel()
	c := e2e.NewCluster(t, e2e.Options{Dirty: true, Flags: linearFlags})
	front := &bucketFront{store: httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = "http", c.Objects.Addr, r.In.Host // which is signed
	}}}
	server := httptest.NewServer(front)
	t.Cleanup(server.Close)
	for i, flag := range c.Options.Flags {
		c.Options.Flags[i] = strings.ReplaceAll(flag, "http://"+c.Objects.Addr, server.URL)
	}
	c.Start(3)
	const phase = 120
	checkHistories(t, c.Views(t), 4*phase, phase, math.MaxInt, func(further func()) {
		for _, fault := range []*atomic.Bool{&front.throttled, &front.slow} {
			fault.Store(true)
			further()
			fault.Store(false)
		}
		further()
	})
	if front.refused.Load() == 0 || front.delayed.Load() == 0 {
		t.Errorf("%d requests were refused and %d delayed", front.refused.Load(), front.delayed.Load())
	}
}
