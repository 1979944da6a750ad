package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/internal/testenv"
)

// cdn is a service with public reads, directly and through a cache in front of it.
type cdn struct {
	*server         // through the cache, without a key
	origin  *server // directly, with a key
}

// TestCacheInFront runs caches with the documented configurations in front of a hosted network.
func TestCacheInFront(t *testing.T) {
	for _, cache := range []struct {
		name  string
		needs testenv.Thing
		front func(*server) *server
	}{
		{"nginx", testenv.Nginx, (*server).behindCachingNginx},
		{"Varnish", testenv.Varnish, (*server).behindVarnish},
	} {
		t.Run(cache.name, func(t *testing.T) {
			testenv.Require(t, cache.needs)
			t.Parallel()
			s := startHosted(t, "public", "--public-cache-control", "public, max-age=600")
			c := cdn{server: cache.front(s), origin: s.asAdmin()}
			c.eventually("the cache does not respond", func() bool {
				r, err := c.try("GET", "/v1/info", nil)
				return err == nil && r.status == 200
			})
			c.hits()
			c.names()
			c.ranges()
			c.metadata()
			c.uncached()
			c.revalidates()
			c.expires()
			c.queries()
		})
	}
}

// behindCachingNginx runs nginx in front of the service with the documented configuration.
func (s *server) behindCachingNginx() *server {
	s.t.Helper()
	// The worker, which may be another user, cannot enter the folders of t.TempDir.
	dir, err := os.MkdirTemp("", "nginx")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			s.t.Error(err)
		}
	})
	listener := listenHere(s.t)
	formats, _, _ := strings.Cut(documentedBlock(s.t, "nginx", "log_format sluice", nil), "upstream sluice {")
	startNginx(s.t, listener, formats+"upstream sluice {\n"+upstreamOf(s.host)+"}\n"+documentedBlock(s.t, "nginx", "proxy_cache_path", [][2]string{
		{"listen 443 ssl;", "listen " + listener.Addr().String() + ";"},
		{"ssl_certificate     /etc/ssl/blobs.pem;", ""},
		{"ssl_certificate_key /etc/ssl/blobs.key;", ""},
		{"/var/cache/nginx/sluice", dir + "/cache"},
		{"/var/log/nginx/sluice.log", "DIR/access.log"},
	}))
	return s.through(listener.Addr().String())
}

// behindVarnish runs Varnish in front of the service with the documented configuration, on a
// socket.
func (s *server) behindVarnish() *server {
	s.t.Helper()
	program, err := testenv.VarnishPath()
	if err != nil {
		s.t.Fatal(err)
	}
	host, port, err := net.SplitHostPort(s.host)
	if err != nil {
		s.t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "varnish") // short, because it is part of a socket's path
	if err != nil {
		s.t.Fatal(err)
	}
	config := filepath.Join(dir, "default.vcl")
	block := documentedBlock(s.t, "vcl", "backend default", [][2]string{{`"127.0.0.1"`, `"` + host + `"`}, {`"9090"`, `"` + port + `"`}})
	if err := os.WriteFile(config, []byte(block), 0o600); err != nil {
		s.t.Fatal(err)
	}
	socket := filepath.Join(dir, "socket")
	log := &logBuffer{}
	varnish := exec.Command(program, "-F", "-j", "none", "-n", dir, "-a", socket, "-f", config, "-s", "malloc,64m", "-T", "none",
		"-l", "1m", "-p", "thread_pools=1", "-p", "thread_pool_min=10")
	varnish.Stdout, varnish.Stderr = log, log
	if err := varnish.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		var exit *exec.ExitError
		if err := errors.Join(varnish.Process.Signal(syscall.SIGTERM), varnish.Wait()); err != nil && !errors.As(err, &exit) {
			s.t.Error(err)
		}
		if err := os.RemoveAll(dir); err != nil {
			s.t.Error(err)
		}
		if s.t.Failed() {
			s.t.Logf("%s: %s", program, tail(log.String()))
		}
	})
	through := s.through("varnish")
	through.client.Transport = &http.Transport{DisableCompression: true, DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}}
	return through
}

// served returns how many GETs of blobs the service has responded to with one of these statuses.
func (c *cdn) served(statuses ...int) (n int) {
	for line := range strings.Lines(c.origin.settledLog()) {
		if !strings.Contains(line, " method=GET route=/v1/blobs/{account}/{blobName...} ") {
			continue
		}
		for _, status := range statuses {
			if strings.Contains(line, fmt.Sprintf(" status=%d ", status)) {
				n++
			}
		}
	}
	return n
}

