package conformance

import (
	"fmt"
	"maps"
	"net/url"

	"sluice/wire"
)

const accountRules = "/v1/admin/rules/"

// ruled returns the trial in a new account. Its rules are removed at the end.
func (c *trial) ruled() *trial {
	c.operates()
	c = c.in(randomAddress())
	c.state.undo = append(c.state.undo, c.rulesRequest("PUT", `{"rules": []}`, "If-Match", "*"))
	return c
}

func (c *trial) rulesRequest(method, body string, header ...string) request {
	return request{method: method, target: accountRules + c.account, body: body, header: header}
}

// wantPreview expects that rules would remove this, on all pages.
func (c *trial) wantPreview(rules string, want map[string]wire.RuleCounts) {
	got := map[string]wire.RuleCounts{}
	for part := (wire.RulesPreview{Next: "first"}); part.Next != ""; {
		after := part.Next
		if part = (wire.RulesPreview{}); after == "first" {
			after = ""
		}
		body := fmt.Sprintf(`{"rules": [%s], "after": %q}`, rules, after)
		c.send(request{method: "POST", target: accountRules + c.account + "/preview", body: body}).want(200).json(&part)
		for id, n := range part.Taken {
			sum := got[id]
			got[id] = wire.RuleCounts{Blobs: sum.Blobs + n.Blobs, Versions: sum.Versions + n.Versions, Marks: sum.Marks + n.Marks, Uploads: sum.Uploads + n.Uploads, Bytes: sum.Bytes + n.Bytes}
		}
	}
	if !maps.Equal(got, want) {
		c.fatalf("the rules %s would take %+v, want %+v", rules, got, want)
	}
}

// ruleCases set rules that remove nothing, and preview others.
var ruleCases = []Case{
	{Name: "rules/administration", Section: administration, Level: Extended, check: func(c *trial) {
		c = c.ruled()
		const rules = `{"rules": [{"id": "a b", "prefix": "none/", "tags": {"k": "v"}, "atLeast": 1, "below": 9, "expireOn": "2100-01-01T00:00:00Z", "dropDays": 36500, "dropBeyond": 100}, {"id": "u", "disabled": true, "abortDays": 1}]}`
		c.send(c.rulesRequest("PUT", rules)).refused(428, "precondition_required")
		c.send(c.rulesRequest("DELETE", "")).refused(428, "precondition_required")
		c.send(c.rulesRequest("PUT", rules, "If-Match", `"x"`)).refused(412, "precondition_failed")
		var set, shown wire.Rules
		c.send(c.rulesRequest("PUT", rules, "If-Match", "*")).want(200).json(&set)
		c.send(c.rulesRequest("GET", "")).want(200).wantHeader("Etag", set.ETag).json(&shown)
		if r := shown.Rules; len(r) != 2 || r[0].ID != "a b" || r[0].Tags["k"] != "v" || r[0].AtLeast != 1 || r[0].ExpireOn.Year() != 2100 || r[0].DropBeyond != 100 || !r[1].Disabled || shown.Account != c.account || shown.Changed.IsZero() {
			c.fatalf("the account has %+v", shown)
		}
		var page wire.RulesPage
		c.send(request{method: "GET", target: "/v1/admin/rules?limit=1&after=" + url.QueryEscape(c.account[:len(c.account)-1])}).want(200).json(&page)
		if len(page.Accounts) != 1 || page.Accounts[0].Account != c.account || len(page.Accounts[0].Rules) != 2 {
			c.fatalf("the accounts with rules are %+v", page)
		}
		c.send(c.rulesRequest("DELETE", "", "If-Match", set.ETag)).want(204)
		c.send(c.rulesRequest("GET", "")).want(200).json(&shown)
		if len(shown.Rules) != 0 || shown.ETag == set.ETag {
			c.fatalf("after their removal the account has %+v", shown)
		}
		var actions wire.ActionPage
		c.send(request{method: "GET", target: "/v1/admin/actions?limit=100"}).want(200).json(&actions)
		recorded := 0
		for _, a := range actions.Actions {
			if a.Subject == c.account && a.Action == "rules.set" {
				recorded++
			}
		}
		if recorded != 2 {
			c.fatalf("%d of two changes are recorded", recorded)
		}
	}},
	{Name: "rules/preview", Section: administration, Level: Extended, check: func(c *trial) {
		c = c.keeps()
		for _, name := range []string{"a", "a", "a", "b/1", "b/22"} {
			c.put(name, name).want(204)
		}
		c.send(request{method: "DELETE", target: c.blob("b/1")}).want(204)
		past := func(id, prefix, more string) string {
			return fmt.Sprintf(`{"id": %q, "prefix": %q, "expireOn": "2001-01-01T00:00:00Z"%s}`, id, c.prefix+prefix, more)
		}
		c.wantPreview(past("all", "", ""), map[string]wire.RuleCounts{"all": {Blobs: 2, Bytes: 5}})
		c.wantPreview(past("b", "b/", "")+","+past("rest", "", ""), map[string]wire.RuleCounts{"b": {Blobs: 1, Bytes: 4}, "rest": {Blobs: 1, Bytes: 1}})
		c.wantPreview(past("large", "", `, "atLeast": 4`), map[string]wire.RuleCounts{"large": {Blobs: 1, Bytes: 4}})
		c.wantPreview(past("small", "", `, "below": 4`), map[string]wire.RuleCounts{"small": {Blobs: 1, Bytes: 1}})
		c.wantPreview(past("off", "", `, "disabled": true`)+","+past("tagged", "", `, "tags": {"k": "v"}`)+","+past("none", "c", ""), map[string]wire.RuleCounts{})
		c.wantPreview(`{"id": "day", "expireDays": 1, "dropDays": 1}`, map[string]wire.RuleCounts{})
		c.wantPreview(`{"id": "one", "dropBeyond": 1}`, map[string]wire.RuleCounts{"one": {Versions: 1, Bytes: 1}})
		var stored wire.RulesPreview
		c.send(request{method: "POST", target: accountRules + c.account + "/preview", body: `{}`}).want(200).json(&stored)
		if len(stored.Taken) != 0 || stored.Next != "" {
			c.fatalf("without rules a preview has %+v", stored)
		}
	}},
}

