package conformance

import (
	"net/http"
	"strings"
	"time"

	"sluice/checksum"
)

// blobCases check that a whole blob is read as it was stored.
var blobCases = []Case{
	{Name: "blob/round-trip", Section: storing, Level: Seed, check: func(c *trial) {
		body := content(3000)
		c.put("a", body).want(204)
		c.get("a").want(200).wantBody(body).wantLength(3000)
	}},
	{Name: "blob/empty", Section: storing, Level: Seed, check: func(c *trial) {
		c.put("a", "").want(204)
		c.get("a").want(200).wantBody("").wantLength(0)
	}},
	{Name: "blob/replaced", Section: storing, Level: Seed, check: func(c *trial) {
		c.put("a", "first").want(204)
		c.get("a").want(200).wantBody("first")
		c.put("a", "the second").want(204)
		c.get("a").want(200).wantBody("the second")
	}},
	{Name: "blob/replaced-by-nothing", Section: storing, Level: Seed, check: func(c *trial) {
		c.put("a", content(40_000)).want(204)
		c.put("a", "").want(204)
		c.get("a").want(200).wantBody("")
	}},
	{Name: "blob/absent", Section: errorResponses, Level: Seed, check: func(c *trial) {
		c.get("a").want(404)
	}},
	{Name: "blob/names-are-apart", Section: namesAccounts, Level: Seed, check: func(c *trial) {
		c.put("a", "one").want(204)
		c.put("b", "two").want(204)
		c.get("a").want(200).wantBody("one")
		c.get("b").want(200).wantBody("two")
	}},
	{Name: "blob/below-a-blob", Section: namesAccounts, Level: Seed, check: func(c *trial) {
		c.put("foo", "one").want(204)
		c.put("foo/bar", "two").want(204)
		c.get("foo").want(200).wantBody("one")
		c.get("foo/bar").want(200).wantBody("two")
	}},
	{Name: "blob/range", Section: reading, Level: Seed, check: func(c *trial) {
		body := content(3000)
		c.put("a", body).want(204)
		c.get("a", "Range", "bytes=5-9").want(206).wantBody(body[5:10]).wantHeader("Content-Range", "bytes 5-9/3000")
	}},
	{Name: "blob/default-content-type", Section: storing, Level: Extended, check: func(c *trial) {
		c.put("a", "x").want(204)
		c.get("a").want(200).wantHeader("Content-Type", "application/octet-stream")
	}},
	{Name: "blob/never-compressed", Section: reading, Level: Client, check: func(c *trial) {
		body := strings.Repeat("compress me ", 1000)
		c.put("a", body, "Content-Type", "text/plain").want(204)
		c.get("a", "Accept-Encoding", "gzip, deflate, br").want(200).wantBody(body).wantLength(len(body)).wantNo("Content-Encoding", "Transfer-Encoding")
	}},
}

// bodySize is a body whose size may be stored in another way than a smaller one.
type bodySize struct {
	name string
	n    int
}

// bodySizes are around powers of two, at which servers change how they store and check bytes.
var bodySizes = []bodySize{
	{"1", 1}, {"4KiB", 4 << 10}, {"32KiB", 32 << 10}, {"32KiB+1", 32<<10 + 1}, {"64KiB", 64 << 10}, {"128KiB+1", 128<<10 + 1},
	{"1MiB-1", 1<<20 - 1}, {"1MiB", 1 << 20}, {"1MiB+1", 1<<20 + 1}, {"2MiB+17", 2<<20 + 17},
}

var sizeCases = rows("blob/size", storing, Seed, bodySizes, func(s bodySize) string { return s.name }, func(c *trial, s bodySize) {
	body := content(s.n)
	c.put("a", body).want(204)
	c.get("a").want(200).wantBody(body).wantLength(s.n)
})

