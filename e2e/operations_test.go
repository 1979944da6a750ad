package e2e

import (
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestOperations calls every operation with valid input, at the root and under a base path.
func TestOperations(t *testing.T) {
	t.Parallel()
	for _, base := range []string{"", "/sluice"} {
		t.Run("base="+base, func(t *testing.T) {
			var o options
			if base != "" {
				o.flags = []string{"--base-path", base}
			}
			s := start(t, o)
			if s.base != base {
				t.Fatalf("the ready line has the base path %q, want %q", s.base, base)
			}
			walkBlobs(t, s)
			walkUploads(t, s)
			walkSessions(t, s)
			walkChannels(t, s)
			walkService(t, s)
		})
	}
}

func walkBlobs(t *testing.T, s *server) {
	body := content(1, 3000)
	target := blobTarget("0xAB", "dir/hello world.txt")
	put := s.must(204, "PUT", target, body, "Content-Type", "text/x-demo; a=b")
	if len(put.body) != 0 {
		t.Errorf("PUT responded with a body: %v", put)
	}
	etag := put.header.Get("ETag")
	if !regexp.MustCompile(`^"[^"]+"$`).MatchString(etag) {
		t.Errorf("PUT: ETag %q is not a strong one", etag)
	}
	modified, err := http.ParseTime(put.header.Get("Last-Modified"))
	if err != nil {
		t.Errorf("PUT: Last-Modified: %v", err)
	}
	for _, method := range []string{"GET", "HEAD"} {
		r := s.must(200, method, target, nil, "Accept-Encoding", "gzip, deflate, br")
		want := map[string]string{
			"Content-Length": "3000", "ETag": etag, "Last-Modified": put.header.Get("Last-Modified"),
			"Accept-Ranges": "bytes", "Content-Type": "text/x-demo; a=b", "Cache-Control": "no-cache",
			"X-Content-Type-Options": "nosniff", "Content-Security-Policy": "sandbox",
			"Content-Encoding": "", "Transfer-Encoding": "",
		}
		for name, value := range want {
			if got := r.header.Get(name); got != value {
				t.Errorf("%s: %s is %q, want %q", method, name, got, value)
			}
		}
		if r.header.Get("X-Request-Id") == "" {
			t.Errorf("%s: no X-Request-Id", method)
		}
		if method == "GET" && digest(r.body) != digest(body) {
			t.Errorf("GET returned other bytes than were PUT")
		}
	}
	// Every way to spell an address denotes the same account.
	for _, spelling := range []string{"0xab", "0x00ab", "0x" + strings.Repeat("0", 62) + "AB", strings.Repeat("0", 60) + "ab"} {
		s.must(200, "GET", blobTarget(spelling, "dir/hello world.txt"), nil)
	}
	s.must(204, "PUT", blobTarget("0xab", "dir/other"), nil)
	s.must(204, "PUT", blobTarget("0xab", "top"), []byte("x"))

	r := s.must(200, "GET", "/v1/blobs/0xab?prefix=dir/h", nil)
	o := r.object(t)
	entries := o["blobs"].([]any)
	if len(entries) != 1 {
		t.Fatalf("listing by prefix: %v", r)
	}
	entry := entries[0].(map[string]any)
	for member, want := range map[string]string{"name": "dir/hello world.txt", "size": "3000", "contentType": "text/x-demo; a=b", "etag": etag} {
		if got := text(t, entry, member); got != want {
			t.Errorf("listing: %s is %q, want %q", member, got, want)
		}
	}
	if when, err := time.Parse(time.RFC3339Nano, text(t, entry, "lastModified")); err != nil || !when.Truncate(time.Second).Equal(modified) {
		t.Errorf("listing: lastModified %v (%v), Last-Modified was %v", when, err, modified)
	}
	for _, absent := range []string{"expires"} {
		if _, there := entry[absent]; there {
			t.Errorf("listing: member %q without a value: %v", absent, entry)
		}
	}
	if _, there := o["next"]; there {
		t.Errorf("listing: next on the last page: %s", r.body)
	}
	if _, there := o["prefixes"].([]any); !there {
		t.Errorf("listing: prefixes is not a list: %s", r.body)
	}
	var page listed
	s.must(200, "GET", "/v1/blobs/0xab?delimiter=/", nil).decode(t, &page)
	if len(page.Blobs) != 1 || page.Blobs[0].Name != "top" || !slices.Equal(page.Prefixes, []string{"dir/"}) {
		t.Errorf("listing by delimiter: %+v", page)
	}
	page = listed{}
	s.must(200, "GET", "/v1/blobs/0xab?limit=2", nil).decode(t, &page)
	if len(page.Blobs) != 2 || page.Next == "" {
		t.Errorf("listing with limit 2: %+v", page)
	}
	if got := s.names("0xab"); !slices.Equal(got, []string{"dir/hello world.txt", "dir/other", "top"}) {
		t.Errorf("listing: %q", got)
	}
	if got := s.names("nobody"); len(got) != 0 {
		t.Errorf("listing in an account without blobs: %q", got)
	}
	s.must(204, "DELETE", target, nil)
	s.must(204, "DELETE", target, nil)
	checkProblem(t, s.do("GET", target, nil), 404, "")
	checkExpires(t, s)
}

func checkExpires(t *testing.T, s *server) {
	expires := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	target := blobTarget("0xab", "expiring")
	s.must(204, "PUT", target, []byte("x"), "Blob-Expires", expires.Format(time.RFC3339))
	for _, method := range []string{"GET", "HEAD"} {
		r := s.must(200, method, target, nil)
		if got, err := time.Parse(time.RFC3339Nano, r.header.Get("Blob-Expires")); err != nil || !got.Equal(expires) {
			t.Errorf("%s: Blob-Expires %q, want %v", method, r.header.Get("Blob-Expires"), expires)
		}
	}
}

func walkUploads(t *testing.T, s *server) {
	data := content(2, 2500)
	id := s.begin("0xab", "by parts", 1000, "contentType", "image/x-demo")
	if r := s.must(200, "PUT", partTarget(id, 0), data[:1000]); string(r.body) != `{"success":true}` {
		var o struct{ Success bool }
		if r.decode(t, &o); !o.Success {
			t.Errorf("part: %v", r)
		}
	}
	s.must(200, "PUT", partTarget(id, 1), data[1000:2000])
	s.must(200, "PUT", partTarget(id, 2), data[2000:])
	status := s.must(200, "GET", "/v1/multipart-uploads/"+id, nil).object(t)
	want := map[string]string{"uploadId": id, "name": "by parts", "partSize": "1000", "state": "open", "bytes": "2500",
		"account": "0x" + strings.Repeat("0", 62) + "ab"}
	for member, value := range want {
		if got := text(t, status, member); got != value {
			t.Errorf("status: %s is %q, want %q", member, got, value)
		}
	}
	if parts, ok := status["parts"].([]any); !ok || len(parts) != 3 {
		t.Errorf("status: parts are %v", status["parts"])
	}
	if _, err := time.Parse(time.RFC3339Nano, text(t, status, "created")); err != nil {
		t.Errorf("status: created: %v", err)
	}
	if got := s.openUploads("0xab"); !slices.Equal(got, []string{id}) {
		t.Errorf("list of uploads: %v, want %v", got, id)
	}
	complete := s.must(200, "POST", "/v1/multipart-uploads/"+id+"/complete", nil, "Content-Type", "application/json")
	var o struct{ Success bool }
	if complete.decode(t, &o); !o.Success {
		t.Errorf("complete: %v", complete)
	}
	r := s.must(200, "GET", blobTarget("0xab", "by parts"), nil)
	if digest(r.body) != digest(data) || r.header.Get("Content-Type") != "image/x-demo" {
		t.Errorf("GET after complete: %v", r)
	}
	for _, name := range []string{"ETag", "Last-Modified"} {
		if got, want := complete.header.Get(name), r.header.Get(name); got != want {
			t.Errorf("complete: %s is %q, GET returns %q", name, got, want)
		}
	}
	status = s.must(200, "GET", "/v1/multipart-uploads/"+id, nil).object(t)
	if text(t, status, "state") != "committed" || text(t, status, "etag") != r.header.Get("ETag") {
		t.Errorf("status after complete: %v", status)
	}
	checkProblem(t, s.do("DELETE", "/v1/multipart-uploads/"+id, nil), 409, "")

	id = s.begin("0xab", "aborted", 1000)
	s.must(204, "DELETE", "/v1/multipart-uploads/"+id, nil)
	s.must(204, "DELETE", "/v1/multipart-uploads/"+id, nil)
	if got := text(t, s.must(200, "GET", "/v1/multipart-uploads/"+id, nil).object(t), "state"); got != "aborted" {
		t.Errorf("state after abort: %q", got)
	}
	if got := s.openUploads("0xab"); len(got) != 0 {
		t.Errorf("list of uploads at the end: %v", got)
	}
}

func walkSessions(t *testing.T, s *server) {
	for _, body := range [][]byte{nil, []byte("{}"), []byte(`{"userIdentity":"0x2","unknown":[1]}`)} {
		session := s.must(201, "POST", "/v1/sessions", body).object(t)
		id := text(t, session, "sessionId")
		if !idForm.MatchString(id) {
			t.Errorf("sessionId %q has not the form %v", id, idForm)
		}
		use := s.must(200, "POST", "/v1/sessions/"+id+"/use", nil)
		if len(use.body) != 0 || use.header.Get("Chunksets-Left") != "999" {
			t.Errorf("use: %v", use)
		}
		state := s.must(200, "GET", "/v1/sessions/"+id, nil).object(t)
		for member, want := range map[string]string{"sessionId": id, "chunksetsLeft": "999", "chunksetsTotal": "1000"} {
			if got := text(t, state, member); got != want {
				t.Errorf("session: %s is %q, want %q", member, got, want)
			}
		}
		created, err1 := time.Parse(time.RFC3339Nano, text(t, state, "created"))
		expires, err2 := time.Parse(time.RFC3339Nano, text(t, state, "expires"))
		if err1 != nil || err2 != nil || expires.Sub(created).Round(time.Minute) != 30*24*time.Hour {
			t.Errorf("session: created %v (%v), expires %v (%v)", created, err1, expires, err2)
		}
	}
}

func walkChannels(t *testing.T, s *server) {
	made := s.must(201, "POST", "/v1/sessions/micropaymentchannels", nil).object(t)
	id := text(t, made, "channelId")
	if !idForm.MatchString(id) {
		t.Errorf("channelId %q has not the form %v", id, idForm)
	}
	state := s.must(200, "GET", "/v1/sessions/micropaymentchannels/"+id, nil).object(t)
	for _, member := range []string{"channelId", "paymentChannelId", "receiver", "asset", "deposit", "accepted", "credit",
		"settled", "unsettled", "sellingLimit", "sequenceNumber", "state", "created", "expires", "sessions"} {
		if got, want := text(t, state, member), text(t, made, member); got != want {
			t.Errorf("channel: %s is %q, was %q", member, got, want)
		}
	}
	if state["state"] != "open" || state["accepted"] != "0" {
		t.Errorf("channel: %v", state)
	}
	p := s.payer(1)
	renewal := asJSON(t, map[string]any{"micropaymentUpdate": p.sign(t, uint64(number(t, text(t, made, "paymentChannelId"))), 1, 0).Base64()})
	if r := s.do("POST", "/v1/sessions/micropaymentchannels/"+id+"/renew", renewal); r.status != 409 {
		t.Errorf("a renewal of nothing: %v", r)
	}
	// There is no chain.
	s.wantCode(400, "bad_parameter", "POST", "/v1/sessions/micropaymentchannels/"+id+"/reconcile", nil)
	if _, there := state["sender"]; there {
		t.Errorf("channel: a sender although none was sent: %v", state)
	}
	request := map[string]any{"userIdentity": "0x5", "deposit": "250", "asset": "0x7", "paymentChannelId": "41",
		"expires": time.Now().Add(time.Hour).UTC().Format(time.RFC3339)}
	made = s.must(201, "POST", "/v1/sessions/micropaymentchannels", asJSON(t, request)).object(t)
	for member, want := range map[string]string{"paymentChannelId": "41", "deposit": "250"} {
		if got := text(t, made, member); got != want {
			t.Errorf("channel: %s is %q, want %q", member, got, want)
		}
	}
	again := s.do("POST", "/v1/sessions/micropaymentchannels", asJSON(t, request))
	checkProblem(t, again, 409, "")
	if strings.Contains(string(again.body), text(t, made, "channelId")) {
		t.Errorf("the refusal reveals the channelId: %s", again.body)
	}
}

func walkService(t *testing.T, s *server) {
	info := s.must(200, "GET", "/v1/info", nil).object(t)
	for member, want := range map[string]string{"version": s.version, "profile": "local", "reads": "public",
		"chunkSize": strconv.Itoa(1 << 20), "chunksetSize": strconv.Itoa(10 << 20)} {
		if got := text(t, info, member); got != want {
			t.Errorf("info: %s is %q, want %q", member, got, want)
		}
	}
	if _, ok := info["limits"].(map[string]any); !ok {
		t.Errorf("info: limits are %v", info["limits"])
	}
	// These routes exist with the base path and without it.
	bare := *s
	bare.base = ""
	for _, at := range []*server{s, &bare} {
		at.must(200, "GET", "/livez", nil)
		at.must(200, "GET", "/readyz", nil)
		r := at.must(200, "GET", "/openapi.yaml", nil)
		if !strings.Contains(string(r.body), "openapi: 3.1") && !strings.Contains(string(r.body), `openapi: "3.1`) {
			t.Errorf("openapi.yaml is not OpenAPI 3.1: %.100q", r.body)
		}
	}
	if s.base != "" {
		checkProblem(t, bare.do("GET", "/v1/info", nil), 404, "")
		checkProblem(t, bare.do("PUT", "/v1/blobs/0x1/a", []byte("x")), 404, "")
		checkProblem(t, bare.do("GET", s.base+"x/v1/info", nil), 404, "")
	}
}

// routes contains all paths, with the methods of each.
var routes = []struct {
	path    string
	methods []string
}{
	{"/v1/sessions", []string{"POST"}},
	{"/v1/sessions/someSession", []string{"GET"}},
	{"/v1/sessions/someSession/use", []string{"POST"}},
	{"/v1/sessions/micropaymentchannels", []string{"POST"}},
	{"/v1/sessions/micropaymentchannels/someChannel", []string{"GET"}},
	{"/v1/sessions/micropaymentchannels/use", []string{"GET"}},
	{"/v1/sessions/micropaymentchannels/someChannel/deposit", []string{"POST"}},
	{"/v1/sessions/micropaymentchannels/someChannel/close", []string{"POST"}},
	{"/v1/accounts", []string{"GET"}},
	{"/v1/blobs/0x1", []string{"GET"}},
	{"/v1/blobs/0x1/some/name", []string{"DELETE", "GET", "PUT"}},
	{"/v1/multipart-uploads", []string{"GET", "POST"}},
	{"/v1/multipart-uploads/someUpload", []string{"DELETE", "GET"}},
	{"/v1/multipart-uploads/someUpload/parts/0", []string{"PUT"}},
	{"/v1/multipart-uploads/someUpload/complete", []string{"POST"}},
	{"/v1/info", []string{"GET"}},
	{"/openapi.yaml", []string{"GET"}},
	{"/livez", []string{"GET"}},
	{"/readyz", []string{"GET"}},
}

// TestMethods sends each route the methods that it does not support.
func TestMethods(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	for _, route := range routes {
		known := append(slices.Clone(route.methods), "OPTIONS")
		if slices.Contains(known, "GET") {
			known = append(known, "HEAD")
		}
		slices.Sort(known)
		for _, method := range []string{"GET", "HEAD", "PUT", "POST", "DELETE", "PATCH", "TRACE", "FOO"} {
			if slices.Contains(known, method) {
				continue
			}
			r := s.do(method, route.path, nil)
			if got := allowed(r); r.status != 405 || !slices.Equal(got, known) {
				t.Errorf("%s %s: %d with Allow %v, want 405 with %v", method, route.path, r.status, got, known)
			}
			if method != "HEAD" {
				checkProblem(t, r, 405, "")
			}
		}
		r := s.do("OPTIONS", route.path, nil)
		if got := allowed(r); r.status != 204 || !slices.Equal(got, known) {
			t.Errorf("OPTIONS %s: %d with Allow %v, want 204 with %v", route.path, r.status, got, known)
		}
	}
}

// allowed returns the Allow header's methods, sorted.
func allowed(r response) []string {
	methods := strings.Split(strings.ReplaceAll(r.header.Get("Allow"), " ", ""), ",")
	slices.Sort(methods)
	return methods
}

// TestHeadIsGet compares HEAD with GET on every route that supports GET.
func TestHeadIsGet(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	s.must(204, "PUT", blobTarget("0x1", "some/name"), []byte("x"))
	s.must(204, "PUT", blobTarget("0x1", "empty"), nil)
	targets := []string{"/v1/blobs/0x1/empty", "/v1/blobs/0x1/absent", "/v1/multipart-uploads?account=0x1", "/nowhere"}
	for _, route := range routes {
		if slices.Contains(route.methods, "GET") {
			targets = append(targets, route.path)
		}
	}
	for _, target := range targets {
		get, head := s.do("GET", target, nil), s.do("HEAD", target, nil)
		if head.status != get.status || len(head.body) != 0 {
			t.Errorf("HEAD %s: %d with %d bytes, GET: %d", target, head.status, len(head.body), get.status)
		}
		if got, want := head.header.Get("Content-Type"), get.header.Get("Content-Type"); got != want {
			t.Errorf("HEAD %s: Content-Type %q, GET: %q", target, got, want)
		}
		if head.header.Get("X-Request-Id") == "" || get.header.Get("X-Request-Id") == "" {
			t.Errorf("%s: no X-Request-Id", target)
		}
	}
}

// TestUnknown requests routes, versions and resources that do not exist.
func TestUnknown(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	for _, target := range []string{"/", "/v1", "/v1/", "/v2/blobs/0x1/a", "/V1/info", "/v1/nothing", "/v1/blobs", "/v1/info/",
		"/v1/info/x", "/livez/", "/v1/multipart-uploads/x/parts", "/v1/multipart-uploads/x/parts/0/x",
		"/v1/multipart-uploads/x/other", "/v1/sessions/x/used", "/v1/sessions/x/use/y", "/favicon.ico"} {
		checkProblem(t, s.do("GET", target, nil), 404, "")
		checkProblem(t, s.do("POST", target, []byte("{}")), 404, "")
	}
	checkProblem(t, s.raw("GET", "GET //v1/info HTTP/1.1\r\nHost: localhost\r\n\r\n"), 404, "route_not_found")
	for _, request := range [][2]string{
		{"GET", "/v1/blobs/0x1/absent"},
		{"GET", "/v1/sessions/absent"},
		{"POST", "/v1/sessions/absent/use"},
		{"GET", "/v1/sessions/micropaymentchannels/absent"},
		{"GET", "/v1/multipart-uploads/absent"},
		{"PUT", "/v1/multipart-uploads/absent/parts/0"},
		{"POST", "/v1/multipart-uploads/absent/complete"},
		{"DELETE", "/v1/multipart-uploads/absent"},
	} {
		var body []byte
		if request[0] == "PUT" {
			body = []byte("x")
		}
		if r := s.do(request[0], request[1], body); checkProblem(t, r, 404, "") == "" {
			t.Errorf("%s %s: %v", request[0], request[1], r)
		}
	}
}
