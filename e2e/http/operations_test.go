package http

import (
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"sluice/e2e"
)

// TestOperations calls every operation with valid input, at the root and under a base path.
func TestOperations(t *testing.T) {
	t.Parallel()
	for _, base := range []string{"", "/sluice"} {
		t.Run("base="+base, func(t *testing.T) {
			var o e2e.Options
			if base != "" {
				o.Flags = []string{"--base-path", base}
			}
			s := e2e.Start(t, o)
			if s.Base != base {
				t.Fatalf("the ready line has the base path %q, want %q", s.Base, base)
			}
			walkBlobs(t, s)
			walkUploads(t, s)
			walkSessions(t, s)
			walkChannels(t, s)
			walkService(t, s)
		})
	}
}

func walkBlobs(t *testing.T, s *e2e.Server) {
	body := e2e.Content(1, 3000)
	target := e2e.BlobTarget("0xAB", "dir/hello world.txt")
	put := s.Must(204, "PUT", target, body, "Content-Type", "text/x-demo; a=b")
	if len(put.Body) != 0 {
		t.Errorf("PUT responded with a body: %v", put)
	}
	etag := put.Header.Get("ETag")
	if !regexp.MustCompile(`^"[^"]+"$`).MatchString(etag) {
		t.Errorf("PUT: ETag %q is not a strong one", etag)
	}
	modified, err := http.ParseTime(put.Header.Get("Last-Modified"))
	if err != nil {
		t.Errorf("PUT: Last-Modified: %v", err)
	}
	for _, method := range []string{"GET", "HEAD"} {
		r := s.Must(200, method, target, nil, "Accept-Encoding", "gzip, deflate, br")
		want := map[string]string{
			"Content-Length": "3000", "ETag": etag, "Last-Modified": put.Header.Get("Last-Modified"),
			"Accept-Ranges": "bytes", "Content-Type": "text/x-demo; a=b", "Cache-Control": "no-cache",
			"X-Content-Type-Options": "nosniff", "Content-Security-Policy": "sandbox",
			"Content-Encoding": "", "Transfer-Encoding": "",
		}
		for name, value := range want {
			if got := r.Header.Get(name); got != value {
				t.Errorf("%s: %s is %q, want %q", method, name, got, value)
			}
		}
		if r.Header.Get("X-Request-Id") == "" {
			t.Errorf("%s: no X-Request-Id", method)
		}
		if method == "GET" && e2e.Digest(r.Body) != e2e.Digest(body) {
			t.Errorf("GET returned other bytes than were PUT")
		}
	}
	// Every way to spell an address denotes the same account.
	for _, spelling := range []string{"0xab", "0x00ab", "0x" + strings.Repeat("0", 62) + "AB", strings.Repeat("0", 60) + "ab"} {
		s.Must(200, "GET", e2e.BlobTarget(spelling, "dir/hello world.txt"), nil)
	}
	s.Must(204, "PUT", e2e.BlobTarget("0xab", "dir/other"), nil)
	s.Must(204, "PUT", e2e.BlobTarget("0xab", "top"), []byte("x"))

	r := s.Must(200, "GET", "/v1/blobs/0xab?prefix=dir/h", nil)
	o := r.Object(t)
	entries := o["blobs"].([]any)
	if len(entries) != 1 {
		t.Fatalf("listing by prefix: %v", r)
	}
	entry := entries[0].(map[string]any)
	for member, want := range map[string]string{"name": "dir/hello world.txt", "size": "3000", "contentType": "text/x-demo; a=b", "etag": etag} {
		if got := e2e.Text(t, entry, member); got != want {
			t.Errorf("listing: %s is %q, want %q", member, got, want)
		}
	}
	if when, err := time.Parse(time.RFC3339Nano, e2e.Text(t, entry, "lastModified")); err != nil || !when.Truncate(time.Second).Equal(modified) {
		t.Errorf("listing: lastModified %v (%v), Last-Modified was %v", when, err, modified)
	}
	for _, absent := range []string{"expires"} {
		if _, there := entry[absent]; there {
			t.Errorf("listing: member %q without a value: %v", absent, entry)
		}
	}
	if _, there := o["next"]; there {
		t.Errorf("listing: next on the last page: %s", r.Body)
	}
	if _, there := o["prefixes"].([]any); !there {
		t.Errorf("listing: prefixes is not a list: %s", r.Body)
	}
	var page e2e.Listed
	s.Must(200, "GET", "/v1/blobs/0xab?delimiter=/", nil).Decode(t, &page)
	if len(page.Blobs) != 1 || page.Blobs[0].Name != "top" || !slices.Equal(page.Prefixes, []string{"dir/"}) {
		t.Errorf("listing by delimiter: %+v", page)
	}
	page = e2e.Listed{}
	s.Must(200, "GET", "/v1/blobs/0xab?limit=2", nil).Decode(t, &page)
	if len(page.Blobs) != 2 || page.Next == "" {
		t.Errorf("listing with limit 2: %+v", page)
	}
	if got := s.Names("0xab"); !slices.Equal(got, []string{"dir/hello world.txt", "dir/other", "top"}) {
		t.Errorf("listing: %q", got)
	}
	if got := s.Names("nobody"); len(got) != 0 {
		t.Errorf("listing in an account without blobs: %q", got)
	}
	s.Must(204, "DELETE", target, nil)
	s.Must(204, "DELETE", target, nil)
	e2e.CheckProblem(t, s.Do("GET", target, nil), 404, "")
	checkExpires(t, s)
}

