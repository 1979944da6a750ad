package conformance

import (
	"net/url"
	"strings"
	"time"

	"sluice/wire"
)

const (
	versionRules = "Versions"
	keptVersions = "/v1/admin/versions/"
)

// keeps returns the trial in a new account that keeps versions.
func (c *trial) keeps() *trial {
	c.operates()
	c = c.in(randomAddress())
	c.state.kept = append(c.state.kept, c.account)
	c.state.undo = append(c.state.undo, c.keepRequest(`{"keep": "off"}`, "If-Match", "*"))
	c.keep(`{"keep": "on"}`).want(200)
	return c
}

// locks returns the trial in a new account with locks, which keeps versions for ever.
func (c *trial) locks() *trial {
	c.operates()
	c = c.in(randomAddress())
	c.state.kept = append(c.state.kept, c.account)
	c.keep(`{"keep": "on", "locks": {}}`).want(200)
	return c
}

// inHours returns a time for a lock.
func inHours(n int) string {
	return time.Now().UTC().Truncate(time.Second).Add(time.Duration(n) * time.Hour).Format(time.RFC3339)
}

func (c *trial) keepRequest(body string, header ...string) request {
	return request{method: "PUT", target: keptVersions + c.account, body: body, header: header}
}

// keep sets which versions the account keeps.
func (c *trial) keep(body string) *response {
	return c.send(c.keepRequest(body, "If-Match", "*"))
}

// version returns a version's target.
func (c *trial) version(id, name string) string {
	return "/v1/versions/" + c.account + "/" + id + "/" + escaped(c.prefix+name)
}

// made returns the id in the response to a write.
func (r *response) made() string {
	return r.wantMatch("Blob-Version", "[0-9a-f]{32}").header.Get("Blob-Version")
}

// stored stores a blob, and returns its version.
func (c *trial) stored(name, body string) string { return c.put(name, body).want(204).made() }

// wantVersion expects a version with these bytes.
func (c *trial) wantVersion(id, name, body string) *response {
	return c.read("GET", c.version(id, name)).want(200).wantBody(body).wantHeader("Blob-Version", id)
}

// wantMark expects that a version is a mark.
func (c *trial) wantMark(id, name string) {
	c.read("GET", c.version(id, name)).refused(404, "blob_not_found").wantHeader("Blob-Deleted", "true").wantNo("Blob-Version", "ETag")
}

// versions returns a page of this case's versions. The query is appended.
func (c *trial) versions(query string) (page wire.VersionPage) {
	target := "/v1/versions/" + c.account + "?prefix=" + url.QueryEscape(c.prefix) + query
	c.send(request{method: "GET", target: target}).want(200).json(&page)
	return page
}

// wantVersions expects versions in a list: names with "*" for a current one, and "-" for a mark.
func (c *trial) wantVersions(want string) (ids []string) {
	var found []string
	for _, v := range c.versions("").Versions {
		mark := map[bool]string{true: "*"}[v.Current] + map[bool]string{true: "-"}[v.Deleted]
		found, ids = append(found, strings.TrimPrefix(v.Name, c.prefix)+mark), append(ids, v.Version)
		if v.Current == !v.Since.IsZero() || v.Deleted && (v.Size != 0 || v.ETag != "") {
			c.fatalf("the list has %+v", v)
		}
	}
	if got := strings.Join(found, " "); got != want {
		c.fatalf("the versions are %q, want %q", got, want)
	}
	return ids
}

// removeVersions deletes the case's versions in an account.
func (c *trial) removeVersions(account string) {
	c = c.in(account)
	for _, v := range c.versions("").Versions {
		c.send(request{method: "DELETE", target: c.version(v.Version, strings.TrimPrefix(v.Name, c.prefix)), header: []string{"Bypass-Governance", "true"}}).want(204)
	}
}