// putCases check the headers of PUT, and the requests that it must refuse.
var putCases = []Case{
	{Name: "put/empty-response", Section: storing, Level: Client, check: func(c *trial) {
		c.put("a", "x").want(204).wantBody("")
	}},
	{Name: "put/etag-and-date", Section: storing, Level: Extended, check: func(c *trial) {
		r := c.put("a", "x").want(204).wantMatch("ETag", `"[^"]+"`)
		if _, err := http.ParseTime(r.header.Get("Last-Modified")); err != nil {
			r.fatalf("Last-Modified is %q, which is not an HTTP-date", r.header.Get("Last-Modified"))
		}
	}},
	{Name: "put/chunked", Section: storing, Level: Extended, check: func(c *trial) {
		body := content(100_000)
		c.state.blobs = append(c.state.blobs, c.blob("a"))
		c.send(request{method: "PUT", target: c.blob("a"), body: body, chunked: true}).want(204)
		c.get("a").want(200).wantBody(body).wantLength(len(body))
	}},
	{Name: "put/chunked-empty", Section: storing, Level: Extended, check: func(c *trial) {
		c.state.blobs = append(c.state.blobs, c.blob("a"))
		c.send(request{method: "PUT", target: c.blob("a"), chunked: true}).want(204)
		c.get("a").want(200).wantBody("")
	}},
	{Name: "put/content-type", Section: storing, Level: Client, check: func(c *trial) {
		c.put("a", "x", "Content-Type", "text/x-demo; a=b").want(204)
		c.get("a").want(200).wantHeader("Content-Type", "text/x-demo; a=b")
	}},
	{Name: "put/content-type-replaced", Section: storing, Level: Extended, check: func(c *trial) {
		c.put("a", "x", "Content-Type", "text/x-demo").want(204)
		c.put("a", "x").want(204)
		c.get("a").want(200).wantHeader("Content-Type", "application/octet-stream")
	}},
	{Name: "put/content-type-longest", Section: storing, Level: Extended, check: func(c *trial) {
		longest := "text/" + strings.Repeat("x", 250)
		c.put("a", "x", "Content-Type", longest).want(204)
		c.get("a").want(200).wantHeader("Content-Type", longest)
	}},
	{Name: "put/content-type-too-long", Section: storing, Level: Extended, check: func(c *trial) {
		c.put("a", "x", "Content-Type", "text/"+strings.Repeat("x", 251)).refused(400, "bad_header")
		c.get("a").refused(404, "blob_not_found")
	}},
	{Name: "put/content-encoding", Section: storing, Level: Extended, check: func(c *trial) {
		c.put("a", "x", "Content-Encoding", "gzip").refused(415, "content_encoding")
		c.get("a").refused(404, "blob_not_found")
	}},
	{Name: "put/content-encoding-identity", Section: storing, Level: Extended, check: func(c *trial) {
		c.put("a", "x", "Content-Encoding", "identity").want(204)
	}},
	{Name: "put/content-range", Section: storing, Level: Extended, check: func(c *trial) {
		c.put("a", "before").want(204)
		c.put("a", "x", "Content-Range", "bytes 0-0/10").refused(400, "bad_header")
		c.get("a").want(200).wantBody("before")
	}},
	{Name: "put/refusal-keeps-the-blob", Section: storing, Level: Extended, check: func(c *trial) {
		c.put("a", "before").want(204)
		c.put("a", "after", "If-None-Match", "*").refused(412, "precondition_failed")
		c.get("a").want(200).wantBody("before")
	}},
	{Name: "put/at-once", Section: storing, Level: Extended, check: func(c *trial) {
		c.state.blobs = append(c.state.blobs, c.blob("a"))
		statuses := c.atOnce(6, func(c *trial) *response { return c.put("a", "x", "If-None-Match", "*") })
		if statuses[204] != 1 || statuses[412] != 5 {
			c.fatalf("6 concurrent PUTs with If-None-Match: * get %v, want one 204 and five 412", statuses)
		}
	}},
}

// The digests of "hello".
const (
	helloDigest = "sha-256=:LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ=:"
	otherDigest = "sha-256=:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=:"
)