// hits reads small blobs many times. The service must get one request for each.
func (c *cdn) hits() {
	c.t.Helper()
	const blobs, rounds = 20, 10
	for i := range blobs {
		c.origin.must(204, "PUT", blobTarget("0x1", fmt.Sprint("small", i)), content(uint64(i), 5000))
	}
	before := c.served(200, 206)
	hits := 0
	for range rounds {
		for i := range blobs {
			r := c.must(200, "GET", blobTarget("0x1", fmt.Sprint("small", i)), nil)
			if !bytes.Equal(r.body, content(uint64(i), 5000)) {
				c.t.Fatalf("blob %d is %v", i, r)
			}
			if r.header.Get("X-Cache") == "HIT" {
				hits++
			}
			if got := r.header.Get("Cache-Control"); got != "public, max-age=600" {
				c.t.Errorf("Cache-Control: %q", got)
			}
		}
	}
	if want := blobs * (rounds - 1); hits != want {
		c.t.Errorf("%d of %d reads are hits, want %d", hits, blobs*rounds, want)
	}
	c.eventually("the service did not get one request for each blob", func() bool { return c.served(200, 206)-before == blobs })
	tag := c.do("HEAD", blobTarget("0x1", "small0"), nil).header.Get("ETag")
	if r := c.do("GET", blobTarget("0x1", "small0"), nil, "If-None-Match", tag); r.status != 304 || tag == "" {
		c.t.Errorf("a client that has the blob: %v", r)
	}
}

// names reads blobs with names that a cache must not confuse with each other, or with others.
func (c *cdn) names() {
	c.t.Helper()
	names := []string{"a/b", "a//b", "a%2Fb", "a/./b", "A/b", "a b", "a+b", "ü", "u\u0308", "a?b", "a#b"}
	for i, name := range names {
		c.origin.must(204, "PUT", blobTarget("0x1", name), content(uint64(i), 100))
	}
	for range 2 {
		for i, name := range names {
			if r := c.do("GET", blobTarget("0x1", name), nil); r.status != 200 || !bytes.Equal(r.body, content(uint64(i), 100)) {
				c.t.Errorf("%q is %v", name, r)
			}
		}
	}
}

// ranges reads ranges from a blob longer than one slice. The cache fetches each byte at most once.
func (c *cdn) ranges() {
	c.t.Helper()
	data := content(7, 12<<20)
	target := blobTarget("0x1", "large")
	tag := c.origin.must(204, "PUT", target, data).header.Get("ETag")
	before := c.served(200, 206)
	size := len(data)
	for range 3 {
		for _, r := range [][2]int{{0, 10}, {5 << 20, 1000}, {10<<20 - 5, 10}, {11 << 20, 1 << 20}, {size - 1, 1}, {0, size}} {
			got := c.do("GET", target, nil, "Range", fmt.Sprintf("bytes=%d-%d", r[0], r[0]+r[1]-1), "If-Range", tag)
			if got.status != 206 || !bytes.Equal(got.body, data[r[0]:r[0]+r[1]]) ||
				got.header.Get("Content-Range") != fmt.Sprintf("bytes %d-%d/%d", r[0], r[0]+r[1]-1, size) || got.header.Get("ETag") != tag {
				c.t.Errorf("%d bytes at %d: %d with %d bytes, %v", r[1], r[0], got.status, len(got.body), got.header)
			}
		}
	}
	if got := c.do("GET", target, nil, "Range", "bytes=-7"); got.status != 206 || !bytes.Equal(got.body, data[size-7:]) {
		c.t.Errorf("the last bytes: %d with %d bytes", got.status, len(got.body))
	}
	if got := c.do("GET", target, nil); got.status != 200 || !bytes.Equal(got.body, data) {
		c.t.Errorf("the whole blob: %d with %d bytes", got.status, len(got.body))
	}
	if got := c.do("GET", target, nil, "Range", fmt.Sprintf("bytes=%d-", 20<<20)); got.status != 416 || got.header.Get("Content-Range") != fmt.Sprintf("bytes */%d", size) {
		c.t.Errorf("after the end: %v", got)
	}
	c.eventually("the service has not sent the blob", func() bool { return c.served(200, 206) > before })
	if n := c.served(200, 206) - before; n > 2 {
		c.t.Errorf("the service got %d requests for the blob, which has two slices", n)
	}
	c.origin.must(204, "PUT", blobTarget("0x1", "empty"), nil)
	for range 2 {
		if r := c.do("GET", blobTarget("0x1", "empty"), nil); r.status != 200 || len(r.body) != 0 {
			c.t.Errorf("the empty blob: %v", r)
		}
	}
}

// metadata reads a blob with as many and as large headers as a blob may have, from the service and
// from the cache.
func (c *cdn) metadata() {
	c.t.Helper()
	target := blobTarget("0x1", "described")
	h, want := largestMetadata()
	c.origin.must(204, "PUT", target, []byte("content"), h...)
	for range 2 {
		for _, method := range []string{"GET", "HEAD"} {
			if r := c.do(method, target, nil); r.status != 200 || !maps.Equal(metadataIn(r), want) {
				c.t.Errorf("%s: %d with %v", method, r.status, r.header)
			}
		}
	}
}

