package conformance

import (
	"strings"
	"time"

	"sluice/wire"
)

// newSession creates a session that is granted.
func (c *trial) newSession() string {
	s := c.post(sessionsTarget, "{}").want(201).session()
	return s.SessionID
}

// sessionCases check sessions that a server grants without payment.
var sessionCases = needing([]Case{
	{Name: "session/create", Section: sessions, Level: Seed, check: func(c *trial) {
		r := c.post(sessionsTarget, "{}").want(201)
		if r.session().SessionID == "" {
			r.fatalf("there is no sessionId: %s", printable(r.body))
		}
	}},
	{Name: "session/create-without-body", Section: sessions, Level: Seed, check: func(c *trial) {
		c.send(request{method: "POST", target: sessionsTarget}).want(201)
	}},
	{Name: "session/create-with-identity", Section: sessions, Level: Seed, check: func(c *trial) {
		c.post(sessionsTarget, `{"userIdentity": "0x2"}`).want(201)
	}},
	{Name: "session/use", Section: sessions, Level: Seed, check: func(c *trial) {
		c.use(c.newSession()).want(200).wantBody("")
	}},
	{Name: "session/use-unknown", Section: sessions, Level: Seed, check: func(c *trial) {
		c.use("AAAAAAAAAAAAAAAAAAAAAAAAAA").want(404)
	}},
	{Name: "session/sessions-are-apart", Section: sessions, Level: Extended, check: func(c *trial) {
		a, b := c.newSession(), c.newSession()
		c.use(a).want(200)
		if left := c.left(b); a == b || left != c.info.Limits.SessionChunksets {
			c.fatalf("after a use of another session there are %d chunksets left", left)
		}
	}},
	{Name: "session/members", Section: sessions, Level: Extended, check: func(c *trial) {
		r := c.post(sessionsTarget, `{"userIdentity": "someone"}`).want(201)
		s := r.session()
		ttl := time.Duration(c.info.Limits.SessionTTLSeconds) * time.Second
		if s.UserIdentity != "someone" || s.ChunksetsTotal != c.info.Limits.SessionChunksets || s.ChunksetsLeft != s.ChunksetsTotal ||
			(s.Expires.Sub(s.Created)-ttl).Abs() > time.Minute {
			c.fatalf("the session is %+v, want someone's with %d chunksets for %v", s, c.info.Limits.SessionChunksets, ttl)
		}
		c.send(request{method: "GET", target: sessionsTarget + "/" + s.SessionID}).want(200).wantBody(r.body)
	}},
	{Name: "session/id", Section: unitsLimits, Level: Extended, check: func(c *trial) {
		if id := c.newSession(); len(id) != 26 || strings.Trim(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") != "" {
			c.fatalf("the sessionId %q does not match [A-Z2-7]{26}", id)
		}
	}},
	{Name: "session/no-identity", Section: jsonBodies, Level: Extended, check: func(c *trial) {
		if r := c.post(sessionsTarget, `{"userIdentity": null}`).want(201); strings.Contains(r.body, "userIdentity") {
			r.fatalf("userIdentity is present without a value: %s", printable(r.body))
		}
	}},
	{Name: "session/use-takes-one", Section: sessions, Level: Extended, check: func(c *trial) {
		id := c.newSession()
		total := c.left(id)
		for n := int64(1); n <= 3; n++ {
			c.use(id).want(200).wantBody("").wantMatch("Chunksets-Left", "[0-9]+")
			if left := c.left(id); left != total-n {
				c.fatalf("after %d uses of %d there are %d left", n, total, left)
			}
		}
	}},
	{Name: "session/use-reports-the-rest", Section: sessions, Level: Extended, check: func(c *trial) {
		s := c.post(sessionsTarget, "{}").want(201).session()
		c.use(s.SessionID).want(200).wantHeader("Chunksets-Left", itoa(s.ChunksetsTotal-1))
		c.use(s.SessionID).want(200).wantHeader("Chunksets-Left", itoa(s.ChunksetsTotal-2))
	}},
	{Name: "session/uses-at-once", Section: sessions, Level: Extended, check: func(c *trial) {
		id := c.newSession()
		total := c.left(id)
		if statuses := c.atOnce(8, func(c *trial) *response { return c.use(id) }); statuses[200] != 8 || c.left(id) != total-8 {
			c.fatalf("8 concurrent uses get %v, and leave %d of %d", statuses, c.left(id), total)
		}
	}},
	{Name: "session/create-once", Section: sessions, Level: Extended, check: func(c *trial) {
		key := []string{"Idempotency-Key", "create-" + c.prefix}
		first := c.post(sessionsTarget, `{"userIdentity": "a"}`, key...).want(201)
		c.post(sessionsTarget, `{"userIdentity": "a"}`, key...).want(201).wantBody(first.body)
		c.post(sessionsTarget, `{"userIdentity": "b"}`, key...).refused(422, "idempotency_key_reused")
		if other := c.post(sessionsTarget, `{"userIdentity": "a"}`, "Idempotency-Key", "other-"+c.prefix).want(201); other.body == first.body {
			other.fatalf("another key gets the same session")
		}
	}},
	{Name: "session/use-once", Section: sessions, Level: Extended, check: func(c *trial) {
		id := c.newSession()
		left := c.use(id, "Idempotency-Key", "use").want(200).header.Get("Chunksets-Left")
		for range 2 {
			c.use(id, "Idempotency-Key", "use").want(200).wantHeader("Chunksets-Left", left)
		}
		if got := itoa(c.left(id)); got != left {
			c.fatalf("%s chunksets are left after a repeated use, want %s", got, left)
		}
	}},
	{Name: "session/use-once-at-once", Section: sessions, Level: Extended, check: func(c *trial) {
		id := c.newSession()
		total := c.left(id)
		if statuses := c.atOnce(6, func(c *trial) *response { return c.use(id, "Idempotency-Key", "use") }); statuses[200] != 6 || c.left(id) != total-1 {
			c.fatalf("6 concurrent uses with one Idempotency-Key get %v, and leave %d of %d", statuses, c.left(id), total)
		}
	}},
	{Name: "session/key-belongs-to-a-session", Section: sessions, Level: Extended, check: func(c *trial) {
		a, b := c.newSession(), c.newSession()
		total := c.left(b)
		c.use(a, "Idempotency-Key", "use").want(200)
		c.use(b, "Idempotency-Key", "use").want(200)
		if left := c.left(b); left != total-1 {
			c.fatalf("the key of another session's use has prevented a use: %d of %d are left", left, total)
		}
	}},
	{Name: "session/use-with-other-body", Section: sessions, Level: Extended, check: func(c *trial) {
		id := c.newSession()
		c.use(id, "Idempotency-Key", "use").want(200)
		c.post(sessionsTarget+"/"+id+"/use", "{}", "Idempotency-Key", "use").refused(422, "idempotency_key_reused")
	}},
	{Name: "session/refusal-is-not-remembered", Section: sessions, Level: Extended, check: func(c *trial) {
		key := []string{"Idempotency-Key", "refused-" + c.prefix}
		c.post(sessionsTarget, `{"userIdentity": 5}`, key...).want(400)
		c.post(sessionsTarget, `{"userIdentity": "a"}`, key...).want(201)
	}},
	{Name: "session/longest-identity", Section: sessions, Level: Extended, check: func(c *trial) {
		c.post(sessionsTarget, `{"userIdentity": `+quoted(strings.Repeat("x", 255))+`}`).want(201)
		c.post(sessionsTarget, `{"userIdentity": `+quoted(strings.Repeat("x", 256))+`}`).want(400)
		c.post(sessionsTarget, `{"userIdentity": ""}`).want(400)
	}},
}, grantedSessions)

