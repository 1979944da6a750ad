package conformance

import (
	"net/url"
	"strings"
	"time"

	"sluice/wire"
)

const adminPlaces = "/v1/admin/places/"

// takesEffect is how long a change of a place may take, with much to spare, until all nodes obey.
const takesEffect = 3 * time.Second

// set is a request that changes the place with a query such as "prefix=a". The case need not undo
// the change.
func (c *trial) set(query, body string) *response {
	undo := `{"reads": "", "lists": ""}`
	switch {
	case strings.Contains(body, "mayOpen"):
		undo = `{"mayOpen": false}`
	case strings.Contains(body, "block"):
		undo = `{"block": ""}`
	}
	change := request{method: "PATCH", target: adminPlaces + c.account + "?" + query, body: undo}
	c.state.undo = append(c.state.undo, change)
	change.body = body
	return c.send(change)
}

// below is the query for the place of this case's blobs with names that begin with a text.
func (c *trial) below(prefix string) string { return "prefix=" + url.QueryEscape(c.prefix+prefix) }

// exactly is the query for the place of this case's blob with a name.
func (c *trial) exactly(name string) string { return "blob=" + url.QueryEscape(c.prefix+name) }

// placeAt returns a place with the rule in force there.
func (c *trial) placeAt(query string) (place wire.PlaceRule) {
	c.send(request{method: "GET", target: adminPlaces + c.account + "?" + query}).want(200).json(&place)
	return place
}

// soon repeats a GET until it has a status several times in a row, since each node behind the URL
// learns of a change by itself, or for as long as a change may take.
func (c *trial) soon(target string, status int) *response {
	const inRow = 4 // a URL with more nodes behind it should send one client's requests to one of them
	begun, seen := time.Now(), 0
	for {
		r := c.send(request{method: "GET", target: target})
		if r.status == status {
			seen++
		} else {
			seen = 0
			time.Sleep(50 * time.Millisecond)
		}
		if seen == inRow || seen == 0 && time.Since(begun) > takesEffect {
			return r.want(status)
		}
	}
}

// permitted returns the trial in a new account, which may open itself to more callers than the
// instance, with a blob there that the instance does not let everybody read.
func (c *trial) permitted(name string) *trial {
	c.operates()
	c = c.in(randomAddress())
	c.put(name, "content", "Cache-Control", "max-age=77").want(204)
	if c.without().send(request{method: "GET", target: c.blob(name)}).status == 200 {
		c.skipf("needs reads that are not public")
	}
	c.set("", `{"mayOpen": true}`).want(200)
	return c
}