// digestCases check RFC 9530.
var digestCases = []Case{
	{Name: "digest/content", Section: storing, Level: Extended, check: func(c *trial) {
		c.put("a", "hello", "Content-Digest", helloDigest).want(204)
		c.get("a").want(200).wantHeader("Repr-Digest", helloDigest)
	}},
	{Name: "digest/representation", Section: storing, Level: Extended, check: func(c *trial) {
		c.put("a", "hello", "Repr-Digest", helloDigest).want(204)
		c.head("a").want(200).wantHeader("Repr-Digest", helloDigest)
	}},
	{Name: "digest/both", Section: storing, Level: Extended, check: func(c *trial) {
		c.put("a", "hello", "Content-Digest", helloDigest, "Repr-Digest", helloDigest).want(204)
	}},
	{Name: "digest/none", Section: storing, Level: Extended, check: func(c *trial) {
		c.put("a", "hello").want(204)
		c.get("a").want(200).wantNo("Repr-Digest")
	}},
	{Name: "digest/other-algorithm", Section: storing, Level: Extended, check: func(c *trial) {
		c.put("a", "hello", "Content-Digest", "md5=:AAAAAAAAAAAAAAAAAAAAAA==:").want(204)
	}},
	{Name: "digest/one-of-two-algorithms", Section: storing, Level: Extended, check: func(c *trial) {
		c.put("a", "hello", "Content-Digest", "md5=:AAAAAAAAAAAAAAAAAAAAAA==:, "+otherDigest).refused(400, "digest_mismatch")
	}},
	{Name: "digest/mismatch", Section: errorResponses, Level: Extended, check: func(c *trial) {
		c.put("a", "before").want(204)
		c.put("a", "hello", "Content-Digest", otherDigest).refused(400, "digest_mismatch")
		c.get("a").want(200).wantBody("before")
	}},
	{Name: "digest/mismatch-of-large-body", Section: errorResponses, Level: Extended, check: func(c *trial) {
		c.put("a", content(100_000), "Repr-Digest", helloDigest).refused(400, "digest_mismatch")
		c.get("a").refused(404, "blob_not_found")
	}},
	{Name: "digest/contradiction", Section: errorResponses, Level: Extended, check: func(c *trial) {
		c.put("a", "hello", "Content-Digest", helloDigest, "Repr-Digest", otherDigest).refused(400, "bad_digest")
	}},
	{Name: "digest/malformed", Section: errorResponses, Level: Extended, check: func(c *trial) {
		c.put("a", "hello", "Content-Digest", "sha-256=LPJN").refused(400, "bad_digest")
	}},
	{Name: "digest/short", Section: errorResponses, Level: Extended, check: func(c *trial) {
		c.put("a", "hello", "Content-Digest", "sha-256=:LPJN:").refused(400, "bad_digest")
	}},
	{Name: "digest/of-a-range", Section: reading, Level: Extended, check: func(c *trial) {
		c.put("a", "hello", "Content-Digest", helloDigest).want(204)
		c.get("a", "Range", "bytes=0-1").want(206).wantHeader("Repr-Digest", helloDigest)
	}},
}

// etagCases check that an ETag stands for a blob's bytes.
var etagCases = []Case{
	{Name: "etag/of-the-bytes", Section: storing, Level: Extended, check: func(c *trial) {
		body := content(70_000)
		want := checksum.ETag(int64(len(body)), checksum.Update(0, []byte(body)))
		c.put("a", body).want(204).wantHeader("ETag", want)
		c.get("a").want(200).wantHeader("ETag", want)
		c.head("a").want(200).wantHeader("ETag", want)
	}},
	{Name: "etag/same-bytes", Section: storing, Level: Extended, check: func(c *trial) {
		first := c.put("a", "x", "Content-Type", "text/plain").want(204).header.Get("ETag")
		c.put("b", "x", "Blob-Meta-Color", "red").want(204).wantHeader("ETag", first)
	}},
	{Name: "etag/other-bytes", Section: storing, Level: Extended, check: func(c *trial) {
		first := c.put("a", "x").want(204).header.Get("ETag")
		if second := c.put("a", "y").want(204).header.Get("ETag"); second == first {
			c.fatalf("two contents of one size have the ETag %s", first)
		}
	}},
	{Name: "etag/of-a-range", Section: reading, Level: Extended, check: func(c *trial) {
		etag := c.put("a", "hello").want(204).header.Get("ETag")
		c.get("a", "Range", "bytes=1-2").want(206).wantHeader("ETag", etag)
	}},
}