func checkExpires(t *testing.T, s *e2e.Server) {
	expires := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	target := e2e.BlobTarget("0xab", "expiring")
	s.Must(204, "PUT", target, []byte("x"), "Blob-Expires", expires.Format(time.RFC3339))
	for _, method := range []string{"GET", "HEAD"} {
		r := s.Must(200, method, target, nil)
		if got, err := time.Parse(time.RFC3339Nano, r.Header.Get("Blob-Expires")); err != nil || !got.Equal(expires) {
			t.Errorf("%s: Blob-Expires %q, want %v", method, r.Header.Get("Blob-Expires"), expires)
		}
	}
}

func walkUploads(t *testing.T, s *e2e.Server) {
	data := e2e.Content(2, 2500)
	id := s.Begin("0xab", "by parts", 1000, "contentType", "image/x-demo")
	if r := s.Must(200, "PUT", e2e.PartTarget(id, 0), data[:1000]); string(r.Body) != `{"success":true}` {
		var o struct{ Success bool }
		if r.Decode(t, &o); !o.Success {
			t.Errorf("part: %v", r)
		}
	}
	s.Must(200, "PUT", e2e.PartTarget(id, 1), data[1000:2000])
	s.Must(200, "PUT", e2e.PartTarget(id, 2), data[2000:])
	status := s.Must(200, "GET", "/v1/multipart-uploads/"+id, nil).Object(t)
	want := map[string]string{"uploadId": id, "name": "by parts", "partSize": "1000", "state": "open", "bytes": "2500",
		"account": "0x" + strings.Repeat("0", 62) + "ab"}
	for member, value := range want {
		if got := e2e.Text(t, status, member); got != value {
			t.Errorf("status: %s is %q, want %q", member, got, value)
		}
	}
	if parts, ok := status["parts"].([]any); !ok || len(parts) != 3 {
		t.Errorf("status: parts are %v", status["parts"])
	}
	if _, err := time.Parse(time.RFC3339Nano, e2e.Text(t, status, "created")); err != nil {
		t.Errorf("status: created: %v", err)
	}
	if got := s.OpenUploads("0xab"); !slices.Equal(got, []string{id}) {
		t.Errorf("list of uploads: %v, want %v", got, id)
	}
	complete := s.Must(200, "POST", "/v1/multipart-uploads/"+id+"/complete", nil, "Content-Type", "application/json")
	var o struct{ Success bool }
	if complete.Decode(t, &o); !o.Success {
		t.Errorf("complete: %v", complete)
	}
	r := s.Must(200, "GET", e2e.BlobTarget("0xab", "by parts"), nil)
	if e2e.Digest(r.Body) != e2e.Digest(data) || r.Header.Get("Content-Type") != "image/x-demo" {
		t.Errorf("GET after complete: %v", r)
	}
	for _, name := range []string{"ETag", "Last-Modified"} {
		if got, want := complete.Header.Get(name), r.Header.Get(name); got != want {
			t.Errorf("complete: %s is %q, GET returns %q", name, got, want)
		}
	}
	status = s.Must(200, "GET", "/v1/multipart-uploads/"+id, nil).Object(t)
	if e2e.Text(t, status, "state") != "committed" || e2e.Text(t, status, "etag") != r.Header.Get("ETag") {
		t.Errorf("status after complete: %v", status)
	}
	e2e.CheckProblem(t, s.Do("DELETE", "/v1/multipart-uploads/"+id, nil), 409, "")

	id = s.Begin("0xab", "aborted", 1000)
	s.Must(204, "DELETE", "/v1/multipart-uploads/"+id, nil)
	s.Must(204, "DELETE", "/v1/multipart-uploads/"+id, nil)
	if got := e2e.Text(t, s.Must(200, "GET", "/v1/multipart-uploads/"+id, nil).Object(t), "state"); got != "aborted" {
		t.Errorf("state after abort: %q", got)
	}
	if got := s.OpenUploads("0xab"); len(got) != 0 {
		t.Errorf("list of uploads at the end: %v", got)
	}
}

