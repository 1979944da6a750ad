package nodes

import (
	"bytes"
	"fmt"
	"maps"
	"os/exec"
	"strings"
	"testing"
	"time"

	"sluice/e2e"
	"sluice/test/testenv"
)

// cdn is a service with public reads, directly and through a cache in front of it.
type cdn struct {
	*e2e.Server             // through the cache, without a key
	origin      *e2e.Server // directly, with a key
	purge       func()      // runs the documented command
}

// TestCacheInFront runs caches with the documented configurations in front of a hosted network.
// Invariants 48, 72, 198.
func TestCacheInFront(t *testing.T) {
	t.Parallel()
	for _, cache := range []struct {
		name  string
		needs testenv.Thing
		front func(*e2e.Server) (*e2e.Server, [2]string)
	}{
		{"nginx", testenv.Nginx, (*e2e.Server).BehindCachingNginx},
		{"Varnish", testenv.Varnish, (*e2e.Server).BehindVarnish},
	} {
		t.Run(cache.name, func(t *testing.T) {
			testenv.Require(t, cache.needs)
			t.Parallel()
			s := e2e.StartHosted(t, "public", "--public-cache-control", "public, max-age=600")
			front, purge := cache.front(s)
			c := cdn{Server: front, origin: s.AsAdmin(), purge: func() { documentedPurge(t, purge) }}
			c.Eventually("the cache does not respond", func() bool {
				r, err := c.Try("GET", "/v1/info", nil)
				return err == nil && r.Status == 200
			})
			c.hits()
			c.Names()
			c.ranges()
			c.metadata()
			c.uncached()
			c.revalidates()
			c.expires()
			c.queries()
			c.closed()
			c.versions()
		})
	}
}

