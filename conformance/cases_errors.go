package conformance

import (
	"slices"
	"strings"

	"sluice/wire"
)

// route is a path, and its methods beside HEAD and OPTIONS.
type route struct {
	name, path string
	methods    []string
}

// routes are all paths with an operation of a hosted network.
var routes = []route{
	{"sessions", "/v1/sessions", []string{"POST"}},
	{"session", "/v1/sessions/someSession", []string{"GET"}},
	{"use", "/v1/sessions/someSession/use", []string{"POST"}},
	{"channels", "/v1/sessions/micropaymentchannels", []string{"POST"}},
	{"channel", "/v1/sessions/micropaymentchannels/someChannel", []string{"GET"}},
	{"deposit", "/v1/sessions/micropaymentchannels/someChannel/deposit", []string{"POST"}},
	{"close", "/v1/sessions/micropaymentchannels/someChannel/close", []string{"POST"}},
	{"renew", "/v1/sessions/micropaymentchannels/someChannel/renew", []string{"POST"}},
	{"reconcile", "/v1/sessions/micropaymentchannels/someChannel/reconcile", []string{"POST"}},
	{"channel-list", "/v1/channels", []string{"GET"}},
	{"ledger", "/v1/channels/someChannel/ledger", []string{"GET"}},
	{"accounts", "/v1/accounts", []string{"GET"}},
	{"changes", "/v1/changes", []string{"GET"}},
	{"list", "/v1/blobs/0x1", []string{"GET"}},
	{"blob", "/v1/blobs/0x1/some/name", []string{"DELETE", "GET", "POST", "PUT"}},
	{"uploads", "/v1/multipart-uploads", []string{"GET", "POST"}},
	{"upload", "/v1/multipart-uploads/someUpload", []string{"DELETE", "GET"}},
	{"part", "/v1/multipart-uploads/someUpload/parts/0", []string{"PUT"}},
	{"complete", "/v1/multipart-uploads/someUpload/complete", []string{"POST"}},
	{"figures", "/v1/figures", []string{"GET"}},
	{"info", "/v1/info", []string{"GET"}},
	{"openapi", "/openapi.yaml", []string{"GET"}},
	{"livez", "/livez", []string{"GET"}},
	{"readyz", "/readyz", []string{"GET"}},
}

// allowed returns the methods that Allow must have, sorted.
func (r route) allowed() []string {
	all := append(slices.Clone(r.methods), "OPTIONS")
	if slices.Contains(all, "GET") {
		all = append(all, "HEAD")
	}
	slices.Sort(all)
	return all
}

// wantAllow expects the route's methods in Allow.
func (r *response) wantAllow(of route) *response {
	methods := strings.Split(strings.ReplaceAll(r.header.Get("Allow"), " ", ""), ",")
	slices.Sort(methods)
	if !slices.Equal(methods, of.allowed()) {
		r.fatalf("Allow has %v, want %v", methods, of.allowed())
	}
	return r
}

var methodCases = rows("method", operations, Extended, routes, func(r route) string { return r.name }, func(c *trial, r route) {
	for _, method := range []string{"GET", "HEAD", "PUT", "POST", "DELETE", "PATCH"} {
		if slices.Contains(r.allowed(), method) {
			continue
		}
		answer := c.send(request{method: method, target: r.path}).want(405).wantAllow(r)
		if method != "HEAD" {
			answer.refused(405, "method_not_allowed")
		}
	}
	c.without().send(request{method: "OPTIONS", target: r.path}).want(204).wantBody("").wantAllow(r)
})

var unknownRouteCases = rows("route/unknown", baseURLs, Extended, []string{
	"/v1", "/v1/", "/v2/blobs/0x1/a", "/V1/info", "/v1/nothing", "/v1/blobs", "/v1/info/", "/v1/info/x", "/livez/",
	"/v1/multipart-uploads/x/parts", "/v1/multipart-uploads/x/parts/0/x", "/v1/multipart-uploads/x/other",
	"/v1/sessions/x/used", "/v1/sessions/x/use/y", "/favicon.ico",
}, func(path string) string { return strings.ReplaceAll(strings.TrimPrefix(path, "/"), "/", "_") }, func(c *trial, path string) {
	c.send(request{method: "GET", target: path}).refused(404, "route_not_found")
	c.post(path, "{}").refused(404, "route_not_found")
})

