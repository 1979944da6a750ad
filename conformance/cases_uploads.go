package conformance

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/checksum"
	"sluice/wire"
)

// uploadCases check multipart uploads.
var uploadCases = []Case{
	{Name: "upload/round-trip", Section: uploading, Level: Seed, check: func(c *trial) {
		body := content(2500)
		u := c.begin("a", 1000)
		u.sendAll(body, 1000)
		c.wantSuccess(u.complete(""))
		c.get("a").want(200).wantBody(body)
	}},
	{Name: "upload/one-part", Section: uploading, Level: Seed, check: func(c *trial) {
		u := c.begin("a", 1000)
		c.wantSuccess(u.part(0, "hello"))
		c.wantSuccess(u.complete(""))
		c.get("a").want(200).wantBody("hello")
	}},
	{Name: "upload/invisible-before-complete", Section: uploading, Level: Seed, check: func(c *trial) {
		u := c.begin("a", 1000)
		c.wantSuccess(u.part(0, "hello"))
		c.get("a").want(404)
	}},
	{Name: "upload/replaces", Section: uploading, Level: Seed, check: func(c *trial) {
		c.put("a", "before").want(204)
		u := c.begin("a", 1000)
		c.wantSuccess(u.part(0, "after"))
		c.get("a").want(200).wantBody("before")
		c.wantSuccess(u.complete(""))
		c.get("a").want(200).wantBody("after")
	}},
	{Name: "upload/unknown", Section: uploading, Level: Seed, check: func(c *trial) {
		u := upload{c, "AAAAAAAAAAAAAAAAAAAAAAAAAA"}
		u.part(0, "x").want(404)
		u.complete("").want(404)
	}},
	{Name: "upload/default-part-size", Section: uploading, Level: Client, check: func(c *trial) {
		body := content(1<<20 + 10)
		var begun wire.UploadBegun
		c.tryBegin("a").want(200).json(&begun)
		u := upload{c, begun.UploadID}
		u.sendAll(body, 1<<20)
		c.wantSuccess(u.complete(""))
		c.get("a").want(200).wantBody(body)
	}},
	{Name: "upload/empty", Section: uploading, Level: Client, check: func(c *trial) {
		c.wantSuccess(c.begin("a", 1000).complete(""))
		c.get("a").want(200).wantBody("").wantLength(0)
	}},
	{Name: "upload/parts-in-any-order", Section: uploading, Level: Client, check: func(c *trial) {
		body := content(4500)
		u := c.begin("a", 1000)
		for _, i := range []int{3, 0, 4, 2, 1} {
			c.wantSuccess(u.part(i, body[i*1000:min(len(body), i*1000+1000)]))
		}
		c.wantSuccess(u.complete(""))
		c.get("a").want(200).wantBody(body)
	}},
	{Name: "upload/part-again", Section: uploading, Level: Client, check: func(c *trial) {
		u := c.begin("a", 5)
		c.wantSuccess(u.part(0, "wrong"))
		c.wantSuccess(u.part(1, "!"))
		c.wantSuccess(u.part(0, "right"))
		c.wantSuccess(u.complete(""))
		c.get("a").want(200).wantBody("right!")
	}},
	{Name: "upload/parts-at-once", Section: uploading, Level: Client, check: func(c *trial) {
		body := content(8 * 40_000)
		u := c.begin("a", 40_000)
		indexes := make(chan int, 8)
		for i := range 8 {
			indexes <- i
		}
		statuses := c.atOnce(8, func(c *trial) *response {
			i := <-indexes
			return upload{c, u.id}.part(i, body[i*40_000:(i+1)*40_000])
		})
		if statuses[200] != 8 {
			c.fatalf("8 concurrent parts get %v", statuses)
		}
		c.wantSuccess(u.complete(""))
		c.get("a").want(200).wantBody(body)
	}},
	{Name: "upload/5-MiB-part-of-the-public-client", Section: uploading, Level: Client, check: func(c *trial) {
		body := content(5<<20 + 1)
		u := c.begin("a", 5<<20)
		u.sendAll(body, 5<<20)
		c.wantSuccess(u.complete(""))
		c.get("a", "Range", "bytes=5242870-5242880").want(206).wantBody(body[5242870:5242881])
	}},
	{Name: "upload/unknown-member", Section: jsonBodies, Level: Client, check: func(c *trial) {
		c.tryBegin("a", `"somethingNew": {"a": [1]}`).want(200)
	}},
	{Name: "upload/id", Section: unitsLimits, Level: Extended, check: func(c *trial) {
		if id := c.begin("a", 1000).id; len(id) != 26 || strings.Trim(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") != "" {
			c.fatalf("the uploadId %q does not match [A-Z2-7]{26}", id)
		}
	}},
	{Name: "upload/status", Section: uploading, Level: Extended, check: func(c *trial) {
		u := c.begin("a", 1000)
		if s := u.status(); s.State != "open" || s.UploadID != u.id || s.PartSize != 1000 || s.Bytes != 0 || len(s.Parts) != 0 || s.ETag != "" || s.Name != c.prefix+"a" || s.Account != c.account {
			c.fatalf("the state of a new upload is %+v", s)
		}
		c.wantSuccess(u.part(0, content(1000)))
		c.wantSuccess(u.part(2, "abc"))
		s := u.status()
		if s.Bytes != 1003 || !slices.Equal(s.Parts, []wire.Part{{Index: 0, Size: 1000}, {Index: 2, Size: 3}}) {
			c.fatalf("with parts 0 and 2 the state is %+v", s)
		}
		if idle := s.Expires.Sub(s.Created); idle <= 0 || s.Created.IsZero() {
			c.fatalf("the upload is created at %v and expires at %v", s.Created, s.Expires)
		}
	}},
	{Name: "upload/status-pages", Section: uploading, Level: Extended, check: func(c *trial) {
		u := c.begin("a", 3)
		for i := range 7 {
			c.wantSuccess(u.part(2*i, "abc"))
		}
		var got []int
		for query := "?limit=3"; ; {
			var page wire.UploadStatus
			c.send(request{method: "GET", target: u.target(query)}).want(200).json(&page)
			for _, p := range page.Parts {
				got = append(got, p.Index)
			}
			if page.Next == nil || len(got) > 7 {
				break
			}
			query = "?limit=3&after=" + strconv.Itoa(*page.Next)
		}
		if !slices.Equal(got, []int{0, 2, 4, 6, 8, 10, 12}) {
			c.fatalf("the pages have the parts %v, want 0, 2 ... 12", got)
		}
	}},
	{Name: "upload/committed", Section: uploading, Level: Extended, check: func(c *trial) {
		u := c.begin("a", 1000)
		c.wantSuccess(u.part(0, "hello"))
		etag := u.complete("").want(200).header.Get("ETag")
		s := u.status()
		if s.State != "committed" || s.ETag != etag || s.Bytes != 5 || len(s.Parts) != 0 {
			c.fatalf("the state after complete is %+v, want committed with %s, 5 bytes and no parts", s, etag)
		}
		u.part(0, "x").refused(409, "upload_committed")
		u.abort().refused(409, "upload_committed")
		c.get("a").want(200).wantBody("hello")
	}},
	{Name: "upload/aborted", Section: uploading, Level: Extended, check: func(c *trial) {
		u := c.begin("a", 1000)
		c.wantSuccess(u.part(0, "hello"))
		u.abort().want(204).wantBody("")
		u.abort().want(204)
		u.part(0, "x").refused(410, "upload_aborted")
		u.complete("").refused(410, "upload_aborted")
		if s := u.status(); s.State != "aborted" || len(s.Parts) != 0 {
			c.fatalf("the state after abort is %+v", s)
		}
		c.get("a").want(404)
	}},
	{Name: "upload/aborted-keeps-bytes", Section: uploading, Level: Extended, check: func(c *trial) {
		u := c.begin("a", 1000)
		c.wantSuccess(u.part(0, "hello"))
		u.abort().want(204)
		if s := u.status(); s.State != "aborted" || s.Bytes != 5 || s.ETag != "" {
			c.fatalf("the state after abort is %+v, want 5 bytes and no ETag", s)
		}
	}},
	{Name: "upload/unknown-codes", Section: uploading, Level: Extended, check: func(c *trial) {
		u := upload{c, "AAAAAAAAAAAAAAAAAAAAAAAAAA"}
		u.part(0, "x").refused(404, "upload_not_found")
		u.complete("").refused(404, "upload_not_found")
		u.abort().refused(404, "upload_not_found")
		c.send(request{method: "GET", target: u.target("")}).refused(404, "upload_not_found")
	}},
	{Name: "upload/complete-headers", Section: uploading, Level: Extended, check: func(c *trial) {
		u := c.begin("a", 1000)
		c.wantSuccess(u.part(0, "hello"))
		r := u.complete("").want(200)
		get := c.get("a").want(200)
		r.wantHeader("ETag", get.header.Get("ETag")).wantHeader("Last-Modified", get.header.Get("Last-Modified"))
	}},
	{Name: "upload/complete-again", Section: uploading, Level: Client, check: func(c *trial) {
		u := c.begin("a", 1000)
		c.wantSuccess(u.part(0, "hello"))
		c.wantSuccess(u.complete(""))
		c.wantSuccess(u.complete(""))
	}},
	{Name: "upload/complete-again-after-replacement", Section: uploading, Level: Extended, check: func(c *trial) {
		u := c.begin("a", 1000)
		c.wantSuccess(u.part(0, "hello"))
		etag := u.complete("").want(200).header.Get("ETag")
		c.put("a", "other").want(204)
		c.wantSuccess(u.complete("", "If-None-Match", "*").wantHeader("ETag", etag))
		c.get("a").want(200).wantBody("other")
		c.delete("a").want(204)
		c.wantSuccess(u.complete(`{"totalBytes": 99}`).wantHeader("ETag", etag))
		c.get("a").want(404)
	}},
	{Name: "upload/same-etag-as-put", Section: storing, Level: Extended, check: func(c *trial) {
		body := content(2500)
		want := checksum.ETag(2500, checksum.Update(0, []byte(body)))
		for _, partSize := range []int{7, 1000, 2500, 5000} {
			u := c.begin("a", int64(partSize))
			u.sendAll(body[:2500], partSize)
			u.complete("").want(200).wantHeader("ETag", want)
		}
		c.put("a", body).want(204).wantHeader("ETag", want)
	}},
	{Name: "upload/total", Section: uploading, Level: Extended, check: func(c *trial) {
		u := c.begin("a", 1000)
		c.wantSuccess(u.part(0, "hello"))
		u.complete(`{"totalBytes": 6}`).refused(400, "total_mismatch")
		if s := u.status(); s.State != "open" || s.Bytes != 5 {
			c.fatalf("after a refused complete the upload is %+v", s)
		}
		c.get("a").want(404)
		c.wantSuccess(u.complete(`{"totalBytes": 5}`))
	}},
	{Name: "upload/etag-of-complete", Section: uploading, Level: Extended, check: func(c *trial) {
		u := c.begin("a", 1000)
		c.wantSuccess(u.part(0, "hello"))
		u.complete(`{"etag": "\"5-0000000000000000\""}`).refused(400, "total_mismatch")
		c.wantSuccess(u.complete(`{"etag": ` + quoted(checksum.ETag(5, checksum.Update(0, []byte("hello")))) + `}`))
	}},
	{Name: "upload/digest-of-complete", Section: uploading, Level: Extended, check: func(c *trial) {
		u := c.begin("a", 1000)
		c.wantSuccess(u.part(0, "hello"))
		u.complete("", "Repr-Digest", helloDigest).refused(400, "digest_not_supported")
	}},
	{Name: "upload/digest-of-part", Section: uploading, Level: Extended, check: func(c *trial) {
		u := c.begin("a", 1000)
		u.part(0, "hello", "Content-Digest", otherDigest).refused(400, "digest_mismatch")
		if s := u.status(); s.Bytes != 0 {
			c.fatalf("a refused part is stored: %+v", s)
		}
		c.wantSuccess(u.part(0, "hello", "Content-Digest", helloDigest))
		c.wantSuccess(u.part(0, "hello", "Repr-Digest", helloDigest))
	}},
	{Name: "upload/encoding-of-part", Section: errorResponses, Level: Extended, check: func(c *trial) {
		c.begin("a", 1000).part(0, "hello", "Content-Encoding", "gzip").refused(415, "content_encoding")
	}},
	{Name: "upload/conditions-of-complete", Section: uploading, Level: Extended, check: func(c *trial) {
		etag := c.put("a", "before").want(204).header.Get("ETag")
		u := c.begin("a", 1000)
		c.wantSuccess(u.part(0, "after"))
		u.complete("", "If-None-Match", "*").refused(412, "precondition_failed")
		u.complete("", "If-Match", `"x"`).refused(412, "precondition_failed")
		c.get("a").want(200).wantBody("before")
		c.wantSuccess(u.complete("", "If-Match", etag))
		c.get("a").want(200).wantBody("after")
	}},
	{Name: "upload/create-only", Section: uploading, Level: Extended, check: func(c *trial) {
		u := c.begin("a", 1000, `"ifNoneMatch": "*"`)
		c.wantSuccess(u.part(0, "mine"))
		c.put("a", "theirs").want(204)
		u.complete("").refused(412, "precondition_failed")
		if s := u.status(); s.State != "open" {
			c.fatalf("after a refused complete the upload is %+v", s)
		}
		c.delete("a").want(204)
		c.wantSuccess(u.complete(""))
		c.get("a").want(200).wantBody("mine")
	}},
	{Name: "upload/described", Section: describing, Level: Extended, check: func(c *trial) {
		u := c.begin("a", 1000, `"contentType": "image/x-demo"`, `"cacheControl": "max-age=60"`, `"contentDisposition": "inline"`,
			`"contentLanguage": "de"`, `"metadata": {"Color": "red", "shape": "round"}`)
		c.wantSuccess(u.part(0, "hello"))
		c.wantSuccess(u.complete(""))
		c.get("a").want(200).wantHeader("Content-Type", "image/x-demo").wantHeader("Content-Disposition", "inline").
			wantHeader("Content-Language", "de").wantHeader("Blob-Meta-Color", "red").wantHeader("Blob-Meta-Shape", "round")
		if b := c.list("", "include=metadata").Blobs[0]; b.CacheControl != "max-age=60" {
			c.fatalf("the list has the Cache-Control %q, want max-age=60", b.CacheControl)
		}
	}},
	{Name: "upload/expires", Section: uploading, Level: Extended, check: func(c *trial) {
		expires := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
		u := c.begin("a", 1000, `"expires": `+quoted(expires.Format(time.RFC3339)))
		c.wantSuccess(u.complete(""))
		if got, err := time.Parse(time.RFC3339Nano, c.get("a").want(200).header.Get("Blob-Expires")); err != nil || !got.Equal(expires) {
			c.fatalf("Blob-Expires is %v (%v), want %v", got, err, expires)
		}
	}},
	{Name: "upload/listed", Section: uploading, Level: Extended, check: func(c *trial) {
		own := c.in(randomAddress())
		var want []string
		for i := range 5 {
			want = append(want, own.begin(fmt.Sprint("a", i), 1000).id)
		}
		var got []string
		for after := ""; ; {
			var page wire.UploadPage
			own.send(request{method: "GET", target: "/v1/multipart-uploads?limit=2&account=" + own.account + "&after=" + after}).want(200).json(&page)
			for _, u := range page.Uploads {
				got = append(got, u.UploadID)
			}
			if after = page.Next; after == "" || len(got) > 5 {
				break
			}
		}
		if !slices.Equal(got, want) {
			c.fatalf("the list has the uploads %v, want %v, oldest first", got, want)
		}
	}},
	{Name: "upload/ended-are-not-listed", Section: uploading, Level: Extended, check: func(c *trial) {
		c.begin("a", 1000).abort().want(204)
		c.wantSuccess(c.begin("b", 1000).complete(""))
		r := c.send(request{method: "GET", target: "/v1/multipart-uploads?account=" + c.account}).want(200)
		if strings.Contains(r.body, c.prefix) {
			r.fatalf("an upload that has ended is listed: %s", printable(r.body))
		}
	}},
	{Name: "upload/list-below-a-prefix", Section: uploading, Level: Extended, check: func(c *trial) {
		c.begin("a", 1000)
		c.begin("b/y", 1000)
		c.begin("b/x", 1000)
		var names []string
		for after := ""; ; {
			var page wire.UploadPage
			c.send(request{method: "GET", target: "/v1/multipart-uploads?limit=1&account=" + c.account + "&prefix=" + url.QueryEscape(c.prefix+"b/") + "&after=" + after}).want(200).json(&page)
			for _, u := range page.Uploads {
				names = append(names, strings.TrimPrefix(u.Name, c.prefix))
			}
			if after = page.Next; after == "" || len(names) > 2 {
				break
			}
		}
		if !slices.Equal(names, []string{"b/x", "b/y"}) {
			c.fatalf("the list has uploads of %q, want those of b/x and b/y, by name", names)
		}
	}},
	{Name: "upload/list-without-account", Section: uploading, Level: Extended, check: func(c *trial) {
		c.send(request{method: "GET", target: "/v1/multipart-uploads"}).want(400)
	}},
	{Name: "upload/chunked-part", Section: uploading, Level: Extended, check: func(c *trial) {
		u := c.begin("a", 1000)
		c.wantSuccess(c.send(request{method: "PUT", target: u.target("/parts/0"), body: "hello", chunked: true}))
		c.send(request{method: "PUT", target: u.target("/parts/0"), body: content(1001), chunked: true}).refused(400, "part_size")
		c.wantSuccess(u.complete(""))
		c.get("a").want(200).wantBody("hello")
	}},
	{Name: "upload/last-index", Section: unitsLimits, Level: Extended, check: func(c *trial) {
		u := c.begin("a", 1000)
		c.wantSuccess(u.part(99_999, "x"))
		u.part(100_000, "x").refused(400, "part_index")
	}},
	{Name: "upload/beyond-5-TiB", Section: uploading, Level: Extended, check: func(c *trial) {
		u := c.begin("a", 5<<30)
		u.part(1024, "x").refused(413, "too_large")
		c.wantSuccess(u.part(1023, "x"))
	}},
	{Name: "upload/largest-part-size", Section: unitsLimits, Level: Extended, check: func(c *trial) {
		c.begin("a", 5<<30)
		c.tryBegin("a", `"rawPartSize": 5368709121`).want(400)
	}},
}

