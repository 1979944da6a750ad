package conformance

import (
	"fmt"
	"maps"
	"strings"
	"time"
)

// described is a set of all kinds of metadata.
var described = []string{
	"Cache-Control", "max-age=60", "Content-Disposition", `attachment; filename="a b.txt"`, "Content-Language", "de, en",
	"Blob-Meta-Color", "dark red", "Blob-Meta-Color-Of-Roof", "#123",
}

// wantDescribed expects the headers of described, but Cache-Control only where reads are public.
func (r *response) wantDescribed(public bool) {
	for i := 0; i < len(described); i += 2 {
		if public || described[i] != "Cache-Control" {
			r.wantHeader(described[i], described[i+1])
		}
	}
}

// isPublic reports whether the blob's own Cache-Control is sent.
func (c *trial) isPublic() bool { return publicReads.holds(c.server) }

// metadataCases check the headers with which a writer describes a blob.
var metadataCases = []Case{
	{Name: "metadata/returned", Section: describing, Level: Extended, check: func(c *trial) {
		etag := c.put("a", "hello", described...).want(204).header.Get("ETag")
		c.get("a").want(200).wantDescribed(c.isPublic())
		c.head("a").want(200).wantDescribed(c.isPublic())
		c.get("a", "Range", "bytes=0-1").want(206).wantDescribed(c.isPublic())
		c.get("a", "If-None-Match", etag).want(304).wantDescribed(c.isPublic())
	}},
	{Name: "metadata/not-in-errors", Section: describing, Level: Extended, check: func(c *trial) {
		c.put("a", "hello", described...).want(204)
		c.get("a", "If-Match", `"x"`).want(412).wantNo("Blob-Meta-Color", "Content-Disposition", "Content-Language")
		c.get("a", "Range", "bytes=99-").want(416).wantNo("Blob-Meta-Color")
	}},
	{Name: "metadata/absent", Section: describing, Level: Extended, check: func(c *trial) {
		c.put("a", "hello").want(204)
		c.get("a").want(200).wantNo("Content-Disposition", "Content-Language", "Blob-Meta-Color")
	}},
	{Name: "metadata/replaced", Section: describing, Level: Extended, check: func(c *trial) {
		c.put("a", "hello", described...).want(204)
		c.put("a", "hello", "Blob-Meta-Shape", "round").want(204)
		c.get("a").want(200).wantHeader("Blob-Meta-Shape", "round").wantNo("Blob-Meta-Color", "Content-Disposition", "Content-Language")
	}},
	{Name: "metadata/replaced-by-none", Section: describing, Level: Extended, check: func(c *trial) {
		c.put("a", "hello", described...).want(204)
		c.put("a", "hello").want(204)
		c.get("a").want(200).wantNo("Blob-Meta-Color", "Blob-Meta-Color-Of-Roof", "Content-Disposition", "Content-Language")
	}},
	{Name: "metadata/same-etag", Section: describing, Level: Extended, check: func(c *trial) {
		etag := c.put("a", "hello").want(204).header.Get("ETag")
		c.put("b", "hello", described...).want(204).wantHeader("ETag", etag)
	}},
	{Name: "metadata/kept-by-refused-put", Section: describing, Level: Extended, check: func(c *trial) {
		c.put("a", "hello", described...).want(204)
		c.put("a", "bye", "If-None-Match", "*").want(412)
		c.get("a").want(200).wantDescribed(c.isPublic())
	}},
	{Name: "metadata/names-ignore-case", Section: describing, Level: Extended, check: func(c *trial) {
		c.put("a", "hello", "BLOB-META-COLOR", "red").want(204)
		c.get("a").want(200).wantHeader("Blob-Meta-Color", "red")
	}},
	{Name: "metadata/empty-is-none", Section: describing, Level: Extended, check: func(c *trial) {
		c.put("a", "hello", "Blob-Meta-Color", "", "Content-Language", "").want(204)
		c.get("a").want(200).wantNo("Blob-Meta-Color", "Content-Language")
	}},
	{Name: "metadata/32-headers", Section: describing, Level: Extended, check: func(c *trial) {
		header := numbered(32)
		c.put("a", "hello", header...).want(204)
		r := c.get("a").want(200)
		for i := 0; i < len(header); i += 2 {
			r.wantHeader(header[i], header[i+1])
		}
	}},
	{Name: "metadata/33-headers", Section: describing, Level: Extended, check: func(c *trial) {
		c.put("a", "hello", numbered(33)...).refused(400, "bad_header")
		c.get("a").want(404)
	}},
	{Name: "metadata/2048-bytes", Section: describing, Level: Extended, check: func(c *trial) {
		longest := strings.Repeat("v", 2048-len("Blob-Meta-Long"))
		c.put("a", "hello", "Blob-Meta-Long", longest).want(204)
		c.get("a").want(200).wantHeader("Blob-Meta-Long", longest)
		c.put("a", "hello", "Blob-Meta-Long", longest+"v").refused(400, "bad_header")
	}},
	{Name: "metadata/repeated-header", Section: describing, Level: Extended, check: func(c *trial) {
		c.put("a", "hello", "Blob-Meta-Color", "red", "Blob-Meta-Color", "blue").refused(400, "bad_header")
	}},
	{Name: "metadata/not-ascii", Section: describing, Level: Extended, check: func(c *trial) {
		c.put("a", "hello", "Blob-Meta-Color", "gr\u00fcn").refused(400, "bad_header")
		c.get("a").want(404)
	}},
	{Name: "metadata/tab", Section: describing, Level: Extended, check: func(c *trial) {
		c.put("a", "hello", "Blob-Meta-Color", "dark\tred").want(204)
		c.get("a").want(200).wantHeader("Blob-Meta-Color", "dark\tred")
	}},
	{Name: "metadata/listed", Section: listing, Level: Extended, check: func(c *trial) {
		c.put("a", "hello", described...).want(204)
		b := c.list("", "include=metadata").Blobs[0]
		want := map[string]string{"color": "dark red", "color-of-roof": "#123"}
		if b.CacheControl != described[1] || b.ContentDisposition != described[3] || b.ContentLanguage != described[5] || !maps.Equal(b.Metadata, want) {
			c.fatalf("the list has the metadata %+v, want %q", b, described)
		}
	}},
	{Name: "metadata/listed-on-request", Section: listing, Level: Extended, check: func(c *trial) {
		c.put("a", "hello", described...).want(204)
		if b := c.list("", "").Blobs[0]; b.CacheControl != "" || b.ContentDisposition != "" || b.ContentLanguage != "" || b.Metadata != nil {
			c.fatalf("without include=metadata the list has %+v", b)
		}
	}},
}

