package conformance

import "strings"

// keyed: the run has a key that a hosted network accepts.
var keyed = need{"an API key", func(s *server) bool { return s.key != "" }}

// aFreshPut returns a PUT of a blob of this case.
func (c *trial) aFreshPut(header ...string) request {
	c.state.blobs = append(c.state.blobs, c.blob("a"))
	return request{method: "PUT", target: c.blob("a"), body: "x", header: header}
}

// hostedCases check the rights of callers on a hosted network.
var hostedCases = needing([]Case{
	{Name: "hosted/write-without-key", Section: accessRules, Level: Client, check: func(c *trial) {
		c.without().send(c.aFreshPut()).want(401).wantMatch("WWW-Authenticate", "Bearer.*")
	}},
	{Name: "hosted/unknown-key", Section: accessRules, Level: Client, check: func(c *trial) {
		c.without().send(c.aFreshPut("Authorization", "Bearer unknown")).want(401)
	}},
	{Name: "hosted/codes-of-keys", Section: accessRules, Level: Extended, check: func(c *trial) {
		c.without().send(c.aFreshPut()).refused(401, "credential_required").wantMatch("WWW-Authenticate", "Bearer.*")
		c.without().send(c.aFreshPut("Authorization", "Bearer unknown")).refused(401, "credential_unknown")
		c.without().send(c.aFreshPut("X-Api-Key", "unknown")).refused(401, "credential_unknown")
	}},
	{Name: "hosted/api-key-header", Section: accessRules, Level: Extended, check: func(c *trial) {
		c.without().send(c.aFreshPut("X-Api-Key", c.key)).want(204)
	}},
	{Name: "hosted/two-keys", Section: accessRules, Level: Extended, check: func(c *trial) {
		c.send(c.aFreshPut("X-Api-Key", c.key)).refused(401, "credential_unknown")
	}},
	{Name: "hosted/read-with-unknown-key", Section: accessRules, Level: Extended, check: func(c *trial) {
		c.put("a", "x").want(204)
		c.with("unknown").send(request{method: "GET", target: c.blob("a")}).refused(401, "credential_unknown")
	}},
	{Name: "hosted/syntax-before-key", Section: accessRules, Level: Extended, check: func(c *trial) {
		c.without().putTo("/v1/blobs/UPPER/a", "x").refused(400, "bad_account")
		c.without().send(request{method: "PATCH", target: c.blob("a")}).refused(405, "method_not_allowed")
	}},
	{Name: "hosted/key-before-state", Section: accessRules, Level: Extended, check: func(c *trial) {
		c.without().send(c.aFreshPut("If-Match", `"x"`)).refused(401, "credential_required")
		c.without().send(request{method: "DELETE", target: c.blob("absent")}).refused(401, "credential_required")
	}},
	{Name: "hosted/another-account", Section: accessRules, Level: Extended, check: func(c *trial) {
		put := c.in(randomAddress()).aFreshPut()
		r := c.send(put)
		if r.status == 204 {
			c.skipf("needs a key for one account")
		}
		r.refused(403, "account_forbidden")
	}},
	{Name: "hosted/public-session-operations", Section: accessRules, Level: Extended, check: func(c *trial) {
		c.without().send(request{method: "GET", target: sessionsTarget + "/AAAAAAAAAAAAAAAAAAAAAAAAAA"}).refused(404, "session_not_found")
		c.without().use("AAAAAAAAAAAAAAAAAAAAAAAAAA").refused(404, "session_not_found")
	}},
	{Name: "hosted/probes-ignore-keys", Section: accessRules, Level: Extended, check: func(c *trial) {
		c.with("unknown").send(request{method: "GET", target: "/livez"}).want(200)
		c.with("unknown").send(request{method: "OPTIONS", target: c.blob("a")}).want(204)
	}},
	{Name: "hosted/info-checks-keys", Section: accessRules, Level: Extended, check: func(c *trial) {
		c.with("unknown").send(request{method: "GET", target: "/v1/info"}).refused(401, "credential_unknown")
	}},
	{Name: "hosted/any-page-may-read", Section: accessRules, Level: Extended, check: func(c *trial) {
		for _, r := range []*response{
			c.send(request{method: "GET", target: "/v1/info", header: []string{"Origin", "https://example.org"}}).want(200),
			c.send(request{method: "GET", target: "/nothing", header: []string{"Origin", "https://example.org"}}).want(404),
		} {
			r.wantHeader("Access-Control-Allow-Origin", "*").wantNo("Access-Control-Allow-Credentials").wantNo("Set-Cookie")
		}
	}},
	{Name: "hosted/faults-are-ignored", Section: faultsSection, Level: Extended, check: func(c *trial) {
		c.send(c.aFreshPut("Sluice-Fault", "status 500")).want(204)
	}},
	{Name: "hosted/no-timing", Section: localSafety, Level: Extended, check: func(c *trial) {
		c.send(request{method: "GET", target: "/v1/info"}).want(200).wantNo("Server-Timing", "Timing-Allow-Origin")
	}},
	{Name: "hosted/channel-needs-a-payer", Section: channels, Level: Extended, check: func(c *trial) {
		c.openChannel(1) // skips the case if the key may not open one
		c.post(channelsTarget, `{"deposit": "1"}`).refused(400, "bad_parameter")
	}},
}, hostedNetwork, keyed)

// hostedOnly are requests that need a key on a hosted network.
var needKeyCases = needing(rows("hosted/needs-key", accessRules, Extended, []request{
	{method: "DELETE", target: "/v1/blobs/0x1/a"},
	{method: "POST", target: "/v1/blobs/0x1/a", body: `{"moveTo": {"blobName": "b"}}`},
	{method: "POST", target: "/v1/multipart-uploads", body: `{"rawAccount": "0x1", "rawBlobName": "a"}`},
	{method: "GET", target: "/v1/multipart-uploads?account=0x1"},
	{method: "GET", target: "/v1/accounts"},
	{method: "GET", target: "/v1/changes"},
	{method: "GET", target: "/v1/figures"},
	{method: "GET", target: "/v1/channels"},
	{method: "GET", target: "/v1/channels/x/ledger"},
	{method: "POST", target: channelsTarget, body: `{"userIdentity": "0x1"}`},
}, func(r request) string {
	path, _, _ := strings.Cut(r.target, "?")
	return strings.ToLower(r.method) + strings.ReplaceAll(path, "/", "_")
}, func(c *trial, r request) {
	c.without().send(r).refused(401, "credential_required")
}), hostedNetwork)

var needAdminCases = needing(rows("hosted/needs-admin", accessRules, Extended, []string{
	"/v1/accounts", "/v1/changes", "/v1/figures", "/v1/channels",
}, func(path string) string { return strings.TrimPrefix(path, "/v1/") }, func(c *trial, path string) {
	r := c.send(request{method: "GET", target: path})
	if r.status == 200 {
		c.skipf("needs a key without admin")
	}
	r.refused(403, "scope_missing")
}), hostedNetwork, keyed)

var notHostedCases = needing(rows("hosted/no-local-paths", accessRules, Extended, []string{
	"/v1/local/sessions", "/v1/local/faults", "/v1/local/faucet",
}, func(path string) string { return strings.ReplaceAll(path[1:], "/", "_") }, func(c *trial, path string) {
	c.send(request{method: "GET", target: path}).refused(404, "route_not_found")
}), hostedNetwork)