// placeCases set places with random names, in the run's account or in a random one.
var placeCases = []Case{
	{Name: "place/key", Section: placeRules, Level: Extended, needs: []need{hostedNetwork}, check: func(c *trial) {
		if c.administers(); c.placeAt(c.below("")).Guarded {
			c.skipf("needs an account without a public access block, by S3's interface")
		}
		for _, name := range []string{"a/1", "a/2", "ab", "b"} {
			c.put(name, "x").want(204)
		}
		nobody := c.without()
		before := nobody.send(request{method: "GET", target: c.blob("b")}).status
		list := nobody.send(request{method: "GET", target: c.listTarget("b", "")}).status
		var set wire.Place
		if c.set(c.below("a"), `{"reads": "key", "lists": "key"}`).want(200).json(&set); set.Account != c.account || set.Prefix != c.prefix+"a" || set.Reads != "key" || set.Lists != "key" {
			c.fatalf("the place is %+v", set)
		}
		c.set(c.below("a/"), `{"reads": "instance"}`).want(200)
		c.set(c.exactly("a/1"), `{"reads": "key"}`).want(200)
		for _, name := range []string{"ab", "a/1"} {
			nobody.soon(c.blob(name), 401).refused(401, "credential_required")
			c.soon(c.blob(name), 200).wantBody("x").wantHeader("Cache-Control", "private, no-cache").wantNo("Chunksets-Charged")
		}
		nobody.soon(c.blob("a/2"), before)
		nobody.soon(c.blob("b"), before)
		nobody.soon(c.listTarget("a/", ""), 401).refused(401, "credential_required")
		nobody.soon(c.listTarget("b", ""), list)
		c.send(request{method: "GET", target: c.listTarget("a", "")}).want(200)
		if place := c.placeAt(c.below("a/3")); place.Reads != "" || place.Lists != "" || place.InForce.Lists != "key" {
			c.fatalf("below the places is %+v", place)
		}
		c.set(c.below("a"), `{"reads": "", "lists": ""}`).want(200)
		nobody.soon(c.blob("ab"), before)
		nobody.soon(c.listTarget("a", ""), list)
	}},
	{Name: "place/opening-needs-permission", Section: placeRules, Level: Extended, check: func(c *trial) {
		if c.administers(); c.info.Reads == "public" || c.placeAt("").MayOpen {
			c.skipf("needs reads that are not public, and an account that may not open itself")
		}
		c.set(c.below("a"), `{"reads": "public"}`).refused(403, "opening_forbidden")
		c.set(c.exactly("a"), `{"reads": "public"}`).refused(403, "opening_forbidden")
		c.set(c.below("a"), `{"lists": "public"}`).refused(403, "opening_forbidden")
		if place := c.placeAt(c.below("a")); place.Reads != "" || place.Lists != "" || place.InForce.Lists != "key" {
			c.fatalf("after refused requests the place is %+v", place)
		}
	}},
	{Name: "place/permission-needs-the-operator", Section: placeRules, Level: Extended, check: func(c *trial) {
		c.administers()
		if c.send(request{method: "GET", target: "/v1/admin/tasks"}).status == 200 {
			c.skipf("needs a key with the scope admin for some accounts only")
		}
		for _, body := range []string{`{"mayOpen": true}`, `{"mayOpen": false}`, `{"block": "reason"}`, `{"block": ""}`} {
			c.send(request{method: "PATCH", target: adminPlaces + c.account, body: body}).refused(403, "account_forbidden")
		}
		c.send(request{method: "PATCH", target: adminPlaces + randomAddress(), body: `{"reads": "key"}`}).refused(403, "beyond_key")
	}},
	{Name: "place/public", Section: placeRules, Level: Extended, needs: []need{hostedNetwork}, check: func(c *trial) {
		c = c.permitted("a")
		nobody, list := c.without(), c.listTarget("", "")
		before := nobody.send(request{method: "GET", target: c.blob("a")}).status
		c.set(c.below(""), `{"reads": "public"}`).want(200)
		nobody.soon(c.blob("a"), 200).wantBody("content").wantHeader("Cache-Control", "max-age=77").wantNo("Chunksets-Charged")
		nobody.send(request{method: "GET", target: list}).refused(401, "credential_required")
		c.set(c.below(""), `{"lists": "public"}`).want(200)
		if nobody.soon(list, 200); !strings.Contains(nobody.soon(list, 200).body, c.prefix+"a") {
			c.fatalf("the list has no blob")
		}
		nobody.send(request{method: "GET", target: "/v1/blobs/" + c.account}).refused(401, "credential_required")
		c.set("", `{"mayOpen": false}`).want(200)
		nobody.soon(c.blob("a"), before)
		nobody.soon(list, 401)
	}},
	{Name: "place/free", Section: placeRules, Level: Extended, needs: []need{paidReads}, check: func(c *trial) {
		c = c.permitted("a")
		c.set(c.exactly("a"), `{"reads": "free"}`).want(200)
		c.without().soon(c.blob("a"), 200).wantBody("content").wantHeader("Cache-Control", "private, no-cache").wantNo("Chunksets-Charged")
		c.without().send(request{method: "GET", target: c.blob("a"), header: []string{"Session-Id", "unknown"}}).want(200).wantBody("content")
	}},
	{Name: "place/blocked", Section: placeRules, Level: Extended, check: func(c *trial) {
		c.operates()
		c.put("a/1", "content").want(204)
		c.put("b", "content").want(204)
		before := c.send(request{method: "GET", target: c.blob("a/1")}).status
		c.set(c.below("a"), `{"block": "order 7"}`).want(200)
		r := c.soon(c.blob("a/1"), 451).refused(451, "blocked").wantMatch("Link", `<[^<>]+>; ?rel="?blocked-by"?`)
		if !strings.Contains(r.problem().Detail, "order 7") {
			r.fatalf("the reason is not in %s", printable(r.body))
		}
		c.send(request{method: "GET", target: c.blob("a/1"), header: []string{"Range", "bytes=0-1"}}).refused(451, "blocked")
		c.send(request{method: "HEAD", target: c.blob("a/1")}).want(451)
		c.copyTo("a/1", "c", nil).refused(451, "blocked")
		c.moveTo("a/1", "c", nil).refused(451, "blocked")
		if got := strings.Join(names(c.list("", "")), " "); got != "a/1 b" {
			c.fatalf("the list has %q", got)
		}
		if place := c.placeAt(c.below("a")); place.Blocked == nil || place.Blocked.Reason != "order 7" || place.Blocked.Since.IsZero() || place.InForce.Blocked == nil {
			c.fatalf("the place is %+v", place)
		}
		c.set(c.exactly("a/1"), `{"reads": "instance"}`).want(200)
		c.put("a/1", "replaced").want(204)
		c.soon(c.blob("a/1"), 451)
		c.soon(c.blob("b"), before)
		c.set(c.below("a"), `{"block": ""}`).want(200)
		c.soon(c.blob("a/1"), before)
	}},
	{Name: "place/list", Section: placeRules, Level: Extended, check: func(c *trial) {
		c.administers()
		for _, query := range []string{c.below("b"), c.exactly("a"), c.below("a")} {
			c.set(query, `{"reads": "key"}`).want(200)
		}
		var found []string
		for after := ""; ; {
			var page wire.PlacePage
			c.send(request{method: "GET", target: adminPlaces[:len(adminPlaces)-1] + "?limit=2&account=" + c.account + "&after=" + url.QueryEscape(after)}).want(200).json(&page)
			for _, p := range page.Places {
				if name, ours := strings.CutPrefix(p.Prefix+p.Blob, c.prefix); ours {
					found = append(found, name+map[bool]string{true: " exactly"}[p.Blob != ""])
				}
			}
			if after = page.Next; after == "" {
				break
			}
		}
		if got := strings.Join(found, ", "); got != "a, a exactly, b" {
			c.fatalf("the places are %s", got)
		}
		for _, after := range []string{"x", "!", "YQ"} {
			c.send(request{method: "GET", target: adminPlaces[:len(adminPlaces)-1] + "?after=" + after}).refused(400, "bad_parameter")
		}
	}},
	{Name: "place/actions", Section: placeRules, Level: Extended, check: func(c *trial) {
		c.administers()
		c.set(c.below("a"), `{"reads": "key"}`).want(200)
		var page wire.ActionPage
		c.send(request{method: "GET", target: "/v1/admin/actions?limit=100"}).want(200).json(&page)
		for _, a := range page.Actions {
			if a.Subject == c.account+"/"+c.prefix+"a" && a.Action == "place.set" {
				return
			}
		}
		c.fatalf("the change is not recorded")
	}},
}