func walkSessions(t *testing.T, s *e2e.Server) {
	for _, body := range [][]byte{nil, []byte("{}"), []byte(`{"userIdentity":"0x2","unknown":[1]}`)} {
		session := s.Must(201, "POST", "/v1/sessions", body).Object(t)
		id := e2e.Text(t, session, "sessionId")
		if !e2e.IDForm.MatchString(id) {
			t.Errorf("sessionId %q has not the form %v", id, e2e.IDForm)
		}
		use := s.Must(200, "POST", "/v1/sessions/"+id+"/use", nil)
		if len(use.Body) != 0 || use.Header.Get("Chunksets-Left") != "999" {
			t.Errorf("use: %v", use)
		}
		state := s.Must(200, "GET", "/v1/sessions/"+id, nil).Object(t)
		for member, want := range map[string]string{"sessionId": id, "chunksetsLeft": "999", "chunksetsTotal": "1000"} {
			if got := e2e.Text(t, state, member); got != want {
				t.Errorf("session: %s is %q, want %q", member, got, want)
			}
		}
		created, err1 := time.Parse(time.RFC3339Nano, e2e.Text(t, state, "created"))
		expires, err2 := time.Parse(time.RFC3339Nano, e2e.Text(t, state, "expires"))
		if err1 != nil || err2 != nil || expires.Sub(created).Round(time.Minute) != 30*24*time.Hour {
			t.Errorf("session: created %v (%v), expires %v (%v)", created, err1, expires, err2)
		}
	}
}

func walkChannels(t *testing.T, s *e2e.Server) {
	made := s.Must(201, "POST", "/v1/sessions/micropaymentchannels", nil).Object(t)
	id := e2e.Text(t, made, "channelId")
	if !e2e.IDForm.MatchString(id) {
		t.Errorf("channelId %q has not the form %v", id, e2e.IDForm)
	}
	state := s.Must(200, "GET", "/v1/sessions/micropaymentchannels/"+id, nil).Object(t)
	for _, member := range []string{"channelId", "paymentChannelId", "receiver", "asset", "deposit", "accepted", "credit",
		"settled", "unsettled", "sellingLimit", "sequenceNumber", "state", "created", "expires", "sessions"} {
		if got, want := e2e.Text(t, state, member), e2e.Text(t, made, member); got != want {
			t.Errorf("channel: %s is %q, was %q", member, got, want)
		}
	}
	if state["state"] != "open" || state["accepted"] != "0" {
		t.Errorf("channel: %v", state)
	}
	p := s.Payer(1)
	renewal := e2e.AsJSON(t, map[string]any{"micropaymentUpdate": p.Sign(t, uint64(e2e.Number(t, e2e.Text(t, made, "paymentChannelId"))), 1, 0).Base64()})
	if r := s.Do("POST", "/v1/sessions/micropaymentchannels/"+id+"/renew", renewal); r.Status != 409 {
		t.Errorf("a renewal of nothing: %v", r)
	}
	// There is no chain.
	s.WantCode(400, "bad_parameter", "POST", "/v1/sessions/micropaymentchannels/"+id+"/reconcile", nil)
	if _, there := state["sender"]; there {
		t.Errorf("channel: a sender although none was sent: %v", state)
	}
	request := map[string]any{"userIdentity": "0x5", "deposit": "250", "asset": "0x7", "paymentChannelId": "41",
		"expires": time.Now().Add(time.Hour).UTC().Format(time.RFC3339)}
	made = s.Must(201, "POST", "/v1/sessions/micropaymentchannels", e2e.AsJSON(t, request)).Object(t)
	for member, want := range map[string]string{"paymentChannelId": "41", "deposit": "250"} {
		if got := e2e.Text(t, made, member); got != want {
			t.Errorf("channel: %s is %q, want %q", member, got, want)
		}
	}
	again := s.Do("POST", "/v1/sessions/micropaymentchannels", e2e.AsJSON(t, request))
	e2e.CheckProblem(t, again, 409, "")
	if strings.Contains(string(again.Body), e2e.Text(t, made, "channelId")) {
		t.Errorf("the refusal reveals the channelId: %s", again.Body)
	}
}