// numbered returns n custom headers.
func numbered(n int) []string {
	var header []string
	for i := range n {
		header = append(header, fmt.Sprintf("Blob-Meta-N%d", i), fmt.Sprint(i))
	}
	return header
}

// tooLong is a header with one character more than it may have.
var tooLongCases = rows("metadata/too-long", describing, Extended, []struct {
	header string
	limit  int
}{{"Cache-Control", 255}, {"Content-Disposition", 1024}, {"Content-Language", 255}}, func(r struct {
	header string
	limit  int
}) string {
	return strings.ToLower(r.header)
}, func(c *trial, r struct {
	header string
	limit  int
}) {
	c.put("a", "hello", r.header, strings.Repeat("x", r.limit+1)).refused(400, "bad_header")
	c.put("a", "hello", r.header, strings.Repeat("x", r.limit)).want(204)
})

var wrongCacheControlCases = rows("metadata/cache-control-refused", describing, Extended, [][2]string{
	{"age-without-number", "max-age"}, {"age-in-words", "max-age=soon"}, {"age-twice", "max-age=1, max-age=2"}, {"negative-age", "s-maxage=-1"},
}, func(r [2]string) string { return r[0] }, func(c *trial, r [2]string) {
	c.put("a", "hello", "Cache-Control", r[1]).refused(400, "bad_header")
})

// wrongMetadata is a pair of headers with which nothing is stored.
var wrongMetadataCases = rows("metadata/refused", describing, Extended, [][]string{
	{"cache-control-twice", "Cache-Control", "public", "cache-control", "max-age=1"},
	{"language-twice", "Content-Language", "de", "Content-Language", "en"},
	{"no-name", "Blob-Meta-", "x"},
	{"directives-without-comma", "Cache-Control", "public max-age=1"},
}, func(r []string) string { return r[0] }, func(c *trial, r []string) {
	c.put("a", "hello", r[1:]...).refused(400, "bad_header")
	c.send(request{method: "HEAD", target: c.blob("a")}).want(404)
})