var badRuleCases = rows("rules/refused", administration, Extended, []struct{ name, body, code string }{
	{"no-JSON", ``, "bad_json"},
	{"no-rules", `{}`, "bad_json"},
	{"unknown-member", `{"rules": [{"id": "x", "expireDays": 1, "storageClass": "GLACIER"}]}`, "bad_json"},
	{"no-id", `{"rules": [{"expireDays": 1}]}`, "bad_parameter"},
	{"same-id", `{"rules": [{"id": "x", "expireDays": 1}, {"id": "x", "expireDays": 2}]}`, "bad_parameter"},
	{"no-action", `{"rules": [{"id": "x", "prefix": "a"}]}`, "bad_parameter"},
	{"negative-days", `{"rules": [{"id": "x", "expireDays": -1}]}`, "bad_parameter"},
	{"no-midnight", `{"rules": [{"id": "x", "expireOn": "2030-01-01T00:00:01Z"}]}`, "bad_parameter"},
	{"days-and-date", `{"rules": [{"id": "x", "expireOn": "2030-01-01T00:00:00Z", "expireDays": 1}]}`, "bad_parameter"},
	{"marks-with-days", `{"rules": [{"id": "x", "loneMarks": true, "expireDays": 1}]}`, "bad_parameter"},
	{"uploads-with-tags", `{"rules": [{"id": "x", "abortDays": 1, "tags": {"k": "v"}}]}`, "bad_parameter"},
	{"great-number", `{"rules": [{"id": "x", "dropBeyond": 101}]}`, "bad_parameter"},
}, func(r struct{ name, body, code string }) string { return r.name }, func(c *trial, r struct{ name, body, code string }) {
	c = c.ruled()
	c.send(c.rulesRequest("PUT", r.body, "If-Match", "*")).refused(400, r.code)
	if r.name != "no-rules" {
		c.send(request{method: "POST", target: accountRules + c.account + "/preview", body: r.body}).refused(400, r.code)
	}
})
