package conformance

import (
	"slices"
	"strings"
	"time"

	"sluice/wire"
)

var foreignHostCases = needing(rows("local/foreign-host", localSafety, Extended, []string{
	"evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "xlocalhost",
}, func(host string) string { return host }, func(c *trial, host string) {
	c.state.blobs = append(c.state.blobs, c.blob("a"))
	c.send(request{method: "PUT", target: c.blob("a"), body: "x", header: []string{"Host", host}}).refused(421, "foreign_host")
	if all := names(c.list("", "")); len(all) != 0 {
		c.fatalf("the refused request has stored %q", all)
	}
}), localInstance)

var foreignOriginCases = needing(rows("local/foreign-origin", localSafety, Extended, []string{
	"https://evil.example", "http://localhost.evil.example", "null", "file://", "nonsense", "http://0.0.0.0:3000",
}, func(origin string) string { return strings.ReplaceAll(origin, "/", "") }, func(c *trial, origin string) {
	c.put("kept", "x").want(204)
	upload := c.begin("upload", 1000)
	c.state.blobs = append(c.state.blobs, c.blob("new"))
	for _, r := range []request{
		{method: "PUT", target: c.blob("new"), body: "y"}, {method: "PUT", target: c.blob("kept"), body: "y"}, {method: "DELETE", target: c.blob("kept")},
		{method: "GET", target: c.blob("kept")}, {method: "POST", target: sessionsTarget}, {method: "PUT", target: upload.target("/parts/0"), body: "y"},
		{method: "POST", target: upload.target("/complete")}, {method: "DELETE", target: upload.target("")}, {method: "OPTIONS", target: c.blob("kept")},
	} {
		r.header = []string{"Origin", origin}
		c.send(r).refused(403, "forbidden_origin").wantNo("Access-Control-Allow-Origin")
	}
	if all := names(c.list("", "")); !slices.Equal(all, []string{"kept"}) || upload.status().State != "open" {
		c.fatalf("refused requests have left %q, and the upload %+v", all, upload.status())
	}
}), localInstance)

var ownOriginCases = needing(rows("local/allowed-origin", localSafety, Extended, []string{
	"http://localhost:3000", "http://localhost", "https://localhost:1", "http://127.0.0.1:8080", "http://[::1]:3000",
}, func(origin string) string { return strings.ReplaceAll(origin, "/", "") }, func(c *trial, origin string) {
	page := []string{"Origin", origin}
	for _, r := range []*response{
		c.send(request{method: "PUT", target: c.blob("a"), body: "x", header: page}).want(204),
		c.send(request{method: "HEAD", target: c.blob("a"), header: page}).want(200),
		c.send(request{method: "GET", target: "/nothing", header: page}).want(404),
		c.send(request{method: "DELETE", target: c.blob("a"), header: page}).want(204),
	} {
		r.wantHeader("Access-Control-Allow-Origin", origin).wantNo("Access-Control-Allow-Credentials").wantToken("Vary", "Origin")
		for _, name := range []string{"Content-Length", "Content-Range", "ETag", "X-Request-Id", "Chunksets-Left", "Chunksets-Charged", "Chunkset-Price"} {
			r.wantToken("Access-Control-Expose-Headers", name)
		}
	}
}), localInstance)

// ignoredKey is a credential, which a local instance ignores.
var ignoredKeyCases = needing(rows("local/key-is-ignored", accessRules, Client, [][2]string{
	{"Authorization", "Bearer some-key"}, {"Authorization", "Basic eDp5"}, {"X-Api-Key", "some-key"},
}, func(h [2]string) string { return strings.ToLower(strings.ReplaceAll(h[0]+"-"+h[1], " ", "-")) }, func(c *trial, h [2]string) {
	local := c.without()
	local.put("a", "hello", h[0], h[1]).want(204)
	local.get("a", h[0], h[1]).want(200).wantBody("hello")
}), localInstance)