// versionCases keep versions in random accounts.
var versionCases = []Case{
	{Name: "version/kept", Section: versionRules, Level: Extended, check: func(c *trial) {
		c = c.keeps()
		first, second := c.stored("a", "first"), c.stored("a", "second")
		c.get("a").want(200).wantBody("second").wantHeader("Blob-Version", second)
		mark := c.delete("a").want(204).made()
		c.get("a").refused(404, "blob_not_found").wantHeader("Blob-Deleted", "true").wantHeader("Blob-Version", mark)
		c.delete("a").want(204).wantNo("Blob-Version")
		c.wantVersion(first, "a", "first").wantMatch("Cache-Control", "private, .*")
		c.wantVersion(second, "a", "second")
		c.wantMark(mark, "a")
		if ids := strings.Join(c.wantVersions("a- a a"), " "); ids != mark+" "+second+" "+first {
			c.fatalf("the versions are %s", ids)
		}
		if len(c.list("", "").Blobs) > 0 {
			c.fatalf("a deleted blob is listed")
		}
		if a, ok := c.listedAccount(); !ok || a.Blobs != 0 || a.Versions != 3 || a.VersionBytes != int64(len("first")+len("second")) {
			c.fatalf("an account with two versions and a mark is listed as %+v (%v)", a, ok)
		}
	}},
	{Name: "version/is-read-as-a-blob", Section: versionRules, Level: Extended, check: func(c *trial) {
		c = c.keeps()
		r := c.put("a", "0123456789", "Content-Type", "text/x-test", "Blob-Meta-A", "b").want(204)
		at, etag := c.version(r.made(), "a"), r.header.Get("ETag")
		c.stored("a", "other")
		c.read("GET", at, "Range", "bytes=2-4").want(206).wantBody("234").wantHeader("Content-Range", "bytes 2-4/10").wantHeader("Blob-Version", r.made())
		c.read("GET", at, "Range", "bytes=10-").refused(416, "range_not_satisfiable")
		c.read("GET", at, "If-None-Match", etag).want(304).wantHeader("Blob-Version", r.made())
		c.read("GET", at, "If-Match", `"x"`).refused(412, "precondition_failed").wantNo("Blob-Version")
		c.read("HEAD", at).want(200).wantLength(10).wantHeader("ETag", etag).wantHeader("Content-Type", "text/x-test").wantHeader("Blob-Meta-A", "b")
	}},
	{Name: "version/of-another-name", Section: versionRules, Level: Extended, check: func(c *trial) {
		c = c.keeps()
		a, b := c.stored("a", "x"), c.stored("b", "x")
		other := a[:31] + map[bool]string{true: "1", false: "0"}[a[31] == '0']
		for _, absent := range []string{c.version(a, "b"), c.version(other, "a"), c.version(strings.Repeat("0", 32), "a"), c.in(randomAddress()).version(a, "a")} {
			c.read("GET", absent).refused(404, "blob_not_found").wantNo("Blob-Deleted")
		}
		c.send(request{method: "DELETE", target: c.version(a, "b")}).want(204)
		c.wantVersion(a, "a", "x")
		c.wantVersion(b, "b", "x")
	}},
	{Name: "version/list", Section: versionRules, Level: Extended, check: func(c *trial) {
		c = c.keeps()
		for _, name := range []string{"a", "a", "a-", "b/1", "b/2", "b/2", "c"} {
			c.stored(name, "x")
		}
		c.delete("a").want(204)
		want := c.wantVersions("a- a a a-* b/1* b/2* b/2 c*")
		var paged []string
		for after := "&limit=1"; ; {
			page := c.versions(after)
			for _, v := range page.Versions {
				paged = append(paged, v.Version)
			}
			if page.Next == "" {
				break
			}
			after = "&limit=1&after=" + url.QueryEscape(page.Next)
			if page.NextVersion != "" {
				after += "&afterVersion=" + page.NextVersion
			}
		}
		if strings.Join(paged, " ") != strings.Join(want, " ") {
			c.fatalf("in pages the versions are %s, want %s", paged, want)
		}
		if page := c.versions("&delimiter=/&" + c.after("a-")); len(page.Versions) != 1 || len(page.Prefixes) != 1 || page.Prefixes[0] != c.prefix+"b/" {
			c.fatalf("grouped after a name the page is %+v", page)
		}
		for _, query := range []string{"?afterVersion=" + want[0], "?after=a&afterVersion=x", "?version=1", "?include=x"} {
			c.send(request{method: "GET", target: "/v1/versions/" + c.account + query}).refused(400, "bad_parameter")
		}
	}},
	{Name: "version/restore", Section: versionRules, Level: Extended, check: func(c *trial) {
		c = c.keeps()
		first := c.put("a", copied, "Content-Type", "text/x-test").want(204).made()
		second := c.stored("a", "second")
		again := c.post(c.version(first, "a"), c.copyBody("a", `"ifMatch": "*"`)).want(200).made()
		c.post(c.version(first, "a"), c.copyBody("a")).want(200).wantHeader("Blob-Version", again)
		c.get("a").want(200).wantBody(copied).wantHeader("Content-Type", "text/x-test").wantHeader("Blob-Version", again)
		if got := c.wantVersions("a* a a"); got[0] != again || got[1] != second || got[2] != first {
			c.fatalf("the versions are %s", got)
		}
		c.post(c.version(second, "a"), c.copyBody("a", `"ifNoneMatch": "*"`)).refused(412, "precondition_failed")
		mark := c.delete("a").want(204).made()
		c.post(c.version(mark, "a"), c.copyBody("a")).refused(404, "blob_not_found")
		c.post(c.version(second, "a"), c.copyBody("a", `"ifNoneMatch": "*"`)).want(200)
		c.get("a").want(200).wantBody("second")
		c.wantVersion(first, "a", copied)
	}},
	{Name: "version/copy", Section: versionRules, Level: Extended, check: func(c *trial) {
		c = c.keeps()
		r := c.put("a", copied).want(204)
		c.stored("a", "second")
		from := c.version(r.made(), "a")
		c.post(from, c.copyBody("b", `"replaceMetadata": true, "contentType": "text/x-test"`), "If-Match", r.header.Get("ETag")).want(200)
		c.get("b").want(200).wantBody(copied).wantHeader("Content-Type", "text/x-test")
		c.get("a").want(200).wantBody("second")
		c.post(from, c.copyBody("b"), "If-Match", `"x"`).refused(412, "precondition_failed")
		c.post(from, strings.Replace(c.copyBody("b"), "copyTo", "moveTo", 1)).refused(400, "bad_parameter")
		c.post(c.version(r.made(), "b"), c.copyBody("c")).refused(404, "blob_not_found")
	}},
	{Name: "version/delete", Section: versionRules, Level: Extended, check: func(c *trial) {
		c = c.keeps()
		remove := func(id string, header ...string) *response {
			return c.send(request{method: "DELETE", target: c.version(id, "a"), header: header})
		}
		r := c.put("a", "first").want(204)
		first, second, third := r.made(), c.stored("a", "second"), c.stored("a", "third")
		remove(second).want(204).wantNo("Blob-Version")
		remove(second).want(204)
		remove(second, "If-Match", "*").refused(412, "precondition_failed")
		c.read("GET", c.version(second, "a")).refused(404, "blob_not_found")
		remove(third, "If-Match", r.header.Get("ETag")).refused(412, "precondition_failed")
		c.get("a").want(200).wantBody("third")
		remove(third).want(204)
		c.get("a").want(200).wantBody("first").wantHeader("Blob-Version", first)
		mark := c.delete("a").want(204).made()
		remove(mark, "If-Match", "*").refused(412, "precondition_failed")
		remove(mark).want(204)
		c.get("a").want(200).wantBody("first").wantHeader("Blob-Version", first)
		remove(first, "If-Match", r.header.Get("ETag")).want(204)
		c.get("a").want(404)
		c.wantVersions("")
	}},
	{Name: "version/move-and-upload", Section: versionRules, Level: Extended, check: func(c *trial) {
		c = c.keeps()
		first := c.stored("a", copied)
		moved := c.moveTo("a", "b", nil).want(200).made()
		c.wantVersion(first, "a", copied)
		c.get("b").want(200).wantHeader("Blob-Version", moved)
		u := c.begin("b", 1000)
		u.part(0, "uploaded").want(200)
		made := u.complete("").want(200).made()
		if u.complete("").want(200).made() != made {
			c.fatalf("a repeated complete has another version")
		}
		c.wantVersion(made, "b", "uploaded")
		c.wantVersions("a- a b* b")
	}},
	{Name: "version/expired", Section: versionRules, Level: Extended, check: func(c *trial) {
		c = c.keeps()
		id := c.putExpired("a", copied).made()
		c.get("a").refused(410, "blob_expired")
		c.wantVersion(id, "a", copied)
		if kept := c.versions("").Versions; len(kept) == 0 || kept[len(kept)-1].Version != id || kept[len(kept)-1].Current {
			c.fatalf("the versions are %+v", kept)
		}
		c.post(c.version(id, "a"), c.copyBody("a")).want(200)
		c.get("a").want(200).wantBody(copied).wantNo("Blob-Expires")
		c.wantVersion(id, "a", copied)
	}},
	{Name: "version/settings", Section: versionRules, Level: Extended, check: func(c *trial) {
		c = c.keeps()
		c.keep(`{"keep": "on", "most": 1}`).want(200)
		c.stored("a", "first")
		second, third := c.stored("a", "second"), c.stored("a", "third")
		if got := c.wantVersions("a* a"); got[0] != third || got[1] != second {
			c.fatalf("of three versions with one kept there are %s", got)
		}
		c.keep(`{"keep": "off"}`).want(200)
		for _, body := range []string{"fourth", "fifth"} {
			c.put("a", body).want(204).wantNo("Blob-Version")
		}
		c.get("a").want(200).wantBody("fifth").wantNo("Blob-Version")
		c.wantVersions("a* a a")
		c.wantVersion(third, "a", "third")
	}},
	{Name: "version/lock", Section: versionRules, Level: Extended, check: func(c *trial) {
		c = c.locks()
		id := c.stored("a", "x")
		at := c.version(id, "a")
		until, sooner := inHours(2), inHours(1)
		lock := func(until string) string {
			return `{"retention": {"mode": "governance", "until": "` + until + `"}}`
		}
		patch := func(body string, header ...string) *response {
			return c.send(request{method: "PATCH", target: at, body: body, header: header})
		}
		remove := func(header ...string) *response { return c.send(request{method: "DELETE", target: at, header: header}) }
		patch(lock(until), "If-Match", `"x"`).refused(412, "precondition_failed")
		patch(lock(until)).want(200)
		c.read("HEAD", at).want(200).wantHeader("Blob-Retain-Mode", "governance").wantHeader("Blob-Retain-Until", until).wantNo("Blob-Hold")
		remove().refused(403, "locked")
		patch(lock(sooner)).refused(403, "locked")
		patch(`{"retention": null}`).refused(403, "locked")
		c.delete("a").want(204)
		if v := c.versions("").Versions; len(v) != 2 || v[1].Retention == nil || v[1].Retention.Mode != "governance" || v[1].Hold {
			c.fatalf("the versions are %+v", v)
		}
		patch(`{"hold": true}`).want(200)
		patch(lock(sooner), "Bypass-Governance", "true").want(200)
		c.read("HEAD", at).want(200).wantHeader("Blob-Retain-Until", sooner).wantHeader("Blob-Hold", "true")
		remove("Bypass-Governance", "true").refused(403, "locked")
		patch(`{"hold": false, "retention": null}`, "Bypass-Governance", "true").want(200)
		c.read("HEAD", at).want(200).wantNo("Blob-Retain-Mode", "Blob-Hold")
		remove().want(204)
	}},
	{Name: "version/lock-of-a-write", Section: versionRules, Level: Extended, check: func(c *trial) {
		c = c.locks()
		until := inHours(2)
		id := c.put("a", "x", "Blob-Retain-Mode", "governance", "Blob-Retain-Until", until).want(204).made()
		copied := c.copyTo("a", "b", []string{`"retention": {"mode": "governance", "until": "` + until + `"}`}).want(200).made()
		for _, at := range []string{c.version(id, "a"), c.version(copied, "b")} {
			c.send(request{method: "DELETE", target: at}).refused(403, "locked")
			c.send(request{method: "DELETE", target: at, header: []string{"Bypass-Governance", "true"}}).want(204)
		}
		c.keep(`{"keep": "off"}`).refused(409, "conflict")
	}},
	{Name: "version/of-an-account-that-keeps-none", Section: versionRules, Level: Extended, check: func(c *trial) {
		c.operates()
		c = c.in(randomAddress())
		c.put("a", "first").want(204).wantNo("Blob-Version")
		c.put("a", "locked", "Blob-Hold", "true").refused(400, "bad_request")
		id := c.wantVersions("a*")[0]
		c.wantVersion(id, "a", "first")
		c.put("a", "second").want(204)
		c.read("GET", c.version(id, "a")).refused(404, "blob_not_found")
		c.delete("a").want(204).wantNo("Blob-Version")
		c.wantVersions("")
	}},
	{Name: "version/needs-a-key", Section: versionRules, Level: Extended, needs: []need{hostedNetwork}, check: func(c *trial) {
		c = c.keeps()
		id := c.stored("a", "x")
		c.set("", `{"mayOpen": true}`).want(200)
		c.set(c.below(""), `{"reads": "public", "lists": "public"}`).want(200)
		nobody := c.without()
		nobody.soon(c.blob("a"), 200)
		for _, r := range []request{
			{method: "GET", target: c.version(id, "a")}, {method: "HEAD", target: c.version(id, "a")}, {method: "DELETE", target: c.version(id, "a")},
			{method: "POST", target: c.version(id, "a"), body: c.copyBody("a")}, {method: "PATCH", target: c.version(id, "a"), body: `{"hold": true}`}, {method: "GET", target: "/v1/versions/" + c.account},
		} {
			nobody.send(r).want(401).wantHeader("Error-Code", "credential_required")
		}
	}},
	{Name: "version/administration", Section: administration, Level: Extended, check: func(c *trial) {
		c = c.keeps()
		change := func(body string, header ...string) *response { return c.send(c.keepRequest(body, header...)) }
		change(`{"keep": "on"}`).refused(428, "precondition_required")
		change(`{"keep": "on"}`, "If-Match", `"x"`).refused(412, "precondition_failed")
		var kept, shown wire.Keeping
		c.keep(`{"keep": "on", "for": "30d", "most": 3}`).want(200).json(&kept)
		c.send(request{method: "GET", target: keptVersions + c.account}).want(200).wantHeader("Etag", kept.ETag).json(&shown)
		if shown.Account != c.account || shown.SetKeeping != (wire.SetKeeping{Keep: "on", For: "720h", Most: 3}) || shown.Changed.IsZero() {
			c.fatalf("the account keeps %+v", shown)
		}
		var page wire.ActionPage
		c.send(request{method: "GET", target: "/v1/admin/actions?limit=100"}).want(200).json(&page)
		for _, a := range page.Actions {
			if a.Subject == c.account && a.Action == "versions.set" {
				return
			}
		}
		c.fatalf("the change is not recorded")
	}},
}

