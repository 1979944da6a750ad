package conformance

import (
	"strings"
	"time"

	"sluice/commit"
	"sluice/wire"
)

// rootWithin is how long a root may take that nothing is before, with much to spare.
const rootWithin = 2 * time.Minute

// rootOf returns the root of a body.
func rootOf(body string) string {
	var w commit.Writer
	_, _ = w.Write([]byte(body)) // it returns no error
	return w.Commitment().Root.String()
}

// awaitRoot waits until a blob's root is known.
func (c *trial) awaitRoot(name string) string {
	for deadline := time.Now().Add(rootWithin); ; time.Sleep(50 * time.Millisecond) {
		r := c.head(name).want(200)
		if root := r.header.Get(wire.HeaderRoot); root != "" {
			return root
		}
		if time.Now().After(deadline) {
			r.fatalf("there is no %s after %v", wire.HeaderRoot, rootWithin)
		}
	}
}

// wantRoot expects that a blob's root becomes known, and is the body's.
func (c *trial) wantRoot(name, body string) {
	if root := c.awaitRoot(name); root != rootOf(body) {
		c.fatalf("the root of %s is %s, want %s", name, root, rootOf(body))
	}
}

var rootCases = []Case{
	{Name: "roots/known", Section: rootRules, Level: Extended, check: func(c *trial) {
		body := content(100_000)
		c.put("a", body).want(204)
		c.put("empty", "").want(204)
		c.wantRoot("a", body)
		c.wantRoot("empty", "")
		c.get("a", "Range", "bytes=0-1").want(206).wantHeader(wire.HeaderRoot, rootOf(body))
		etag := c.head("a").header.Get("ETag")
		c.get("a", "If-None-Match", etag).want(304).wantHeader(wire.HeaderRoot, rootOf(body))
		c.get("a", "If-Match", `"x"`).refused(412, "precondition_failed").wantNo(wire.HeaderRoot)
		for query, shown := range map[string]bool{"include=roots": true, "include=metadata,roots": true, "include=metadata": false, "": false} {
			for _, b := range c.list("", query).Blobs {
				body := map[bool]string{true: body}[strings.HasSuffix(b.Name, "a")]
				if shown != (b.MerkleRoot == rootOf(body)) || !shown && b.MerkleRoot != "" {
					c.fatalf("a list with %q has the root %q of %s", query, b.MerkleRoot, b.Name)
				}
			}
		}
		c.read("GET", c.listTarget("", "include=root")).refused(400, "bad_parameter")
	}},
	{Name: "roots/follow", Section: rootRules, Level: Extended, check: func(c *trial) {
		body := content(50_000)
		c.put("a", body).want(204)
		c.wantRoot("a", body)
		c.copyTo("a", "b", nil).want(200)
		c.head("b").want(200).wantHeader(wire.HeaderRoot, rootOf(body))
		c.moveTo("b", "c", nil).want(200)
		c.head("c").want(200).wantHeader(wire.HeaderRoot, rootOf(body))
		c.put("a", "another").want(204)
		c.wantRoot("a", "another")
		u := c.begin("parts", 20_000)
		for i := range 3 {
			u.part(i, body[20_000*i:min(20_000*(i+1), len(body))])
		}
		c.wantSuccess(u.complete(""))
		c.wantRoot("parts", body)
	}},
}