func walkService(t *testing.T, s *e2e.Server) {
	info := s.Must(200, "GET", "/v1/info", nil).Object(t)
	for member, want := range map[string]string{"version": s.Version, "profile": "local", "reads": "public",
		"chunkSize": strconv.Itoa(1 << 20), "chunksetSize": strconv.Itoa(10 << 20)} {
		if got := e2e.Text(t, info, member); got != want {
			t.Errorf("info: %s is %q, want %q", member, got, want)
		}
	}
	if _, ok := info["limits"].(map[string]any); !ok {
		t.Errorf("info: limits are %v", info["limits"])
	}
	// These routes exist with the base path and without it.
	bare := *s
	bare.Base = ""
	for _, at := range []*e2e.Server{s, &bare} {
		at.Must(200, "GET", "/livez", nil)
		at.Must(200, "GET", "/readyz", nil)
		r := at.Must(200, "GET", "/openapi.yaml", nil)
		if !strings.Contains(string(r.Body), "openapi: 3.1") && !strings.Contains(string(r.Body), `openapi: "3.1`) {
			t.Errorf("openapi.yaml is not OpenAPI 3.1: %.100q", r.Body)
		}
	}
	if s.Base != "" {
		e2e.CheckProblem(t, bare.Do("GET", "/v1/info", nil), 404, "")
		e2e.CheckProblem(t, bare.Do("PUT", "/v1/blobs/0x1/a", []byte("x")), 404, "")
		e2e.CheckProblem(t, bare.Do("GET", s.Base+"x/v1/info", nil), 404, "")
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
	s := e2e.Start(t, e2e.Options{})
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
			r := s.Do(method, route.path, nil)
			if got := allowed(r); r.Status != 405 || !slices.Equal(got, known) {
				t.Errorf("%s %s: %d with Allow %v, want 405 with %v", method, route.path, r.Status, got, known)
			}
			if method != "HEAD" {
				e2e.CheckProblem(t, r, 405, "")
			}
		}
		r := s.Do("OPTIONS", route.path, nil)
		if got := allowed(r); r.Status != 204 || !slices.Equal(got, known) {
			t.Errorf("OPTIONS %s: %d with Allow %v, want 204 with %v", route.path, r.Status, got, known)
		}
	}
}

// allowed returns the Allow header's methods, sorted.
func allowed(r e2e.Response) []string {
	methods := strings.Split(strings.ReplaceAll(r.Header.Get("Allow"), " ", ""), ",")
	slices.Sort(methods)
	return methods
}

// TestHeadIsGet compares HEAD with GET on every route that supports GET.
func TestHeadIsGet(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{})
	s.Must(204, "PUT", e2e.BlobTarget("0x1", "some/name"), []byte("x"))
	s.Must(204, "PUT", e2e.BlobTarget("0x1", "empty"), nil)
	targets := []string{"/v1/blobs/0x1/empty", "/v1/blobs/0x1/absent", "/v1/multipart-uploads?account=0x1", "/nowhere"}
	for _, route := range routes {
		if slices.Contains(route.methods, "GET") {
			targets = append(targets, route.path)
		}
	}
	for _, target := range targets {
		get, head := s.Do("GET", target, nil), s.Do("HEAD", target, nil)
		if head.Status != get.Status || len(head.Body) != 0 {
			t.Errorf("HEAD %s: %d with %d bytes, GET: %d", target, head.Status, len(head.Body), get.Status)
		}
		if got, want := head.Header.Get("Content-Type"), get.Header.Get("Content-Type"); got != want {
			t.Errorf("HEAD %s: Content-Type %q, GET: %q", target, got, want)
		}
		if head.Header.Get("X-Request-Id") == "" || get.Header.Get("X-Request-Id") == "" {
			t.Errorf("%s: no X-Request-Id", target)
		}
	}
}

// TestUnknown requests routes, versions and resources that do not exist.
func TestUnknown(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{})
	for _, target := range []string{"/", "/v1", "/v1/", "/v2/blobs/0x1/a", "/V1/info", "/v1/nothing", "/v1/blobs", "/v1/info/",
		"/v1/info/x", "/livez/", "/v1/multipart-uploads/x/parts", "/v1/multipart-uploads/x/parts/0/x",
		"/v1/multipart-uploads/x/other", "/v1/sessions/x/used", "/v1/sessions/x/use/y", "/favicon.ico"} {
		e2e.CheckProblem(t, s.Do("GET", target, nil), 404, "")
		e2e.CheckProblem(t, s.Do("POST", target, []byte("{}")), 404, "")
	}
	e2e.CheckProblem(t, s.Raw("GET", "GET //v1/info HTTP/1.1\r\nHost: localhost\r\n\r\n"), 404, "route_not_found")
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
		if r := s.Do(request[0], request[1], body); e2e.CheckProblem(t, r, 404, "") == "" {
			t.Errorf("%s %s: %v", request[0], request[1], r)
		}
	}
}
