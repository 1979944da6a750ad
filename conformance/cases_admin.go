package conformance

import (
	"fmt"
	"strings"

	"sluice/wire"
)

// administration is a section of docs/protocol.md.
const administration = "Administration"

const adminKeys = "/v1/admin/keys"

// administers skips the case unless the run's key administers its account, on a server that serves
// administrators.
func (c *trial) administers() {
	if r := c.send(request{method: "GET", target: adminKeys + "?limit=1"}); r.status != 200 {
		c.skipf("needs a key with the scope admin, and a server that serves administrators")
	}
}

// operates skips the case unless the run's key administers all accounts. It returns the list of
// tasks.
func (c *trial) operates() *response {
	r := c.send(request{method: "GET", target: "/v1/admin/tasks"})
	if r.status != 200 {
		c.skipf("needs a key with the scope admin for all accounts, and a server that serves administrators")
	}
	return r
}

// newKey describes a key for the run's account, with further members.
func (c *trial) newKey(members string) string {
	return fmt.Sprintf(`{"label": "conformance", "grants": [{"scopes": ["read"], "accounts": [%q]}]%s}`, c.account, members)
}

// createKey creates a key, which the caller revokes.
func (c *trial) createKey() (key wire.IssuedKey) {
	c.administers()
	r := c.send(request{method: "POST", target: adminKeys, body: c.newKey("")}).want(201)
	r.json(&key)
	if r.wantHeader("Etag", key.ETag); key.Secret == "" || key.Remedy != "" || key.State != wire.KeyActive {
		r.fatalf("the created key is %s", printable(r.body))
	}
	return key
}

// change is a PATCH of a key.
func (c *trial) change(id, body string, header ...string) *response {
	return c.send(request{method: "PATCH", target: adminKeys + "/" + id, body: body, header: header})
}

func (c *trial) revoke(id string) *response {
	return c.send(request{method: "POST", target: adminKeys + "/" + id + "/revoke"})
}

