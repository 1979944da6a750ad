package conformance

import (
	"maps"
	"net/http"
	"strings"
	"time"

	"sluice/wire"
)

// copyTo copies one of this case's blobs to another. members are appended to the JSON object, such
// as `"replaceMetadata": true`. The case need not delete the copy.
func (c *trial) copyTo(from, to string, members []string, header ...string) *response {
	return c.transfer("copyTo", from, c, to, members, header...)
}

// moveTo moves one of this case's blobs, like copyTo.
func (c *trial) moveTo(from, to string, members []string, header ...string) *response {
	return c.transfer("moveTo", from, c, to, members, header...)
}

// transfer copies or moves a blob to the trial's blob with another name.
func (c *trial) transfer(member, from string, into *trial, to string, members []string, header ...string) *response {
	c.state.blobs = append(c.state.blobs, into.blob(to))
	destination := `{"blobName": ` + quoted(c.prefix+to) + `}`
	if into.account != c.account {
		destination = `{"account": ` + quoted(into.account) + `, "blobName": ` + quoted(c.prefix+to) + `}`
	}
	body := "{" + strings.Join(append([]string{quoted(member) + ": " + destination}, members...), ", ") + "}"
	r := c.post(c.blob(from), body, header...)
	into.skipIfForbidden(r)
	return r
}

// wantCopied expects the response to a copy or a move to one of this case's blobs.
func (r *response) wantCopied(c *trial, name string, size int, etag string) wire.CopiedBlob {
	var b wire.CopiedBlob
	r.want(200).json(&b)
	if b.Account != c.account || b.Name != c.prefix+name || b.Size != int64(size) || b.ETag != etag {
		r.fatalf("the response is %+v, want the blob %s in the account %s with %d bytes and the ETag %s", b, c.prefix+name, c.account, size, etag)
	}
	if date, err := http.ParseTime(r.header.Get("Last-Modified")); err != nil || date.After(b.LastModified) {
		r.fatalf("Last-Modified is %q, and lastModified %v", r.header.Get("Last-Modified"), b.LastModified)
	}
	r.wantHeader("ETag", etag)
	return b
}

// transferCases returns cases that copy or move blobs of several sizes. after checks the source and
// the destination afterwards; the destination must have the body.
func transferCases(name string, transfer func(c *trial, from, to string, members []string, header ...string) *response, after func(c *trial, body string)) []Case {
	type blob struct {
		name string
		size int
	}
	sizes := []blob{{"empty", 0}, {"inline", 3_000}, {"32-KiB", 32 << 10}, {"object", 32<<10 + 1}, {"large", 3<<20 + 17}}
	return rows(name, copying, Extended, sizes, func(b blob) string { return b.name }, func(c *trial, b blob) {
		body := content(b.size)
		etag := c.put("a", body).want(204).header.Get("ETag")
		made := transfer(c, "a", "b", nil).want(200)
		if b.size > 16 { // a server with paid reads does not show a smaller one's ETag
			made.wantCopied(c, "b", b.size, etag)
		}
		c.get("b").want(200).wantBody(body).wantHeader("ETag", etag)
		after(c, body)
	})
}

var copySizeCases = transferCases("copy/size", (*trial).copyTo, func(c *trial, body string) {
	c.get("a").want(200).wantBody(body)
	c.delete("a").want(204)
	c.get("b").want(200).wantBody(body)
})

var moveSizeCases = transferCases("move/size", (*trial).moveTo, func(c *trial, _ string) {
	c.get("a").refused(404, "blob_not_found")
})

// copied is a blob, with more bytes than one whose ETag paid reads withhold.
var copied = content(100)