// localCases check operations and headers that only a local instance has.
var localCases = needing([]Case{
	{Name: "local/preflight", Section: localSafety, Level: Extended, check: func(c *trial) {
		for _, method := range []string{"GET", "PUT", "DELETE"} {
			r := c.send(request{method: "OPTIONS", target: c.blob("a"), header: []string{"Origin", "http://localhost:3000",
				"Access-Control-Request-Method", method, "Access-Control-Request-Headers", "authorization,range,blob-meta-color"}}).want(204)
			r.wantHeader("Access-Control-Allow-Origin", "http://localhost:3000").wantToken("Access-Control-Allow-Methods", method)
			r.wantHeader("Access-Control-Max-Age", "600")
			for _, name := range []string{"authorization", "range", "blob-meta-color", "if-none-match", "idempotency-key", "session-id",
				"max-chunksets", "content-digest", "blob-expires", "x-shelby-micropayment", "content-type"} {
				r.wantToken("Access-Control-Allow-Headers", name)
			}
		}
	}},
	{Name: "local/metadata-is-exposed", Section: localSafety, Level: Extended, check: func(c *trial) {
		c.put("a", "x", "Blob-Meta-Color", "red").want(204)
		c.get("a", "Origin", "http://localhost:3000").want(200).wantToken("Access-Control-Expose-Headers", "Blob-Meta-Color")
	}},
	{Name: "local/vary-without-origin", Section: localSafety, Level: Extended, check: func(c *trial) {
		c.send(request{method: "GET", target: "/v1/info"}).want(200).wantToken("Vary", "Origin")
	}},
	{Name: "local/not-embedded", Section: localSafety, Level: Extended, check: func(c *trial) {
		c.send(request{method: "GET", target: "/v1/info"}).want(200).wantHeader("Cross-Origin-Resource-Policy", "same-site")
	}},
	{Name: "local/timing", Section: localSafety, Level: Extended, check: func(c *trial) {
		r := c.put("a", "x", "Origin", "http://localhost:3000").want(204)
		for _, part := range []string{"db", "store", "total"} {
			if !strings.Contains(r.header.Get("Server-Timing"), part+";dur=") {
				r.fatalf("Server-Timing is %q, and has no %s", r.header.Get("Server-Timing"), part)
			}
		}
		r.wantHeader("Timing-Allow-Origin", "http://localhost:3000")
	}},
}, localInstance)

// inspectionCases check the figures and lists of a local instance.
var inspectionCases = needing([]Case{
	{Name: "figures/members", Section: figures, Level: Extended, check: func(c *trial) {
		var f wire.Figures
		r := c.send(request{method: "GET", target: "/v1/figures"}).want(200).json(&f)
		if f.Time.IsZero() || f.Storage.Blobs < 0 || f.History == nil {
			r.fatalf("the figures are %s", printable(r.body))
		}
	}},
	{Name: "figures/sessions", Section: figures, Level: Extended, needs: []need{grantedSessions}, check: func(c *trial) {
		id := c.newSession()
		for after := ""; ; {
			var page wire.SessionPage
			c.send(request{method: "GET", target: "/v1/local/sessions?after=" + after}).want(200).json(&page)
			if slices.ContainsFunc(page.Sessions, func(s wire.Session) bool { return s.SessionID == id }) {
				return
			}
			if after = page.Next; after == "" {
				c.fatalf("the new session %s is not listed", id)
			}
		}
	}},
	{Name: "figures/channels", Section: figures, Level: Extended, needs: []need{booksInLedger}, check: func(c *trial) {
		ch := c.openChannel(1)
		for after := ""; ; {
			var page wire.ChannelPage
			c.send(request{method: "GET", target: "/v1/channels?after=" + after}).want(200).json(&page)
			if slices.ContainsFunc(page.Channels, func(s wire.Channel) bool { return s.ChannelID == ch.id }) {
				return
			}
			if after = page.Next; after == "" {
				c.fatalf("the new channel %s is not listed", ch.id)
			}
		}
	}},
	{Name: "figures/ledger", Section: figures, Level: Extended, needs: []need{booksInLedger}, check: func(c *trial) {
		ch, s := c.sold(2)
		c.buy(ch.next(3*c.price()), s.SessionID).want(200)
		var l wire.Ledger
		r := c.send(request{method: "GET", target: "/v1/channels/" + ch.id + "/ledger"}).want(200).json(&l)
		if len(l.Sales) != 2 || l.Sales[0].Chunksets != 3 || l.Sales[1].Chunksets != 2 || l.Sales[0].SessionID != s.SessionID || l.FoldedAmount != "0" {
			r.fatalf("the sales are %+v with %s folded, want one of 3 chunksets before one of 2", l.Sales, l.FoldedAmount)
		}
	}},
	{Name: "figures/ledger-unknown", Section: figures, Level: Extended, check: func(c *trial) {
		c.send(request{method: "GET", target: "/v1/channels/AAAAAAAAAAAAAAAAAAAAAAAAAA/ledger"}).refused(404, "channel_not_found")
	}},
}, localInstance)