// uncached checks that writes, errors, lists and blobs that must be revalidated reach the service.
func (c *cdn) uncached() {
	c.t.Helper()
	worker := blobTarget("0x1", "worker.js")
	c.origin.must(204, "PUT", worker, []byte("x"), "Content-Type", "text/javascript")
	c.must(200, "GET", worker, nil) // is kept
	checkProblem(c.t, c.do("GET", worker, nil, "Service-Worker", "script"), 403, "script_forbidden")
	target := blobTarget("0x1", "revalidated")
	writer := c.as(c.origin.key)
	missing := func(method, target string) {
		c.t.Helper()
		if r := c.do(method, target, nil); r.header.Get("X-Cache") == "HIT" {
			c.t.Errorf("the response to %s %s is from the cache: %v", method, target, r)
		}
	}
	for range 2 {
		checkProblem(c.t, c.do("GET", target, nil), 404, "blob_not_found")
	}
	for _, body := range []string{"first", "second"} {
		writer.must(204, "PUT", target, []byte(body), "Cache-Control", "no-cache")
		for range 2 {
			missing("GET", target)
			if r := c.must(200, "GET", target, nil); string(r.body) != body || r.header.Get("Cache-Control") != "no-cache" {
				c.t.Errorf("after %q was stored: %v", body, r)
			}
		}
	}
	for range 2 {
		missing("GET", "/v1/blobs/0x1?limit=1")
	}
	checkProblem(c.t, c.do("PUT", target, []byte("x")), 401, "credential_required")
	writer.must(200, "GET", blobTarget("0x1", "small0"), nil)
	writer.must(204, "DELETE", target, nil)
	checkProblem(c.t, c.do("GET", target, nil), 404, "blob_not_found")
}

// revalidates reads a blob that becomes stale after a second. The cache must revalidate it by ETag,
// and return the new bytes soon after a client has stored them.
func (c *cdn) revalidates() {
	c.t.Helper()
	target := blobTarget("0x1", "short")
	c.origin.must(204, "PUT", target, []byte("first"), "Cache-Control", "max-age=1")
	before := c.served(304)
	c.eventually("the cache does not revalidate", func() bool {
		if r := c.must(200, "GET", target, nil); string(r.body) != "first" {
			c.t.Fatalf("the blob is %v", r)
		}
		return c.served(304) > before
	})
	c.origin.must(204, "PUT", target, []byte("second"), "Cache-Control", "max-age=1")
	c.eventually("the cache keeps a replaced blob", func() bool { return string(c.must(200, "GET", target, nil).body) == "second" })
}

// expires reads a blob until it expires, long before the Cache-Control of service and blob ends.
func (c *cdn) expires() {
	c.t.Helper()
	stated := map[string][]string{"expires": nil}
	for i, value := range append(deceptive, "public, max-age=86400, stale-if-error=86400, stale-while-revalidate=86400") {
		stated[fmt.Sprint("expires itself ", i)] = []string{"Cache-Control", value}
	}
	for name, h := range stated {
		target := blobTarget("0x1", name)
		expires := time.Now().Add(3 * time.Second).UTC().Format(time.RFC3339Nano)
		c.origin.must(204, "PUT", target, []byte("passing"), append(h, "Blob-Expires", expires)...)
		c.do("GET", target, nil)
		c.eventually("the cache keeps an expired blob", func() bool { return c.do("GET", target, nil).status == 410 })
	}
}

// deceptive are Cache-Control values. A cache that only searches for a text finds another life in
// them than the directives state.
var deceptive = []string{
	"public, x-max-age=86400", "public, x-s-maxage=86400", "x-max-age=86400, max-age=86400", "X-Max-Age=86400",
	`public, x="max-age=86400"`, `x="s-maxage=86400, max-age=86400"`, `public, x="a\", max-age=86400"`,
	`no-cache="x, max-age=86400"`, `public="max-age=86400"`, "max-age_max-age=86400", "public,,  max-agex=86400,x-max-age=86400",
	"MAX-AGE=86400, x-stale-while-revalidate=86400", "x-stale-if-error=86400, public", "s-maxage=86400",
}

// queries reads a blob with many different queries. The cache must serve its one copy for all of
// them.
func (c *cdn) queries() {
	c.t.Helper()
	target := blobTarget("0x1", "queried")
	data := content(11, 100_000)
	c.origin.must(204, "PUT", target, data, "Cache-Control", "max-age=600")
	before := c.served(200, 206)
	for i := range 20 {
		if r := c.must(200, "GET", fmt.Sprintf("%s?%d", target, i), nil); digest(r.body) != digest(data) {
			c.t.Errorf("a read with a query returns %d other bytes", len(r.body))
		}
	}
	if fetched := c.served(200, 206) - before; fetched != 1 {
		c.t.Errorf("20 reads of a blob with different queries were %d requests to the service", fetched)
	}
}