// copyCases check copies of blobs.
var copyCases = []Case{
	{Name: "copy/of-upload", Section: copying, Level: Extended, check: func(c *trial) {
		u := c.begin("a", 1000)
		u.part(0, copied+copied+copied+copied+copied+copied+copied+copied+copied+copied).want(200)
		u.part(1, "end").want(200)
		u.complete("").want(200)
		c.copyTo("a", "b", nil).want(200)
		c.delete("a").want(204)
		c.get("b", "Range", "bytes=998-").want(206).wantBody(copied[98:] + "end")
	}},
	{Name: "copy/keeps-metadata", Section: copying, Level: Extended, check: func(c *trial) {
		c.put("a", copied, append([]string{"Content-Type", "text/x-test"}, described...)...).want(204)
		b := c.copyTo("a", "b", nil).wantCopied(c, "b", len(copied), c.etagOf("a"))
		if b.ContentType != "text/x-test" || b.ContentLanguage != described[5] || b.Metadata["color"] != "dark red" {
			c.fatalf("the response has the metadata %+v", b)
		}
		c.get("b").want(200).wantHeader("Content-Type", "text/x-test").wantDescribed(c.isPublic())
	}},
	{Name: "copy/replaces-metadata", Section: copying, Level: Extended, check: func(c *trial) {
		c.put("a", copied, described...).want(204)
		b := c.copyTo("a", "b", []string{`"replaceMetadata": true, "contentType": "text/new", "contentLanguage": "fr", "metadata": {"Shape": "round"}`}).wantCopied(c, "b", len(copied), c.etagOf("a"))
		if b.ContentType != "text/new" || !maps.Equal(b.Metadata, map[string]string{"shape": "round"}) {
			c.fatalf("the response has the metadata %+v", b)
		}
		c.get("b").want(200).wantBody(copied).wantHeader("Content-Type", "text/new").wantHeader("Content-Language", "fr").wantHeader("Blob-Meta-Shape", "round").
			wantNo("Blob-Meta-Color", "Content-Disposition")
		c.get("a").want(200).wantDescribed(c.isPublic())
	}},
	{Name: "copy/replaces-metadata-by-none", Section: copying, Level: Extended, check: func(c *trial) {
		c.put("a", copied, append([]string{"Content-Type", "text/x-test"}, described...)...).want(204)
		c.copyTo("a", "b", []string{`"replaceMetadata": true`}).want(200)
		c.get("b").want(200).wantHeader("Content-Type", "application/octet-stream").wantNo("Blob-Meta-Color", "Content-Disposition", "Content-Language")
	}},
	{Name: "copy/onto-itself", Section: copying, Level: Extended, check: func(c *trial) {
		etag := c.put("a", copied, described...).want(204).header.Get("ETag")
		c.copyTo("a", "a", []string{`"replaceMetadata": true, "metadata": {"shape": "round"}`}, "If-Match", etag).wantCopied(c, "a", len(copied), etag)
		c.get("a").want(200).wantBody(copied).wantHeader("Blob-Meta-Shape", "round").wantNo("Blob-Meta-Color")
	}},
	{Name: "copy/onto-itself-unchanged", Section: copying, Level: Extended, check: func(c *trial) {
		body := content(100_000)
		etag := c.put("a", body, described...).want(204).header.Get("ETag")
		c.copyTo("a", "a", nil).wantCopied(c, "a", len(body), etag)
		c.get("a").want(200).wantBody(body).wantDescribed(c.isPublic())
	}},
	{Name: "copy/is-independent", Section: copying, Level: Extended, check: func(c *trial) {
		first, second := content(100_000), content(50_000)
		c.put("a", first).want(204)
		c.copyTo("a", "b", nil).want(200)
		c.put("a", second).want(204)
		c.get("b").want(200).wantBody(first)
		c.delete("b").want(204)
		c.get("a").want(200).wantBody(second)
	}},
	{Name: "copy/of-copy", Section: copying, Level: Extended, check: func(c *trial) {
		body := content(100_000)
		c.put("a", body).want(204)
		c.copyTo("a", "b", nil).want(200)
		c.copyTo("b", "c", nil).want(200)
		c.delete("a").want(204)
		c.delete("b").want(204)
		c.get("c").want(200).wantBody(body)
	}},
	{Name: "copy/replaces-destination", Section: copying, Level: Extended, check: func(c *trial) {
		c.put("a", copied).want(204)
		c.put("b", "old", described...).want(204)
		c.copyTo("a", "b", nil).want(200)
		c.get("b").want(200).wantBody(copied).wantNo("Blob-Meta-Color", "Content-Language")
	}},
	{Name: "copy/repeated", Section: copying, Level: Extended, check: func(c *trial) {
		etag := c.put("a", copied).want(204).header.Get("ETag")
		for range 2 {
			c.copyTo("a", "b", nil, "Idempotency-Key", "k").wantCopied(c, "b", len(copied), etag)
		}
		c.get("b").want(200).wantBody(copied)
	}},
	{Name: "copy/does-not-expire", Section: copying, Level: Extended, check: func(c *trial) {
		c.put("a", copied, "Blob-Expires", time.Now().Add(time.Hour).UTC().Format(time.RFC3339)).want(204)
		c.copyTo("a", "b", nil).want(200)
		c.get("b").want(200).wantNo("Blob-Expires")
	}},
	{Name: "copy/expires", Section: copying, Level: Extended, check: func(c *trial) {
		expires := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
		etag := c.put("a", copied).want(204).header.Get("ETag")
		if b := c.copyTo("a", "b", []string{`"expires": ` + quoted(expires.Format(time.RFC3339))}).wantCopied(c, "b", len(copied), etag); !b.Expires.Equal(expires) {
			c.fatalf("the copy expires at %v, want %v", b.Expires, expires)
		}
		c.get("b").want(200).wantMatch("Blob-Expires", ".+")
		c.get("a").want(200).wantNo("Blob-Expires")
	}},
	{Name: "copy/expiry-past", Section: copying, Level: Extended, check: func(c *trial) {
		c.put("a", copied).want(204)
		c.copyTo("a", "b", []string{`"expires": "2001-02-03T04:05:06Z"`}).refused(400, "bad_parameter")
		c.get("b").want(404)
	}},
	{Name: "copy/absent", Section: copying, Level: Extended, check: func(c *trial) {
		c.copyTo("a", "b", nil).refused(404, "blob_not_found")
		c.copyTo("a", "b", nil, "If-Match", `"x"`).refused(404, "blob_not_found")
	}},
	{Name: "copy/expired", Section: copying, Level: Extended, check: func(c *trial) {
		c.putExpired("a", copied)
		c.copyTo("a", "b", nil).refused(410, "blob_expired")
	}},
	{Name: "copy/source-conditions", Section: copying, Level: Extended, check: func(c *trial) {
		r := c.put("a", copied).want(204)
		etag := r.header.Get("ETag")
		date, err := http.ParseTime(r.header.Get("Last-Modified"))
		c.ok(err)
		for _, header := range [][]string{
			{"If-Match", `"x"`}, {"If-Match", "W/" + etag}, {"If-None-Match", etag}, {"If-None-Match", "*"},
			{"If-Unmodified-Since", date.Add(-time.Hour).Format(http.TimeFormat)},
		} {
			if p := c.copyTo("a", "b", nil, header...).refused(412, "precondition_failed").problem(); !strings.Contains(p.Detail, "source") {
				c.fatalf("the detail %q does not name the source", p.Detail)
			}
		}
		c.send(request{method: "HEAD", target: c.blob("b")}).want(404)
		c.copyTo("a", "b", nil, "If-Match", `"x", `+etag, "If-Unmodified-Since", date.Add(-time.Hour).Format(http.TimeFormat)).want(200)
		c.copyTo("a", "b", nil, "If-None-Match", `"x"`).want(200)
	}},
	{Name: "copy/destination-conditions", Section: copying, Level: Extended, check: func(c *trial) {
		etag := c.put("a", copied).want(204).header.Get("ETag")
		if p := c.copyTo("a", "b", []string{`"ifMatch": "*"`}).refused(412, "precondition_failed").problem(); !strings.Contains(p.Detail, "destination") {
			c.fatalf("the detail %q does not name the destination", p.Detail)
		}
		c.copyTo("a", "b", []string{`"ifNoneMatch": "*"`}).want(200)
		c.copyTo("a", "b", []string{`"ifNoneMatch": "*"`}).refused(412, "precondition_failed")
		c.copyTo("a", "b", []string{`"ifMatch": ` + quoted(`"x"`)}).refused(412, "precondition_failed")
		c.copyTo("a", "b", []string{`"ifMatch": ` + quoted(etag)}).want(200)
		c.copyTo("a", "b", []string{`"ifNoneMatch": ` + quoted(etag)}).refused(412, "precondition_failed")
	}},
	{Name: "copy/headers-are-not-for-the-destination", Section: copying, Level: Extended, check: func(c *trial) {
		etag := c.put("a", copied).want(204).header.Get("ETag")
		c.put("b", "another content of the destination").want(204)
		c.copyTo("a", "b", nil, "If-Match", etag).want(200)
	}},
	{Name: "copy/malformed-conditions", Section: copying, Level: Extended, check: func(c *trial) {
		c.put("a", copied).want(204)
		c.copyTo("a", "b", nil, "If-Match", `"unterminated`).refused(400, "bad_header")
		c.copyTo("a", "b", []string{`"ifMatch": "unquoted"`}).refused(400, "bad_parameter")
		c.copyTo("a", "b", []string{`"ifNoneMatch": ""`}).refused(400, "bad_parameter")
		c.send(request{method: "HEAD", target: c.blob("b")}).want(404)
	}},
	{Name: "copy/malformed-idempotency-key", Section: copying, Level: Extended, check: func(c *trial) {
		c.put("a", copied).want(204)
		c.copyTo("a", "b", nil, "Idempotency-Key", "two words").refused(400, "bad_header")
	}},
	{Name: "copy/another-account", Section: copying, Level: Extended, check: func(c *trial) {
		etag := c.put("a", copied).want(204).header.Get("ETag")
		other := c.in(randomAddress())
		c.transfer("copyTo", "a", other, "b", nil).wantCopied(other, "b", len(copied), etag)
		other.get("b").want(200).wantBody(copied)
	}},
	{Name: "copy/unusual-name", Section: copying, Level: Extended, check: func(c *trial) {
		c.put("a", copied).want(204)
		const name = "x//./\u00fc %2F?\"+"
		c.copyTo("a", name, nil).wantCopied(c, name, len(copied), c.etagOf("a"))
		c.get(name).want(200).wantBody(copied)
		c.copyTo(name, "b", nil).want(200)
	}},
	{Name: "copy/listed", Section: copying, Level: Extended, check: func(c *trial) {
		etag := c.put("a", copied, "Content-Type", "text/x-test").want(204).header.Get("ETag")
		c.copyTo("a", "b", nil).want(200)
		page := c.list("", "")
		if len(page.Blobs) != 2 || page.Blobs[1].Name != "b" || page.Blobs[1].ETag != etag || page.Blobs[1].ContentType != "text/x-test" {
			c.fatalf("the list is %+v", page.Blobs)
		}
	}},
}