// sendAll sends a body as an upload's parts.
func (u upload) sendAll(body string, partSize int) {
	for i := 0; i*partSize < len(body); i++ {
		u.c.wantSuccess(u.part(i, body[i*partSize:min(len(body), (i+1)*partSize)]))
	}
}

// wantSuccess expects 200 and success.
func (c *trial) wantSuccess(r *response) {
	var s wire.Success
	if r.want(200).json(&s); !s.Success {
		r.fatalf("success is false: %s", printable(r.body))
	}
}

var wrongUploadListCases = rows("upload/list-refused", uploading, Extended, []string{
	"limit=0", "limit=-1", "limit=ten", "limit=", "after=%FF",
}, func(query string) string { return query }, func(c *trial, query string) {
	c.send(request{method: "GET", target: "/v1/multipart-uploads?account=" + c.account + "&" + query}).refused(400, "bad_parameter")
})

var wrongUploadStatusCases = rows("upload/status-refused", uploading, Extended, []string{
	"limit=0", "limit=ten", "after=x", "after=-2",
}, func(query string) string { return query }, func(c *trial, query string) {
	c.send(request{method: "GET", target: c.begin("a", 1000).target("?" + query)}).refused(400, "bad_parameter")
})

// wrongPart is a part that an upload with parts of 1,000 bytes must not accept.
type wrongPart struct{ name, index, body, code string }