var readRoutes = slices.DeleteFunc(slices.Clone(routes), func(r route) bool { return !slices.Contains(r.methods, "GET") })

// headOfRouteCases compare HEAD with GET on every route that has GET.
var headOfRouteCases = rows("head/route", operations, Extended, readRoutes, func(r route) string { return r.name }, func(c *trial, r route) {
	get, head := c.send(request{method: "GET", target: r.path}), c.send(request{method: "HEAD", target: r.path})
	head.want(get.status).wantHeader("Content-Type", get.header.Get("Content-Type")).wantMatch("X-Request-Id", ".+")
	if head.body != "" {
		head.fatalf("the response has a body")
	}
	if get.status >= 400 {
		head.wantHeader("Error-Code", get.problem().Code)
	}
})

// nosniffCases check that no response can be taken for something else.
var nosniffCases = rows("error/nosniff", errorResponses, Extended, []request{
	{method: "GET", target: "/v1/info"}, {method: "GET", target: "/livez"}, {method: "GET", target: "/openapi.yaml"}, {method: "POST", target: "/v1/sessions/x/use"},
	{method: "GET", target: "/v1/blobs/0x1/%3Cscript%3E"}, {method: "OPTIONS", target: "/v1/info"}, {method: "PATCH", target: "/v1/info"}, {method: "GET", target: "/nothing"},
}, func(r request) string { return strings.ToLower(r.method) + strings.ReplaceAll(r.target, "/", "_") }, func(c *trial, r request) {
	c.send(r).wantHeader("X-Content-Type-Options", "nosniff")
})

// errorCases check the members and headers that all responses have.
var errorCases = []Case{
	{Name: "error/members", Section: errorResponses, Level: Extended, check: func(c *trial) {
		c.get("absent").refused(404, "blob_not_found") // which checks the members
	}},
	{Name: "error/not-cached", Section: errorResponses, Level: Extended, check: func(c *trial) {
		for _, r := range []*response{c.get("absent").want(404), c.put("a/", "x").want(400), c.send(request{method: "GET", target: "/nothing"}).want(404)} {
			r.wantHeader("Cache-Control", "no-store")
		}
	}},
	{Name: "error/reveals-nothing-internal", Section: errorResponses, Level: Extended, check: func(c *trial) {
		for _, r := range []*response{c.get("absent"), c.put("a/", "x"), c.tryBeginWith("{"), c.use("x")} {
			for _, internal := range []string{"goroutine", ".go:", "sql", "SQL", "/tmp/", "panic"} {
				if strings.Contains(r.problem().Detail, internal) {
					r.fatalf("the detail has %q: %s", internal, printable(r.body))
				}
			}
		}
	}},
	{Name: "request/id-is-echoed", Section: errorResponses, Level: Extended, check: func(c *trial) {
		for _, id := range []string{"a", "My.Request_1-2", strings.Repeat("x", 128)} {
			c.send(request{method: "GET", target: "/v1/info", header: []string{"X-Request-Id", id}}).wantHeader("X-Request-Id", id)
		}
	}},
	{Name: "request/bad-id-is-replaced", Section: errorResponses, Level: Extended, check: func(c *trial) {
		for _, id := range []string{"a b", "a/b", "ä", strings.Repeat("x", 129)} {
			c.send(request{method: "GET", target: "/v1/info", header: []string{"X-Request-Id", id}}).wantMatch("X-Request-Id", "[A-Za-z0-9._-]{1,128}")
		}
	}},
	{Name: "request/ids-are-different", Section: errorResponses, Level: Extended, check: func(c *trial) {
		a, b := c.send(request{method: "GET", target: "/livez"}), c.send(request{method: "GET", target: "/livez"})
		if a.wantMatch("X-Request-Id", ".+"); a.header.Get("X-Request-Id") == b.header.Get("X-Request-Id") {
			b.fatalf("two requests have the id %s", a.header.Get("X-Request-Id"))
		}
	}},
	{Name: "request/id-in-the-body", Section: errorResponses, Level: Extended, check: func(c *trial) {
		r := c.send(request{method: "GET", target: "/nothing", header: []string{"X-Request-Id", "mine"}}).want(404)
		if r.problem().RequestID != "mine" {
			r.fatalf("requestId is %q, want mine", r.problem().RequestID)
		}
	}},
}