// cachingCases check Cache-Control where everyone may read.
var cachingCases = append(needing([]Case{
	{Name: "cache/stored", Section: caching, Level: Extended, check: func(c *trial) {
		c.put("a", "hello", "Cache-Control", "max-age=60, immutable").want(204)
		r := c.get("a").want(200)
		r.wantToken("Cache-Control", "max-age=60").wantToken("Cache-Control", "immutable")
	}},
	{Name: "cache/unknown-directive-is-not-sent", Section: caching, Level: Extended, check: func(c *trial) {
		c.put("a", "hello", "Cache-Control", `max-age=60, demo="max-age=9999"`).want(204)
		c.get("a").want(200).wantHeader("Cache-Control", "max-age=60")
		if b := c.list("", "include=metadata").Blobs[0]; b.CacheControl != `max-age=60, demo="max-age=9999"` {
			c.fatalf("the list has the Cache-Control %q, want it as it was given", b.CacheControl)
		}
	}},
	{Name: "cache/not-beyond-expiry", Section: caching, Level: Extended, check: func(c *trial) {
		expires := time.Now().Add(time.Minute).UTC().Format(time.RFC3339)
		c.put("a", "hello", "Cache-Control", "max-age=3600", "Blob-Expires", expires).want(204)
		c.get("a").want(200).wantMatch("Cache-Control", "max-age=([1-5]?[0-9]|60)")
	}},
	{Name: "cache/browser's-own-is-not-stored", Section: describing, Level: Extended, check: func(c *trial) {
		c.put("a", "hello", "Cache-Control", "no-cache", "Pragma", "no-cache").want(204)
		if b := c.list("", "include=metadata").Blobs[0]; b.CacheControl != "" {
			c.fatalf("the Cache-Control %q of the request is stored", b.CacheControl)
		}
	}},
}, publicReads),
	Case{Name: "cache/errors", Section: reading, Level: Extended, check: func(c *trial) {
		c.get("a").want(404).wantHeader("Cache-Control", "no-store")
	}},
	Case{Name: "cache/json", Section: reading, Level: Extended, check: func(c *trial) {
		c.send(request{method: "GET", target: c.listTarget("", "")}).want(200).wantHeader("Cache-Control", "no-store")
	}},
)

// expiryCases check Blob-Expires.
var expiryCases = []Case{
	{Name: "expiry/returned", Section: storing, Level: Extended, check: func(c *trial) {
		expires := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
		c.put("a", "hello", "Blob-Expires", expires.Format(time.RFC3339)).want(204)
		for _, r := range []*response{c.get("a").want(200), c.head("a").want(200)} {
			if got, err := time.Parse(time.RFC3339Nano, r.header.Get("Blob-Expires")); err != nil || !got.Equal(expires) {
				r.fatalf("Blob-Expires is %q, want %v", r.header.Get("Blob-Expires"), expires)
			}
		}
		if b := c.list("", "").Blobs[0]; !b.Expires.Equal(expires) {
			c.fatalf("the blob expires at %v in the list, want %v", b.Expires, expires)
		}
	}},
	{Name: "expiry/with-time-zone", Section: unitsLimits, Level: Extended, check: func(c *trial) {
		expires := time.Now().Add(time.Hour).Truncate(time.Second)
		c.put("a", "hello", "Blob-Expires", expires.In(time.FixedZone("", 2*3600)).Format(time.RFC3339)).want(204)
		if got, err := time.Parse(time.RFC3339Nano, c.get("a").want(200).header.Get("Blob-Expires")); err != nil || !got.Equal(expires) || got.Location() != time.UTC {
			c.fatalf("Blob-Expires is %v (%v), want %v in UTC", got, err, expires)
		}
	}},
	{Name: "expiry/removed-by-replacement", Section: storing, Level: Extended, check: func(c *trial) {
		c.put("a", "hello", "Blob-Expires", time.Now().Add(time.Hour).UTC().Format(time.RFC3339)).want(204)
		c.put("a", "hello").want(204)
		c.get("a").want(200).wantNo("Blob-Expires")
	}},
	{Name: "expiry/past", Section: storing, Level: Extended, check: func(c *trial) {
		c.put("a", "hello", "Blob-Expires", "2001-02-03T04:05:06Z").refused(400, "bad_parameter")
		c.get("a").refused(404, "blob_not_found")
	}},
	{Name: "expiry/malformed", Section: storing, Level: Extended, check: func(c *trial) {
		for _, value := range []string{"tomorrow", "2999-01-01", "Mon, 01 Jan 2999 00:00:00 GMT"} {
			c.put("a", "hello", "Blob-Expires", value).want(400)
		}
	}},
	{Name: "expiry/expired", Section: storing, Level: Extended, check: func(c *trial) {
		c.putExpired("a", "hello")
		c.get("a").refused(410, "blob_expired")
		c.head("a").want(410)
		if all := names(c.list("", "")); len(all) != 0 {
			c.fatalf("the expired blob is listed: %q", all)
		}
	}},
	{Name: "expiry/is-absent-for-conditions", Section: storing, Level: Extended, check: func(c *trial) {
		c.putExpired("a", "hello")
		c.put("a", "other", "If-Match", "*").refused(412, "precondition_failed")
		c.put("a", "other", "If-None-Match", "*").want(204)
		c.get("a").want(200).wantBody("other")
	}},
}

// putExpired stores a blob that expires within a second, waits until it has expired, and returns
// the response to its PUT.
func (c *trial) putExpired(name, body string) *response {
	r := c.put(name, body, "Blob-Expires", time.Now().Add(time.Second).UTC().Format(time.RFC3339Nano)).want(204)
	for deadline := time.Now().Add(10 * time.Second); c.get(name).status == 200; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			c.fatalf("a blob that should have expired 9 seconds ago is still read")
		}
	}
	return r
}
