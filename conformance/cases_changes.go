package conformance

import (
	"bufio"
	"encoding/json"
	"net/url"
	"strings"

	"sluice/wire"
)

// changesTarget returns the target for changes of this case's blobs.
func (c *trial) changesTarget(query string) string {
	return "/v1/changes?account=" + c.account + "&prefix=" + url.QueryEscape(c.prefix) + "&" + query
}

// changes returns a page of this case's changes.
func (c *trial) changes(query string) (page wire.ChangePage) {
	c.send(request{method: "GET", target: c.changesTarget(query)}).want(200).json(&page)
	return page
}

// wantChanges expects these changes, as KIND:NAME, on all pages after a position, and returns them
// and the position behind them.
func (c *trial) wantChanges(after, query string, want ...string) (list []wire.Change, next string) {
	var got []string
	for next = after; len(got) <= len(want); {
		page := c.changes("after=" + next + query)
		for _, one := range page.Changes {
			got = append(got, one.Kind+":"+strings.TrimPrefix(one.Name, c.prefix))
		}
		list = append(list, page.Changes...)
		if page.Next == next {
			break
		}
		next = page.Next
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		c.fatalf("the changes are %q, want %q", got, want)
	}
	return list, next
}

var changeCases = []Case{
	{Name: "changes/kinds", Section: changesRules, Level: Extended, check: func(c *trial) {
		start := c.changes("").Next
		etag := c.put("a", content(3000)).want(204).header.Get("ETag")
		c.put("a", "two").want(204)
		c.copyTo("a", "b", nil).want(200)
		c.moveTo("b", "c", nil).want(200)
		c.delete("a").want(204)
		list, next := c.wantChanges(start, "", "stored:a", "replaced:a", "copied:b", "moved-from:b", "moved-to:c", "deleted:a")
		if first := list[0]; first.ETag != etag || first.Size != 3000 || first.Account != c.account || first.Position == "" || first.Time.IsZero() {
			c.fatalf("the first change is %+v, want the tag %s", first, etag)
		}
		c.wantChanges(next, "")
		c.wantChanges(list[2].Position, "", "moved-from:b", "moved-to:c", "deleted:a")
	}},
	{Name: "changes/selection", Section: changesRules, Level: Extended, check: func(c *trial) {
		start := c.changes("").Next
		c.put("a", "one").want(204)
		c.put("b", "two").want(204)
		c.delete("a").want(204)
		c.in("conformance-other").put("a", "x").want(204)
		c.wantChanges(start, "&kinds=deleted", "deleted:a")
		c.wantChanges(start, "&kinds=stored,deleted&limit=1", "stored:a", "stored:b", "deleted:a")
	}},
	{Name: "changes/wait", Section: changesRules, Level: Extended, check: func(c *trial) {
		start := c.changes("").Next
		stored := make(chan bool)
		go func() { stored <- try(func() { c.put("a", "x").want(204) }) }()
		page := c.changes("wait=60&after=" + start)
		if !<-stored {
			c.fatalf("the blob could not be stored")
		}
		if len(page.Changes) != 1 {
			c.fatalf("the page is %+v, want one change", page)
		}
	}},
	{Name: "changes/wait-for-nothing", Section: changesRules, Level: Extended, check: func(c *trial) {
		if page := c.changes("wait=1"); len(page.Changes) != 0 || page.Next == "" {
			c.fatalf("the page is %+v, want no change and a position", page)
		}
	}},
	{Name: "changes/gone", Section: changesRules, Level: Extended, check: func(c *trial) {
		generation, _, _ := strings.Cut(c.changes("").Next, "-")
		r := c.send(request{method: "GET", target: c.changesTarget("after=" + generation + "-1y2p0ij32e8e7")}).refused(410, "changes_gone")
		var p wire.Problem
		c.ok(r.parsed(&p))
		c.wantChanges(p.Restart, "")
	}},
	{Name: "changes/stream", Section: changesRules, Level: Extended, check: func(c *trial) {
		start := c.changes("").Next
		c.put("a", "x").want(204)
		req, err := c.newRequest(request{method: "GET", target: c.changesTarget("after=1-0"), header: []string{"Accept", "text/event-stream", "Last-Event-ID", start}})
		c.ok(err)
		c.state.requests++
		answer, err := c.client.Do(req)
		c.ok(err)
		defer answer.Body.Close() //nolint:errcheck // it does not end by itself
		if media := answer.Header.Get("Content-Type"); answer.StatusCode != 200 || media != "text/event-stream" {
			c.fatalf("the response is %d with %q", answer.StatusCode, media)
		}
		var id, event string
		for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
			field, value, _ := strings.Cut(lines.Text(), ": ")
			switch field {
			case "id":
				id = value
			case "event":
				event = value
			case "data":
				var one wire.Change
				c.ok(json.Unmarshal([]byte(value), &one))
				if one.Kind != event || one.Position != id || one.Name != c.prefix+"a" || event != "stored" {
					c.fatalf("the event %s %s has %s", id, event, value)
				}
				return
			}
		}
		c.fatalf("the stream has ended without the change")
	}},
}

var wrongChangesCases = rows("changes/refused", changesRules, Extended, [][2]string{
	{"limit-zero", "limit=0"}, {"kind-unknown", "kinds=stored,made"}, {"kind-empty", "kinds=,"}, {"after-name", "after=a/b"}, {"wait-too-long", "wait=61"},
	{"wait-negative", "wait=-1"}, {"wait-twice", "wait=1&wait=1"}, {"delimiter", "delimiter=/"}, {"unknown", "since=1"},
}, func(r [2]string) string { return r[0] }, func(c *trial, r [2]string) {
	c.send(request{method: "GET", target: c.changesTarget(r[1])}).refused(400, "bad_parameter")
})