// serviceCases check a service's description and health.
var serviceCases = []Case{
	{Name: "service/info", Section: operations, Level: Extended, check: func(c *trial) {
		var info wire.Info
		c.without().send(request{method: "GET", target: "/v1/info"}).want(200).json(&info)
		if info.Version == "" || info.Profile != "local" && info.Profile != "hosted" || info.Reads != "public" && info.Reads != "key" && info.Reads != "paid" {
			c.fatalf("version is %q, profile %q and reads %q", info.Version, info.Profile, info.Reads)
		}
		if info.ChunkSize != 1<<20 || info.ChunksetSize != 10<<20 {
			c.fatalf("chunkSize is %d and chunksetSize %d, want 1 MiB and 10 MiB", info.ChunkSize, info.ChunksetSize)
		}
	}},
	{Name: "service/features", Section: operations, Level: Extended, check: func(c *trial) {
		var info wire.Info
		c.without().send(request{method: "GET", target: "/v1/info"}).want(200).json(&info)
		for _, feature := range []string{wire.FeatureCopy, wire.FeatureMove, wire.FeatureVersions, wire.FeatureChanges} {
			if !slices.Contains(info.Features, feature) {
				c.fatalf("features is %q, without %s", info.Features, feature)
			}
		}
	}},
	{Name: "service/limits", Section: unitsLimits, Level: Extended, check: func(c *trial) {
		var info wire.Info
		c.send(request{method: "GET", target: "/v1/info"}).want(200).json(&info)
		if l := info.Limits; l.MaxBlobSize != 5<<40 || l.MaxPartSize != 5<<30 || l.DefaultPartSize != 1<<20 || l.MaxParts != 100_000 || l.MaxNameLength != 1024 ||
			l.MaxMetadataBytes != 2048 || l.MaxJSONBody != 64<<10 || l.MaxHeaderBytes != 32<<10 || l.MaxPageSize != 1000 || l.MaxRanges != 64 {
			c.fatalf("the limits are %+v, which are not the documented ones", l)
		}
	}},
	{Name: "service/payment", Section: operations, Level: Extended, check: func(c *trial) {
		var info wire.Info
		c.send(request{method: "GET", target: "/v1/info"}).want(200).json(&info)
		if p := info.Payment; p.Receiver == "" || p.Asset == "" || p.Module == "" || strings.Trim(p.ChunksetPrice, "0123456789") != "" || p.ChunksetPrice == "" {
			c.fatalf("the terms of payment are %+v", p)
		}
	}},
	{Name: "service/livez", Section: operations, Level: Extended, check: func(c *trial) {
		c.without().send(request{method: "GET", target: "/livez"}).want(200)
	}},
	{Name: "service/readyz", Section: operations, Level: Extended, check: func(c *trial) {
		c.without().send(request{method: "GET", target: "/readyz"}).want(200)
	}},
	{Name: "service/openapi", Section: operations, Level: Extended, check: func(c *trial) {
		r := c.without().send(request{method: "GET", target: "/openapi.yaml"}).want(200)
		for _, part := range []string{"openapi: 3.1", "/v1/blobs/{account}", "/v1/multipart-uploads"} {
			if !strings.Contains(strings.ReplaceAll(r.body, `"`, ""), part) {
				r.fatalf("the document has no %s", part)
			}
		}
	}},
}