// unknownSessionCases check the response to an id that does not exist.
var unknownSessionCases = []Case{
	{Name: "session/unknown", Section: errorResponses, Level: Extended, check: func(c *trial) {
		c.use("AAAAAAAAAAAAAAAAAAAAAAAAAA").refused(404, "session_not_found")
		c.send(request{method: "GET", target: sessionsTarget + "/AAAAAAAAAAAAAAAAAAAAAAAAAA"}).refused(404, "session_not_found")
	}},
	{Name: "session/must-be-paid", Section: sessions, Level: Extended, needs: []need{soldSessions}, check: func(c *trial) {
		c.post(sessionsTarget, "{}").refused(402, "payment_required").wantPrice()
	}},
}

var wrongSessionCases = rows("session/refused", sessions, Extended, [][2]string{
	{"identity-is-a-number", `{"userIdentity": 5}`},
	{"payment-is-a-number", `{"micropaymentUpdate": 5}`},
	{"payment-malformed", `{"micropaymentUpdate": "AAAA"}`},
	{"session-without-payment", `{"sessionId": "x"}`},
	{"session-is-a-number", `{"sessionId": 5}`},
}, func(r [2]string) string { return r[0] }, func(c *trial, r [2]string) {
	c.post(sessionsTarget, r[1]).want(400)
})