// getCases check the headers of GET.
var getCases = []Case{
	{Name: "get/absent", Section: errorResponses, Level: Extended, check: func(c *trial) {
		c.get("a").refused(404, "blob_not_found")
	}},
	{Name: "get/error-member", Section: errorResponses, Level: Client, check: func(c *trial) {
		if r := c.get("a").want(404); r.problem().Error == "" {
			r.fatalf("the body has no member error: %s", printable(r.body))
		}
	}},
	{Name: "get/headers", Section: reading, Level: Extended, check: func(c *trial) {
		put := c.put("a", "hello").want(204)
		for _, r := range []*response{c.get("a").want(200), c.get("a", "Range", "bytes=0-0").want(206)} {
			r.wantHeader("ETag", put.header.Get("ETag")).wantHeader("Accept-Ranges", "bytes")
			r.wantHeader("X-Content-Type-Options", "nosniff").wantHeader("Content-Security-Policy", "sandbox")
		}
	}},
	{Name: "get/last-modified", Section: reading, Level: Extended, check: func(c *trial) {
		c.put("a", "hello").want(204)
		r := c.get("a").want(200)
		modified, err := http.ParseTime(r.header.Get("Last-Modified"))
		now, err2 := http.ParseTime(r.header.Get("Date"))
		if err != nil || err2 != nil || modified.After(now) || now.Sub(modified) > time.Minute {
			r.fatalf("Last-Modified is %q and Date %q: want dates of which the first is within the last minute", r.header.Get("Last-Modified"), r.header.Get("Date"))
		}
	}},
	{Name: "get/last-modified-grows", Section: reading, Level: Extended, check: func(c *trial) {
		c.put("a", "one").want(204)
		before, err := http.ParseTime(c.get("a").want(200).header.Get("Last-Modified"))
		c.ok(err)
		c.put("a", "two").want(204)
		after, err := http.ParseTime(c.get("a").want(200).header.Get("Last-Modified"))
		c.ok(err)
		if after.Before(before) {
			c.fatalf("Last-Modified is %v after it was %v", after, before)
		}
	}},
	{Name: "get/service-worker", Section: reading, Level: Extended, check: func(c *trial) {
		c.put("a", "self.onfetch = 1", "Content-Type", "text/javascript").want(204)
		c.get("a", "Service-Worker", "script").refused(403, "script_forbidden")
	}},
	{Name: "get/no-cookies", Section: accessRules, Level: Extended, check: func(c *trial) {
		c.put("a", "x").want(204).wantNo("Set-Cookie")
		c.get("a").want(200).wantNo("Set-Cookie")
	}},
}

// headCases check that HEAD has the headers of GET.
var headCases = []Case{
	{Name: "head/is-get", Section: operations, Level: Client, check: func(c *trial) {
		c.put("a", content(3000), "Content-Type", "text/x-demo").want(204)
		get := c.get("a").want(200)
		head := c.head("a").want(200).wantLength(3000)
		if head.body != "" {
			head.fatalf("the response has a body")
		}
		for _, name := range []string{"Content-Type", "ETag", "Last-Modified", "Accept-Ranges", "Cache-Control"} {
			head.wantHeader(name, get.header.Get(name))
		}
	}},
	{Name: "head/replaced", Section: reading, Level: Client, check: func(c *trial) {
		c.put("a", "first").want(204)
		c.head("a").want(200).wantLength(5)
		c.put("a", "the second").want(204)
		c.head("a").want(200).wantLength(10)
	}},
	{Name: "head/absent", Section: operations, Level: Client, check: func(c *trial) {
		if r := c.head("a").want(404); r.body != "" {
			r.fatalf("the response has a body")
		}
	}},
	{Name: "head/empty", Section: operations, Level: Client, check: func(c *trial) {
		c.put("a", "").want(204)
		c.head("a").want(200).wantLength(0)
	}},
}

// deleteCases check DELETE.
var deleteCases = []Case{
	{Name: "delete/blob", Section: storing, Level: Extended, check: func(c *trial) {
		c.put("a", "x").want(204)
		c.get("a").want(200)
		c.delete("a").want(204).wantBody("")
		c.get("a").refused(404, "blob_not_found")
		c.head("a").want(404)
	}},
	{Name: "delete/absent", Section: operations, Level: Extended, check: func(c *trial) {
		c.delete("a").want(204)
	}},
	{Name: "delete/again", Section: operations, Level: Extended, check: func(c *trial) {
		c.put("a", "x").want(204)
		c.delete("a").want(204)
		c.delete("a").want(204)
	}},
	{Name: "delete/only-this-name", Section: namesAccounts, Level: Extended, check: func(c *trial) {
		c.put("a", "one").want(204)
		c.put("a/b", "two").want(204)
		c.delete("a").want(204)
		c.get("a/b").want(200).wantBody("two")
	}},
	{Name: "delete/and-store-again", Section: storing, Level: Extended, check: func(c *trial) {
		c.put("a", content(40_000)).want(204)
		c.delete("a").want(204)
		c.put("a", "again").want(204)
		c.get("a").want(200).wantBody("again")
	}},
}