var wrongPartCases = rows("upload/part-refused", uploading, Extended, []wrongPart{
	{"empty", "0", "", "part_size"},
	{"too-long", "0", strings.Repeat("x", 1001), "part_size"},
	{"index-negative", "-1", "x", "part_index"},
	{"index-letters", "abc", "x", "part_index"},
	{"index-fraction", "1.5", "x", "part_index"},
	{"index-plus", "+1", "x", "part_index"},
	{"index-exponent", "1e2", "x", "part_index"},
	{"index-hexadecimal", "0x1", "x", "part_index"},
	{"index-huge", "99999999999999999999", "x", "part_index"},
}, func(w wrongPart) string { return w.name }, func(c *trial, w wrongPart) {
	u := c.begin("a", 1000)
	c.send(request{method: "PUT", target: u.target("/parts/" + w.index), body: w.body}).refused(400, w.code)
	if s := u.status(); s.Bytes != 0 || len(s.Parts) != 0 {
		c.fatalf("a refused part is stored: %+v", s)
	}
})

// gap is a set of parts that make no blob.
type gap struct {
	name  string
	sizes map[int]int
	code  string
}

var gapCases = rows("upload/complete-refused", uploading, Extended, []gap{
	{"gap", map[int]int{0: 1000, 2: 1000}, "parts_missing"},
	{"no-first-part", map[int]int{1: 1000}, "parts_missing"},
	{"far-last-part", map[int]int{0: 1000, 99_999: 1}, "parts_missing"},
	{"short-part-in-the-middle", map[int]int{0: 1000, 1: 999, 2: 1000}, "part_size"},
	{"short-first-part", map[int]int{0: 1, 1: 1000}, "part_size"},
}, func(g gap) string { return g.name }, func(c *trial, g gap) {
	u := c.begin("a", 1000)
	for index, size := range g.sizes {
		c.wantSuccess(u.part(index, content(size)))
	}
	before := c.send(request{method: "GET", target: u.target("")}).want(200)
	u.complete("").refused(400, g.code)
	c.send(request{method: "GET", target: u.target("")}).want(200).wantBody(before.body)
	c.get("a").want(404)
})