// copyBody is a copy's request body, with further members.
func (c *trial) copyBody(name string, members ...string) string {
	return `{` + strings.Join(append([]string{`"copyTo": {"blobName": ` + quoted(c.prefix+name) + `}`}, members...), ", ") + `}`
}

var badKeepingCases = rows("version/setting-refused", administration, Extended, []struct{ name, body, code string }{
	{"no-JSON", ``, "bad_json"},
	{"unknown-member", `{"keep": "on", "days": 3}`, "bad_json"},
	{"no-keep", `{"for": "720h"}`, "bad_parameter"},
	{"unknown-keep", `{"keep": "yes"}`, "bad_parameter"},
	{"no-duration", `{"keep": "on", "for": "30"}`, "bad_parameter"},
	{"negative-duration", `{"keep": "on", "for": "-1h"}`, "bad_parameter"},
	{"negative-number", `{"keep": "on", "most": -1}`, "bad_parameter"},
	{"great-number", `{"keep": "on", "most": 101}`, "bad_parameter"},
}, func(r struct{ name, body, code string }) string { return r.name }, func(c *trial, r struct{ name, body, code string }) {
	c.operates()
	c.in(randomAddress()).keep(r.body).refused(400, r.code)
})

var badVersionCases = rows("version/malformed", versionRules, Extended,
	[]string{"x", "null", strings.Repeat("0", 31), strings.Repeat("0", 33), strings.Repeat("A", 32)}, func(id string) string { return id },
	func(c *trial, id string) {
		for _, method := range []string{"GET", "DELETE", "POST"} {
			c.send(request{method: method, target: c.version(id, "a"), body: map[string]string{"POST": c.copyBody("a")}[method]}).refused(400, "bad_parameter")
		}
	})