// badPlaceCases are changes of places that a server must refuse.
var badPlaceCases = rows("place/refused", placeRules, Extended, []struct{ name, query, body, code string }{
	{"no-JSON", "prefix=a", ``, "bad_json"},
	{"unknown-member", "prefix=a", `{"read": "key"}`, "bad_json"},
	{"unknown-parameter", "name=a", `{"reads": "key"}`, "bad_parameter"},
	{"prefix-and-blob", "prefix=a&blob=b", `{"reads": "key"}`, "bad_parameter"},
	{"paid-reads", "prefix=a", `{"reads": "paid"}`, "bad_parameter"},
	{"upper-case", "prefix=a", `{"reads": "PUBLIC"}`, "bad_parameter"},
	{"free-lists", "prefix=a", `{"lists": "free"}`, "bad_parameter"},
	{"lists-of-a-blob", "blob=a", `{"lists": "key"}`, "bad_parameter"},
	{"permission-of-a-prefix", "prefix=a", `{"mayOpen": true}`, "bad_parameter"},
	{"permission-of-a-blob", "blob=a", `{"mayOpen": true}`, "bad_parameter"},
	{"long-name", "prefix=" + strings.Repeat("x", 1025), `{"reads": "key"}`, "bad_parameter"},
	{"control-character", "prefix=a", `{"block": "a\u0007"}`, "bad_parameter"},
	{"long-reason", "prefix=a", `{"block": "` + strings.Repeat("x", 501) + `"}`, "bad_parameter"},
}, func(r struct{ name, query, body, code string }) string { return r.name }, func(c *trial, r struct{ name, query, body, code string }) {
	c.administers()
	c.send(request{method: "PATCH", target: adminPlaces + c.account + "?" + r.query, body: r.body}).refused(400, r.code)
})