// adminCases manage keys. A key that they create stays, revoked.
var adminCases = []Case{
	{Name: "admin/key", Section: administration, Level: Extended, check: func(c *trial) {
		key := c.createKey()
		var shown wire.Key
		c.send(request{method: "GET", target: adminKeys + "/" + key.ID}).want(200).wantHeader("Etag", key.ETag).json(&shown)
		c.change(key.ID, `{"label": "x"}`).refused(428, "precondition_required")
		c.change(key.ID, `{"label": "x"}`, "If-Match", `"other"`).refused(412, "precondition_failed")
		c.change(key.ID, `{"label": "x"}`, "If-Match", "x").refused(400, "bad_header")
		r := c.change(key.ID, `{"label": "x", "newSecret": true}`, "If-Match", key.ETag).want(200)
		var changed wire.IssuedKey
		if r.json(&changed); changed.Secret == "" || changed.Secret == key.Secret || changed.Label != "x" || changed.ETag == key.ETag {
			r.fatalf("the changed key is %s", printable(r.body))
		}
		r.wantHeader("Etag", changed.ETag)
		c.change(key.ID, `{"label": "y"}`, "If-Match", key.ETag).refused(412, "precondition_failed")
		c.change(key.ID, `{"label": "y"}`, "If-Match", `"other", `+changed.ETag).want(200)
		c.change(key.ID, `{"label": "z"}`, "If-Match", "*").want(200)
		for range 2 {
			if c.revoke(key.ID).want(200).json(&shown); shown.State != wire.KeyRevoked {
				c.fatalf("a revoked key is %s", shown.State)
			}
		}
	}},
	{Name: "admin/repeated-creation", Section: administration, Level: Extended, check: func(c *trial) {
		c.administers()
		var first, again wire.IssuedKey
		create := request{method: "POST", target: adminKeys, body: c.newKey(""), header: []string{"Idempotency-Key", fmt.Sprintf("%x", randomBytes(16))}}
		c.send(create).want(201).json(&first)
		c.send(create).want(200).json(&again)
		if again.ID != first.ID || again.Secret != "" || again.Remedy == "" {
			c.fatalf("a repeated creation returned the key %s with the remedy %q, and the first one %s", again.ID, again.Remedy, first.ID)
		}
		create.body = c.newKey(`, "s3": false`)
		c.send(create).refused(422, "idempotency_key_reused")
		c.revoke(first.ID).want(200)
	}},
	{Name: "admin/what-is-not-known", Section: administration, Level: Extended, check: func(c *trial) {
		c.administers()
		c.send(request{method: "POST", target: adminKeys, body: c.newKey(`, "scopes": ["read"]`)}).refused(400, "bad_json")
		c.send(request{method: "GET", target: adminKeys + "?group=x"}).refused(400, "bad_parameter")
		c.send(request{method: "GET", target: adminKeys + "/unknown"}).refused(404, "not_found")
		c.send(request{method: "POST", target: adminKeys, body: c.newKey(`, "limits": {"blobs": 1}`)}).refused(400, "bad_parameter")
	}},
	{Name: "admin/actions", Section: administration, Level: Extended, check: func(c *trial) {
		key := c.createKey()
		c.revoke(key.ID).want(200)
		r := c.send(request{method: "GET", target: "/v1/admin/actions?limit=100"}).want(200)
		var page wire.ActionPage
		r.json(&page)
		var made []string
		for _, a := range page.Actions {
			if a.Subject == key.ID {
				made = append(made, a.Action)
			}
		}
		if got := strings.Join(made, " "); got != "key.revoke key.create" || strings.Contains(r.body, key.Secret) {
			r.fatalf("the recorded actions on a key are %q", got)
		}
	}},
	{Name: "admin/groups", Section: administration, Level: Extended, check: func(c *trial) {
		key := c.createKey()
		defer c.revoke(key.ID)
		var group wire.Group
		c.send(request{method: "GET", target: "/v1/admin/groups/" + key.Group}).want(200).json(&group)
		if group.Effective["storedBytes"] == 0 || len(group.Used) == 0 || group.ETag == "" {
			c.fatalf("the group is %+v", group)
		}
		change := func(header ...string) *response {
			return c.send(request{method: "PATCH", target: "/v1/admin/groups/" + key.Group, body: `{"limits": {}}`, header: header})
		}
		change().refused(428, "precondition_required")
		if c.send(request{method: "GET", target: "/v1/admin/tasks"}).status == 200 { // else it may not change limits
			change("If-Match", `"other"`).refused(412, "precondition_failed")
			change("If-Match", group.ETag).want(200).wantHeader("Etag", group.ETag)
		}
	}},
	{Name: "admin/tasks-and-nodes", Section: administration, Level: Extended, check: func(c *trial) {
		var tasks wire.TaskList
		var nodes wire.NodeList
		c.operates().json(&tasks)
		c.send(request{method: "GET", target: "/v1/admin/nodes"}).want(200).json(&nodes)
		for _, n := range nodes.Nodes {
			if n.Name == "" || n.Version == "" || n.Ready != (n.Reason == "") {
				c.fatalf("a node is %+v", n)
			}
		}
		ask := func(target string) *response {
			return c.send(request{method: "POST", target: "/v1/admin/tasks/" + target})
		}
		for _, t := range tasks.Tasks {
			if !t.Startable {
				ask(t.Task+"/start").refused(409, "conflict")
			}
			if !t.Pausable {
				ask(t.Task+"/pause").refused(409, "conflict")
			}
		}
		for range 2 {
			ask("census/resume").want(200)
			ask("census/start").want(200)
		}
		ask("unknown/start").refused(404, "not_found")
	}},
}

// adminPaths are the paths that need the scope admin.
var adminPaths = []string{"keys", "keys/unknown", "groups", "groups/unknown", "aliases", "places", "places/0x1", "damaged", "uploads", "actions", "tasks", "nodes"}

var adminRefusals = needing(rows("admin/needs-key", administration, Extended, adminPaths, func(path string) string { return strings.ReplaceAll(path, "/", "_") }, func(c *trial, path string) {
	r := c.without().send(request{method: "GET", target: "/v1/admin/" + path})
	if r.status == 404 {
		c.skipf("needs a server that serves administrators")
	}
	r.refused(401, "credential_required")
}), hostedNetwork)