// etagOf returns the ETag of one of this case's blobs.
func (c *trial) etagOf(name string) string {
	return c.send(request{method: "HEAD", target: c.blob(name)}).want(200).header.Get("ETag")
}

// wrongCopyCases check bodies with which nothing happens.
var wrongCopyCases = rows("copy/refused", copying, Extended, []struct{ name, body, code string }{
	{"no-body", ``, "bad_json"},
	{"no-operation", `{}`, "bad_json"},
	{"no-JSON", `{"copyTo"`, "bad_json"},
	{"both", `{"copyTo": {"blobName": "NAME"}, "moveTo": {"blobName": "NAME"}}`, "bad_json"},
	{"no-name", `{"copyTo": {}}`, "bad_json"},
	{"text", `{"copyTo": "NAME"}`, "bad_json"},
	{"bad-name", `{"copyTo": {"blobName": "NAME/"}}`, "bad_name"},
	{"empty-name", `{"copyTo": {"blobName": ""}}`, "bad_name"},
	{"bad-account", `{"copyTo": {"account": "UPPER", "blobName": "NAME"}}`, "bad_account"},
	{"type-without-replacing", `{"copyTo": {"blobName": "NAME"}, "contentType": "text/plain"}`, "bad_parameter"},
	{"metadata-without-replacing", `{"copyTo": {"blobName": "NAME"}, "replaceMetadata": false, "metadata": {"a": "b"}}`, "bad_parameter"},
	{"bad-type", `{"copyTo": {"blobName": "NAME"}, "replaceMetadata": true, "contentType": "\u00fc"}`, "bad_parameter"},
	{"bad-metadata", `{"copyTo": {"blobName": "NAME"}, "replaceMetadata": true, "metadata": {"a b": "c"}}`, "bad_parameter"},
	{"bad-expiry", `{"copyTo": {"blobName": "NAME"}, "expires": "tomorrow"}`, "bad_parameter"},
	{"move-expires", `{"moveTo": {"blobName": "NAME"}, "expires": "2999-01-01T00:00:00Z"}`, "bad_parameter"},
	{"move-replaces", `{"moveTo": {"blobName": "NAME"}, "replaceMetadata": true}`, "bad_parameter"},
	{"move-type", `{"moveTo": {"blobName": "NAME"}, "contentType": "text/plain"}`, "bad_parameter"},
}, func(r struct{ name, body, code string }) string { return r.name }, func(c *trial, r struct{ name, body, code string }) {
	c.put("a", copied).want(204)
	c.state.blobs = append(c.state.blobs, c.blob("b"))
	c.post(c.blob("a"), strings.ReplaceAll(r.body, "NAME", c.prefix+"b")).refused(400, r.code)
	c.send(request{method: "HEAD", target: c.blob("b")}).want(404)
	c.send(request{method: "HEAD", target: c.blob("a")}).want(200)
})