// faultCases check faults on demand of single requests, which concern nobody else.
var faultCases = needing([]Case{
	{Name: "fault/status", Section: faultsSection, Level: Extended, check: func(c *trial) {
		c.put("a", "x", "Sluice-Fault", "status 503").refused(503, "fault_injected").wantHeader("Retry-After", "1")
		c.put("a", "x", "Sluice-Fault", "PUT blob: status 418").refused(418, "fault_injected")
		c.send(request{method: "HEAD", target: c.blob("a")}).want(404)
	}},
	{Name: "fault/share", Section: faultsSection, Level: Extended, check: func(c *trial) {
		c.put("a", "x", "Sluice-Fault", "100%: status 503").refused(503, "fault_injected")
		for _, rule := range []string{"first 0: drop-reply", "first x: drop-reply", "first -1: drop-reply", "x%: drop-reply", "-1%: drop-reply"} {
			c.put("a", "x", "Sluice-Fault", rule).refused(400, "bad_header")
		}
	}},
	{Name: "fault/slow", Section: faultsSection, Level: Extended, needs: []need{publicReads}, check: func(c *trial) {
		body := content(20_000)
		c.put("a", body).want(204)
		begun := time.Now()
		c.get("a", "Sluice-Fault", "slow 40KiB").want(200).wantBody(body)
		if took := time.Since(begun); took < 200*time.Millisecond {
			c.fatalf("20000 bytes at 40 KiB a second took %v", took)
		}
	}},
	{Name: "fault/preflight", Section: faultsSection, Level: Extended, check: func(c *trial) {
		c.send(request{method: "OPTIONS", target: c.blob("a"), header: []string{"Origin", "http://localhost:3000",
			"Access-Control-Request-Method", "PUT", "Access-Control-Request-Headers", "sluice-fault"}}).
			want(204).wantToken("Access-Control-Allow-Headers", "sluice-fault")
	}},
	{Name: "fault/other-operation", Section: faultsSection, Level: Extended, check: func(c *trial) {
		c.put("a", "x", "Sluice-Fault", "GET list: status 503").want(204)
	}},
	{Name: "fault/delay", Section: faultsSection, Level: Extended, check: func(c *trial) {
		begun := time.Now()
		c.put("a", "x", "Sluice-Fault", "delay 200ms").want(204)
		if took := time.Since(begun); took < 200*time.Millisecond {
			c.fatalf("a request with a delay of 200ms took %v", took)
		}
	}},
	{Name: "fault/cut", Section: faultsSection, Level: Extended, needs: []need{publicReads}, check: func(c *trial) {
		body := content(100_000)
		c.put("a", body).want(204)
		r := c.wantCut(request{method: "GET", target: c.blob("a"), header: []string{"Sluice-Fault", "cut 70000"}})
		if r == nil || r.status != 200 || r.body != body[:70_000] {
			c.fatalf("a response that is cut after 70000 bytes is %+v", r)
		}
		c.get("a", "Sluice-Fault", "cut 100000").want(200).wantBody(body)
	}},
	{Name: "fault/drop-reply", Section: faultsSection, Level: Extended, check: func(c *trial) {
		c.state.blobs = append(c.state.blobs, c.blob("a"))
		r := c.wantCut(request{method: "PUT", target: c.blob("a"), body: "hello", header: []string{"Sluice-Fault", "drop-reply"}})
		if r != nil {
			c.fatalf("there is a response: %d", r.status)
		}
		c.send(request{method: "HEAD", target: c.blob("a")}).want(200).wantLength(5)
	}},
	{Name: "fault/full-disk", Section: faultsSection, Level: Extended, check: func(c *trial) {
		c.put("a", "before").want(204)
		c.put("a", "after", "Sluice-Fault", "full-disk").refused(507, "storage_full")
		c.send(request{method: "HEAD", target: c.blob("a"), header: []string{"Sluice-Fault", "full-disk"}}).want(200).wantLength(6)
	}},
	{Name: "fault/expired-session", Section: faultsSection, Level: Extended, needs: []need{grantedSessions}, check: func(c *trial) {
		id := c.newSession()
		before := c.left(id)
		c.use(id, "Sluice-Fault", "expired-session").refused(410, "session_expired")
		if left := c.left(id); left != before {
			c.fatalf("%d chunksets are left, want %d", left, before)
		}
	}},
	{Name: "fault/malformed", Section: faultsSection, Level: Extended, check: func(c *trial) {
		for _, rule := range []string{"explode", "status 99", "status 600", "delay soon", "delay 11m", "200%: drop-reply", "PATCH blob: drop-reply"} {
			c.put("a", "x", "Sluice-Fault", rule).refused(400, "bad_header")
		}
	}},
	{Name: "fault/not-of-probes", Section: faultsSection, Level: Extended, check: func(c *trial) {
		for _, target := range []string{"/livez", "/v1/local/faults", "/openapi.yaml"} {
			c.send(request{method: "GET", target: target, header: []string{"Sluice-Fault", "status 500"}}).want(200)
		}
	}},
}, localInstance)