// wrongBegin is a body with which no upload begins. NAME and ACCOUNT stand for valid values.
type wrongBegin struct{ name, body string }

var wrongBeginCases = rows("upload/begin-refused", uploading, Extended, []wrongBegin{
	{"empty-object", `{}`},
	{"no-name", `{"rawAccount": ACCOUNT}`},
	{"no-account", `{"rawBlobName": NAME}`},
	{"account-is-a-number", `{"rawAccount": 5, "rawBlobName": NAME}`},
	{"account-is-null", `{"rawAccount": null, "rawBlobName": NAME}`},
	{"bad-account", `{"rawAccount": "UPPER", "rawBlobName": NAME}`},
	{"name-is-a-list", `{"rawAccount": ACCOUNT, "rawBlobName": ["a"]}`},
	{"name-is-empty", `{"rawAccount": ACCOUNT, "rawBlobName": ""}`},
	{"name-ends-in-slash", `{"rawAccount": ACCOUNT, "rawBlobName": "a/"}`},
	{"name-has-nul", `{"rawAccount": ACCOUNT, "rawBlobName": "a\u0000"}`},
	{"name-has-a-surrogate", `{"rawAccount": ACCOUNT, "rawBlobName": "\ud800x"}`},
	{"part-size-zero", `{"rawAccount": ACCOUNT, "rawBlobName": NAME, "rawPartSize": 0}`},
	{"part-size-negative", `{"rawAccount": ACCOUNT, "rawBlobName": NAME, "rawPartSize": -1}`},
	{"part-size-fraction", `{"rawAccount": ACCOUNT, "rawBlobName": NAME, "rawPartSize": 1.5}`},
	{"part-size-text", `{"rawAccount": ACCOUNT, "rawBlobName": NAME, "rawPartSize": "5"}`},
	{"part-size-huge", `{"rawAccount": ACCOUNT, "rawBlobName": NAME, "rawPartSize": 1e30}`},
	{"expires-in-words", `{"rawAccount": ACCOUNT, "rawBlobName": NAME, "expires": "tomorrow"}`},
	{"expires-in-the-past", `{"rawAccount": ACCOUNT, "rawBlobName": NAME, "expires": "2001-01-01T00:00:00Z"}`},
	{"condition-on-an-etag", `{"rawAccount": ACCOUNT, "rawBlobName": NAME, "ifNoneMatch": "x"}`},
	{"content-type-is-a-number", `{"rawAccount": ACCOUNT, "rawBlobName": NAME, "contentType": 5}`},
	{"content-type-of-two-lines", `{"rawAccount": ACCOUNT, "rawBlobName": NAME, "contentType": "a\nb"}`},
	{"cache-control-malformed", `{"rawAccount": ACCOUNT, "rawBlobName": NAME, "cacheControl": "max-age"}`},
	{"cache-control-is-a-number", `{"rawAccount": ACCOUNT, "rawBlobName": NAME, "cacheControl": 1}`},
	{"disposition-of-two-lines", `{"rawAccount": ACCOUNT, "rawBlobName": NAME, "contentDisposition": "a\nb"}`},
	{"language-not-ascii", `{"rawAccount": ACCOUNT, "rawBlobName": NAME, "contentLanguage": "\u00fc"}`},
	{"metadata-has-nul", `{"rawAccount": ACCOUNT, "rawBlobName": NAME, "metadata": {"a": "\u0000"}}`},
	{"metadata-without-name", `{"rawAccount": ACCOUNT, "rawBlobName": NAME, "metadata": {"": "x"}}`},
	{"metadata-begins-with-space", `{"rawAccount": ACCOUNT, "rawBlobName": NAME, "metadata": {"a": " b"}}`},
	{"metadata-too-long", `{"rawAccount": ACCOUNT, "rawBlobName": NAME, "metadata": {"a": "` + strings.Repeat("v", 2048) + `"}}`},
	{"metadata-member-twice", `{"rawAccount": ACCOUNT, "rawBlobName": NAME, "metadata": {"a": "1", "a": "2"}}`},
	{"metadata-is-a-list", `{"rawAccount": ACCOUNT, "rawBlobName": NAME, "metadata": ["a"]}`},
	{"metadata-name-with-space", `{"rawAccount": ACCOUNT, "rawBlobName": NAME, "metadata": {"a b": "x"}}`},
	{"metadata-twice", `{"rawAccount": ACCOUNT, "rawBlobName": NAME, "metadata": {"a": "x", "A": "y"}}`},
	{"metadata-is-a-number", `{"rawAccount": ACCOUNT, "rawBlobName": NAME, "metadata": {"a": 1}}`},
}, func(w wrongBegin) string { return w.name }, func(c *trial, w wrongBegin) {
	body := strings.NewReplacer("ACCOUNT", quoted(c.account), "NAME", quoted(c.prefix+"a")).Replace(w.body)
	c.tryBeginWith(body).want(400)
})