// moveCases check moves of blobs.
var moveCases = []Case{
	{Name: "move/keeps-all", Section: copying, Level: Extended, check: func(c *trial) {
		expires := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
		etag := c.put("a", copied, append([]string{"Content-Type", "text/x-test", "Blob-Expires", expires.Format(time.RFC3339)}, described...)...).want(204).header.Get("ETag")
		b := c.moveTo("a", "b", nil).wantCopied(c, "b", len(copied), etag)
		if !b.Expires.Equal(expires) || b.ContentType != "text/x-test" || b.Metadata["color"] != "dark red" {
			c.fatalf("the response is %+v", b)
		}
		c.get("b").want(200).wantBody(copied).wantHeader("Content-Type", "text/x-test").wantMatch("Blob-Expires", ".+").wantDescribed(c.isPublic())
		c.get("a").refused(404, "blob_not_found")
	}},
	{Name: "move/listed", Section: copying, Level: Extended, check: func(c *trial) {
		c.put("a", copied).want(204)
		c.moveTo("a", "b", nil).want(200)
		if all := names(c.list("", "")); len(all) != 1 || all[0] != "b" {
			c.fatalf("the list is %q", all)
		}
	}},
	{Name: "move/onto-itself", Section: copying, Level: Extended, check: func(c *trial) {
		etag := c.put("a", copied, described...).want(204).header.Get("ETag")
		c.moveTo("a", "a", nil).wantCopied(c, "a", len(copied), etag)
		c.get("a").want(200).wantBody(copied).wantDescribed(c.isPublic())
	}},
	{Name: "move/replaces-destination", Section: copying, Level: Extended, check: func(c *trial) {
		c.put("a", copied).want(204)
		c.put("b", content(100_000), described...).want(204)
		c.moveTo("a", "b", nil).want(200)
		c.get("b").want(200).wantBody(copied).wantNo("Blob-Meta-Color")
	}},
	{Name: "move/onto-its-copy", Section: copying, Level: Extended, check: func(c *trial) {
		body := content(100_000)
		c.put("a", body).want(204)
		c.copyTo("a", "b", nil).want(200)
		c.moveTo("a", "b", nil).want(200)
		c.get("a").want(404)
		c.get("b").want(200).wantBody(body)
	}},
	{Name: "move/of-copy", Section: copying, Level: Extended, check: func(c *trial) {
		body := content(100_000)
		c.put("a", body).want(204)
		c.copyTo("a", "b", nil).want(200)
		c.moveTo("b", "c", nil).want(200)
		c.delete("a").want(204)
		c.get("c").want(200).wantBody(body)
	}},
	{Name: "move/and-back", Section: copying, Level: Extended, check: func(c *trial) {
		etag := c.put("a", copied).want(204).header.Get("ETag")
		c.moveTo("a", "b", nil).want(200)
		c.moveTo("b", "a", nil).wantCopied(c, "a", len(copied), etag)
		c.get("a").want(200).wantBody(copied)
	}},
	{Name: "move/absent", Section: copying, Level: Extended, check: func(c *trial) {
		c.put("b", copied).want(204)
		c.moveTo("a", "b", nil).refused(404, "blob_not_found")
		c.moveTo("a", "b", nil, "Idempotency-Key", "k").refused(404, "blob_not_found")
		c.moveTo("a", "b", nil, "If-Match", `"x"`).refused(404, "blob_not_found")
		c.get("b").want(200).wantBody(copied)
	}},
	{Name: "move/expired", Section: copying, Level: Extended, check: func(c *trial) {
		c.putExpired("a", copied)
		c.moveTo("a", "b", nil).refused(410, "blob_expired")
	}},
	{Name: "move/conditions", Section: copying, Level: Extended, check: func(c *trial) {
		etag := c.put("a", copied).want(204).header.Get("ETag")
		c.put("b", "another content of the destination").want(204)
		c.moveTo("a", "b", nil, "If-Match", `"x"`).refused(412, "precondition_failed")
		c.moveTo("a", "b", nil, "If-None-Match", etag).refused(412, "precondition_failed")
		c.moveTo("a", "b", []string{`"ifNoneMatch": "*"`}, "If-Match", etag).refused(412, "precondition_failed")
		c.moveTo("a", "b", []string{`"ifMatch": ` + quoted(etag)}).refused(412, "precondition_failed")
		c.send(request{method: "HEAD", target: c.blob("a")}).want(200)
		c.moveTo("a", "b", []string{`"ifMatch": "*"`}, "If-Match", etag).wantCopied(c, "b", len(copied), etag)
		c.get("b").want(200).wantBody(copied)
	}},
	{Name: "move/repeated-with-key", Section: copying, Level: Extended, check: func(c *trial) {
		etag := c.put("a", copied).want(204).header.Get("ETag")
		c.moveTo("a", "b", nil, "Idempotency-Key", c.prefix).wantCopied(c, "b", len(copied), etag)
		c.moveTo("a", "b", nil, "Idempotency-Key", c.prefix).wantCopied(c, "b", len(copied), etag)
		c.put("a", "a later blob of that name").want(204)
		c.moveTo("a", "b", nil, "Idempotency-Key", c.prefix).wantCopied(c, "b", len(copied), etag)
		c.get("a").want(200).wantBody("a later blob of that name")
	}},
	{Name: "move/key-of-another-request", Section: copying, Level: Extended, check: func(c *trial) {
		c.put("a", copied).want(204)
		c.moveTo("a", "b", nil, "Idempotency-Key", c.prefix).want(200)
		c.moveTo("b", "c", nil, "Idempotency-Key", c.prefix).refused(422, "idempotency_key_reused")
		c.send(request{method: "HEAD", target: c.blob("b")}).want(200)
	}},
	{Name: "move/repeated-with-ETag", Section: copying, Level: Extended, check: func(c *trial) {
		etag := c.put("a", copied).want(204).header.Get("ETag")
		for range 2 {
			c.moveTo("a", "b", nil, "If-Match", etag).wantCopied(c, "b", len(copied), etag)
		}
		c.moveTo("a", "b", nil, "If-Match", etag+`, "x"`).refused(404, "blob_not_found")
		c.moveTo("a", "b", nil, "If-Match", "*").refused(404, "blob_not_found")
		c.moveTo("a", "c", nil, "If-Match", etag).refused(404, "blob_not_found")
	}},
	{Name: "move/repeated", Section: copying, Level: Extended, check: func(c *trial) {
		c.put("a", copied).want(204)
		c.moveTo("a", "b", nil).want(200)
		c.moveTo("a", "b", nil).refused(404, "blob_not_found")
		c.send(request{method: "HEAD", target: c.blob("b")}).want(200)
	}},
	{Name: "move/another-account", Section: copying, Level: Extended, check: func(c *trial) {
		etag := c.put("a", copied).want(204).header.Get("ETag")
		other := c.in(randomAddress())
		c.transfer("moveTo", "a", other, "b", nil).wantCopied(other, "b", len(copied), etag)
		other.get("b").want(200).wantBody(copied)
		c.get("a").want(404)
	}},
}

// hiddenCopyCases check that a copy does not show the ETag of a blob that must be paid for.
var hiddenCopyCases = needing([]Case{
	{Name: "copy/tiny-ETag-is-not-shown", Section: copying, Level: Extended, check: func(c *trial) {
		c.put("a", "tiny").want(204)
		for _, r := range []*response{c.copyTo("a", "b", nil).want(200), c.moveTo("b", "c", nil).want(200)} {
			if r.wantNo("ETag"); strings.Contains(r.body, "etag") {
				r.fatalf("the response shows the ETag: %s", r.body)
			}
		}
	}},
}, paidReads, localInstance)