var wrongKeyCases = rows("session/idempotency-key-refused", sessions, Extended, [][2]string{
	{"too-long", strings.Repeat("k", 256)}, {"with-a-space", "a b"}, {"empty", ""}, {"not-ascii", "ä"},
}, func(r [2]string) string { return r[0] }, func(c *trial, r [2]string) {
	c.post(sessionsTarget, "{}", "Idempotency-Key", r[1]).refused(400, "bad_header")
})

// malformed are bodies that are not one JSON object.
var malformed = [][2]string{
	{"unfinished", `{`}, {"array", `[]`}, {"text", `"x"`}, {"null", `null`}, {"number", `5`}, {"two-objects", `{} {}`}, {"trailing-text", `{}x`},
	{"duplicate-member", `{"a": 1, "a": 2}`}, {"nested-duplicate", `{"a": {"b": 1, "b": 2}}`}, {"not-utf-8", "{\"a\": \"\xff\"}"},
	{"unpaired-surrogate", `{"a": "\ud800"}`}, {"single-quotes", `{'a': 1}`}, {"leading-zero", `{"a": 01}`}, {"trailing-comma", `{"a": 1,}`},
}

// jsonCases send malformed bodies to each operation that reads JSON.
var jsonCases = append(
	append(rows("json/begin", jsonBodies, Extended, malformed, first, func(c *trial, r [2]string) {
		c.tryBeginWith(r[1]).refused(400, "bad_json")
	}), rows("json/session", jsonBodies, Extended, malformed, first, func(c *trial, r [2]string) {
		c.post(sessionsTarget, r[1]).refused(400, "bad_json")
	})...),
	Case{Name: "json/64-KiB", Section: unitsLimits, Level: Extended, check: func(c *trial) {
		object := func(n int) string { return `{"a": "` + strings.Repeat("x", n-len(`{"a": ""}`)) + `"}` }
		c.tryBeginWith(object(64 << 10)).want(400) // it is read, and has no account
		c.tryBeginWith(object(64<<10+1)).refused(413, "too_large")
	}},
	Case{Name: "json/deeply-nested", Section: jsonBodies, Level: Extended, check: func(c *trial) {
		c.tryBeginWith(`{"a": `+strings.Repeat("[", 30_000)).refused(400, "bad_json")
	}},
	Case{Name: "json/content-type-is-ignored", Section: jsonBodies, Level: Extended, check: func(c *trial) {
		body := `{"rawAccount": ` + quoted(c.account) + `, "rawBlobName": ` + quoted(c.prefix+"a") + `}`
		r := c.send(request{method: "POST", target: "/v1/multipart-uploads", body: body, header: []string{"Content-Type", "text/plain"}}).want(200)
		id, _ := r.members()["uploadId"].(string)
		c.state.uploads = append(c.state.uploads, id)
	}},
	Case{Name: "json/null-is-absent", Section: jsonBodies, Level: Extended, check: func(c *trial) {
		u := c.begin("a", 1000, `"contentType": null`, `"expires": null`, `"ifNoneMatch": null`, `"cacheControl": null`, `"metadata": null`)
		c.wantSuccess(u.part(0, "hello"))
		c.wantSuccess(u.complete(`{"totalBytes": null, "etag": null}`))
		c.get("a").want(200).wantBody("hello").wantNo("Blob-Expires")
	}},
	Case{Name: "json/null-part-size", Section: jsonBodies, Level: Extended, check: func(c *trial) {
		var begun wire.UploadBegun
		c.tryBegin("a", `"rawPartSize": null`).want(200).json(&begun)
		if size := (upload{c, begun.UploadID}).status().PartSize; size != 1<<20 {
			c.fatalf("the part size is %d, want 1 MiB", size)
		}
	}},
	Case{Name: "json/names-are-case-sensitive", Section: jsonBodies, Level: Extended, check: func(c *trial) {
		c.tryBeginWith(`{"RAWACCOUNT": ` + quoted(c.account) + `, "rawBlobName": ` + quoted(c.prefix+"a") + `}`).want(400)
		c.tryBegin("a", `"RawPartSize": 0`).want(200)
	}},
	Case{Name: "json/empty-body", Section: jsonBodies, Level: Extended, check: func(c *trial) {
		object := c.tryBeginWith("{}").want(400)
		c.tryBeginWith("").refused(400, object.problem().Code)
	}},
	Case{Name: "json/complete", Section: jsonBodies, Level: Extended, check: func(c *trial) {
		u := c.begin("a", 1000)
		u.complete("{").refused(400, "bad_json")
		u.complete(`{"totalBytes": "x"}`).want(400)
		u.complete(`{"totalBytes": -1}`).want(400)
		c.wantSuccess(u.complete("{}"))
	}},
)

func first(r [2]string) string { return r[0] }