// served returns how many GETs of blobs the service has responded to with one of these statuses.
func (c *cdn) served(statuses ...int) (n int) {
	for line := range strings.Lines(c.origin.SettledLog()) {
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
	c.T.Helper()
	const blobs, rounds = 20, 10
	for i := range blobs {
		c.origin.Must(204, "PUT", e2e.BlobTarget("0x1", fmt.Sprint("small", i)), e2e.Content(uint64(i), 5000))
	}
	before := c.served(200, 206)
	hits := 0
	for range rounds {
		for i := range blobs {
			r := c.Must(200, "GET", e2e.BlobTarget("0x1", fmt.Sprint("small", i)), nil)
			if !bytes.Equal(r.Body, e2e.Content(uint64(i), 5000)) {
				c.T.Fatalf("blob %d is %v", i, r)
			}
			if r.Header.Get("X-Cache") == "HIT" {
				hits++
			}
			if got := r.Header.Get("Cache-Control"); got != "public, max-age=600" {
				c.T.Errorf("Cache-Control: %q", got)
			}
		}
	}
	if want := blobs * (rounds - 1); hits != want {
		c.T.Errorf("%d of %d reads are hits, want %d", hits, blobs*rounds, want)
	}
	c.Eventually("the service did not get one request for each blob", func() bool { return c.served(200, 206)-before == blobs })
	tag := c.Do("HEAD", e2e.BlobTarget("0x1", "small0"), nil).Header.Get("ETag")
	if r := c.Do("GET", e2e.BlobTarget("0x1", "small0"), nil, "If-None-Match", tag); r.Status != 304 || tag == "" {
		c.T.Errorf("a client that has the blob: %v", r)
	}
}

// Names reads blobs with names that a cache must not confuse with each other, or with similar ones.
func (c *cdn) Names() {
	c.T.Helper()
	names := []string{"a/b", "a//b", "a%2Fb", "a/./b", "A/b", "a b", "a+b", "ü", "u\u0308", "a?b", "a#b"}
	for i, name := range names {
		c.origin.Must(204, "PUT", e2e.BlobTarget("0x1", name), e2e.Content(uint64(i), 100))
	}
	for range 2 {
		for i, name := range names {
			c.Holds(e2e.BlobTarget("0x1", name), e2e.Content(uint64(i), 100))
		}
	}
}

// ranges reads ranges from a blob longer than one slice. The cache fetches each byte at most once.
func (c *cdn) ranges() {
	c.T.Helper()
	data := e2e.Content(7, 12<<20)
	target := e2e.BlobTarget("0x1", "large")
	tag := c.origin.Must(204, "PUT", target, data).Header.Get("ETag")
	before := c.served(200, 206)
	size := len(data)
	for range 3 {
		for _, r := range [][2]int{{0, 10}, {5 << 20, 1000}, {10<<20 - 5, 10}, {11 << 20, 1 << 20}, {size - 1, 1}, {0, size}} {
			got := c.Do("GET", target, nil, "Range", fmt.Sprintf("bytes=%d-%d", r[0], r[0]+r[1]-1), "If-Range", tag)
			if got.Status != 206 || !bytes.Equal(got.Body, data[r[0]:r[0]+r[1]]) ||
				got.Header.Get("Content-Range") != fmt.Sprintf("bytes %d-%d/%d", r[0], r[0]+r[1]-1, size) || got.Header.Get("ETag") != tag {
				c.T.Errorf("%d bytes at %d: %d with %d bytes, %v", r[1], r[0], got.Status, len(got.Body), got.Header)
			}
		}
	}
	if got := c.Do("GET", target, nil, "Range", "bytes=-7"); got.Status != 206 || !bytes.Equal(got.Body, data[size-7:]) {
		c.T.Errorf("the last bytes: %d with %d bytes", got.Status, len(got.Body))
	}
	if got := c.Do("GET", target, nil); got.Status != 200 || !bytes.Equal(got.Body, data) {
		c.T.Errorf("the whole blob: %d with %d bytes", got.Status, len(got.Body))
	}
	if got := c.Do("GET", target, nil, "Range", fmt.Sprintf("bytes=%d-", 20<<20)); got.Status != 416 || got.Header.Get("Content-Range") != fmt.Sprintf("bytes */%d", size) {
		c.T.Errorf("after the end: %v", got)
	}
	c.Eventually("the service has not sent the blob", func() bool { return c.served(200, 206) > before })
	if n := c.served(200, 206) - before; n > 2 {
		c.T.Errorf("the service got %d requests for the blob, which has two slices", n)
	}
	c.origin.Must(204, "PUT", e2e.BlobTarget("0x1", "empty"), nil)
	for range 2 {
		if r := c.Do("GET", e2e.BlobTarget("0x1", "empty"), nil); r.Status != 200 || len(r.Body) != 0 {
			c.T.Errorf("the empty blob: %v", r)
		}
	}
}

// metadata reads a blob with as many and as large headers as a blob may have, from the service and
// from the cache.
func (c *cdn) metadata() {
	c.T.Helper()
	target := e2e.BlobTarget("0x1", "described")
	h, want := e2e.LargestMetadata()
	c.origin.Must(204, "PUT", target, []byte("content"), h...)
	for range 2 {
		for _, method := range []string{"GET", "HEAD"} {
			if r := c.Do(method, target, nil); r.Status != 200 || !maps.Equal(e2e.MetadataIn(r), want) {
				c.T.Errorf("%s: %d with %v", method, r.Status, r.Header)
			}
		}
	}
}

// uncached checks that writes, errors, lists and blobs that must be revalidated reach the service.
func (c *cdn) uncached() {
	c.T.Helper()
	worker := e2e.BlobTarget("0x1", "worker.js")
	c.origin.Must(204, "PUT", worker, []byte("x"), "Content-Type", "text/javascript")
	c.Must(200, "GET", worker, nil) // is kept
	e2e.CheckProblem(c.T, c.Do("GET", worker, nil, "Service-Worker", "script"), 403, "script_forbidden")
	target := e2e.BlobTarget("0x1", "revalidated")
	writer := c.As(c.origin.Key)
	missing := func(method, target string) {
		c.T.Helper()
		if r := c.Do(method, target, nil); r.Header.Get("X-Cache") == "HIT" {
			c.T.Errorf("the response to %s %s is from the cache: %v", method, target, r)
		}
	}
	for range 2 {
		e2e.CheckProblem(c.T, c.Do("GET", target, nil), 404, "blob_not_found")
	}
	for _, body := range []string{"first", "second"} {
		writer.Must(204, "PUT", target, []byte(body), "Cache-Control", "no-cache")
		for range 2 {
			missing("GET", target)
			if r := c.Must(200, "GET", target, nil); string(r.Body) != body || r.Header.Get("Cache-Control") != "no-cache" {
				c.T.Errorf("after %q was stored: %v", body, r)
			}
		}
	}
	for range 2 {
		missing("GET", "/v1/blobs/0x1?limit=1")
	}
	e2e.CheckProblem(c.T, c.Do("PUT", target, []byte("x")), 401, "credential_required")
	writer.Must(200, "GET", e2e.BlobTarget("0x1", "small0"), nil)
	writer.Must(204, "DELETE", target, nil)
	e2e.CheckProblem(c.T, c.Do("GET", target, nil), 404, "blob_not_found")
}

// revalidates reads a blob that becomes stale after a second. The cache must revalidate it by ETag,
// and return the new bytes soon after a client has stored them.
func (c *cdn) revalidates() {
	c.T.Helper()
	target := e2e.BlobTarget("0x1", "short")
	c.origin.Must(204, "PUT", target, []byte("first"), "Cache-Control", "max-age=1")
	before := c.served(304)
	c.Eventually("the cache does not revalidate", func() bool {
		c.Holds(target, []byte("first"))
		return c.served(304) > before
	})
	c.origin.Must(204, "PUT", target, []byte("second"), "Cache-Control", "max-age=1")
	c.Eventually("the cache keeps a replaced blob", func() bool { return string(c.Must(200, "GET", target, nil).Body) == "second" })
}

// expires reads blobs until they expire, long before the Cache-Control of service and blob ends.
func (c *cdn) expires() {
	c.T.Helper()
	stated := map[string][]string{"expires": nil}
	for i, value := range append(deceptive, "public, max-age=86400, stale-if-error=86400, stale-while-revalidate=86400") {
		stated[fmt.Sprint("expires itself ", i)] = []string{"Cache-Control", value}
	}
	expires := time.Now().Add(5 * time.Second).UTC().Format(time.RFC3339Nano)
	for name, h := range stated {
		target := e2e.BlobTarget("0x1", name)
		c.origin.Must(204, "PUT", target, []byte("passing"), append(h, "Blob-Expires", expires)...)
		c.Do("GET", target, nil)
	}
	for name := range stated {
		c.Eventually("the cache keeps the expired blob "+name, func() bool { return c.Do("GET", e2e.BlobTarget("0x1", name), nil).Status == 410 })
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
// them, but for signed links, which only the service can check.
func (c *cdn) queries() {
	c.T.Helper()
	target := e2e.BlobTarget("0x1", "queried")
	data := e2e.Content(11, 100_000)
	c.origin.Must(204, "PUT", target, data, "Cache-Control", "max-age=600")
	before := c.served(200, 206)
	for i := range 20 {
		c.Holds(fmt.Sprintf("%s?%d", target, i), data)
	}
	if fetched := c.served(200, 206) - before; fetched != 1 {
		c.T.Errorf("20 reads of a blob with different queries were %d requests to the service", fetched)
	}
	for _, query := range []string{"?sluice-link=x", "?a=b&sluice-link=x"} {
		e2e.CheckProblem(c.T, c.Do("GET", target+query, nil), 401, "credential_unknown")
	}
	c.Holds(target, data)
}

// documentedPurge runs the documented command for the cache that this replacement is for.
func documentedPurge(t *testing.T, replaced [2]string) {
	t.Helper()
	for command := range strings.Lines(e2e.BlockOf(t, "docs/operations.md", "sh", replaced[0], nil)) {
		if mine := strings.Replace(command, replaced[0], replaced[1], 1); mine != command {
			if out, err := exec.Command("sh", "-ec", mine).CombinedOutput(); err != nil {
				t.Fatalf("%s: %v: %s", mine, err, out)
			}
		}
	}
}

// closed blocks blobs, and closes their place, while the cache has them by several spellings of
// their path, and a large one in slices. After the documented purge it must serve none, and serve
// them again as soon as that ends.
func (c *cdn) closed() {
	c.T.Helper()
	c.origin.Must(204, "PUT", e2e.BlobTarget("0x1", "shut/a"), e2e.Content(3, 1000))
	c.origin.Must(204, "PUT", e2e.BlobTarget("0x1", "shut/large"), e2e.Content(4, 12<<20))
	spellings := []string{"shut/a", "%73hut/a", "shut%2Fa", "shut/a?x", "shut/large"}
	each := func(want func(e2e.Response) bool, failure string) {
		c.T.Helper()
		for _, spelled := range spellings {
			for _, h := range [][]string{nil, {"Range", "bytes=0-9"}} {
				if r := c.Do("GET", "/v1/blobs/0x1/"+spelled, nil, h...); !want(r) {
					c.T.Errorf("%s %v: %s: %d %s", spelled, h, failure, r.Status, r.Header.Get("X-Cache"))
				}
			}
		}
	}
	served := func(r e2e.Response) bool { return r.Status == 200 || r.Status == 206 }
	for _, change := range []struct {
		body, undo string
		status     int
	}{{`{"block": "order 7"}`, `{"block": ""}`, 451}, {`{"reads": "key"}`, `{"reads": ""}`, 401}} {
		each(served, "is not served")
		c.origin.Must(200, "PATCH", "/v1/admin/places/0x1?prefix=shut/", []byte(change.body))
		each(func(r e2e.Response) bool { return served(r) && r.Header.Get("X-Cache") == "HIT" }, "the cache had no copy")
		c.purge()
		for range 2 {
			each(func(r e2e.Response) bool { return r.Status == change.status }, "is served after the purge")
		}
		c.origin.Must(200, "PATCH", "/v1/admin/places/0x1?prefix=shut/", []byte(change.undo))
	}
	each(served, "is not served again")
}

// versions reads versions through the cache, which keeps the blob and no version. After the current
// version's deletion and the documented purge, it serves the version before.
func (c *cdn) versions() {
	c.T.Helper()
	c.origin.Must(200, "PUT", "/v1/admin/versions/0x1", []byte(`{"keep": "on"}`), "If-Match", "*")
	target, holder := e2e.BlobTarget("0x1", "kept"), c.As(c.origin.Key)
	var versions []string
	bodies := []string{"first", "second"}
	for _, body := range bodies {
		version := c.origin.Must(204, "PUT", target, []byte(body), "Cache-Control", "max-age=600, immutable").Header.Get("Blob-Version")
		versions = append(versions, "/v1/versions/0x1/"+version+"/kept")
		c.Do("GET", target+"?version="+version, nil) // 400, or the cache's copy of the blob
	}
	c.purge()
	c.Holds(target, []byte("second"))
	for range 2 {
		for i, version := range versions {
			for _, spelled := range []string{version, version + "?x=1", strings.Replace(version, "/kept", "/%6bept", 1)} {
				r := holder.Must(200, "GET", spelled, nil)
				if string(r.Body) != bodies[i] || r.Header.Get("X-Cache") == "HIT" || r.Header.Get("Cache-Control") != "private, no-cache" {
					c.T.Errorf("%s: %v with %v", spelled, r, r.Header)
				}
				e2e.CheckProblem(c.T, c.Do("GET", spelled, nil), 401, "credential_required")
			}
		}
	}
	holder.Must(204, "DELETE", versions[1], nil)
	if r := c.Must(200, "GET", target, nil); string(r.Body) != "second" {
		c.T.Errorf("the cache had no copy: %v", r)
	}
	c.purge()
	for range 2 {
		c.Holds(target, []byte("first"))
		e2e.CheckProblem(c.T, holder.Do("GET", versions[1], nil), 404, "blob_not_found")
		holder.Holds(versions[0], []byte("first"))
	}
}
