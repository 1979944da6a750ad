package httpapi

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/access"
	"sluice/access/keys"
	"sluice/blob"
	"sluice/database/whole"
	"sluice/httpapi/internal/router"
	"sluice/paychan"
	"sluice/test/testenv"
)

// ours is the account to which everything in these tests belongs.
const ours = "ours"

// credential is a kind of credential and the headers that send it.
type credential struct {
	name    string
	headers []string
}

// hosted is a service with keys and one credential of every kind.
type hosted struct {
	*service
	reads               access.Reads
	right, small, other credential // small: every scope but the required one
	wrong               []credential
}

// newHosted starts a hosted service; its keys have these scopes. config may change its
// configuration.
func newHosted(t testing.TB, reads access.Reads, scope access.Scope, config ...func(*Config)) *hosted {
	t.Helper()
	return newHostedOver(t, nil, reads, scope, config...)
}

// newHostedOver is newHosted with the metadata store that around returns.
func newHostedOver(
	t testing.TB, around func(whole.Database) whole.Database, reads access.Reads, scope access.Scope, config ...func(*Config),
) *hosted {
	t.Helper()
	of := setup{around: around, keys: keysOf, config: func(c *Config) {
		c.Reads = reads
		for _, change := range config {
			change(c)
		}
	}}
	h := &hosted{service: start(t, of), reads: reads}
	every, accounts := []access.Scope{access.ScopeRead, access.ScopeWrite, access.ScopeRetain, access.ScopeBypass, access.ScopeChannels}, []string{ours, payer}
	if scope == access.ScopeAdmin {
		every, accounts = append(every, scope), nil // which is needed for all accounts
	}
	rest := slices.DeleteFunc(slices.Clone(every), func(s access.Scope) bool { return s == scope })
	secret := func(n access.NewKey) string { _, secret := h.key(t, n); return secret }
	h.right = withBearer("right", secret(access.NewKey{Scopes: []access.Scope{scope}, Accounts: accounts}))
	h.small = withBearer("too small a scope", secret(access.NewKey{Scopes: rest}))
	h.other = withBearer("other account", secret(access.NewKey{Scopes: every, Accounts: []string{"theirs"}}))

	good := secret(access.NewKey{Scopes: every})
	revoked, revokedSecret := h.key(t, access.NewKey{Scopes: every})
	testenv.OK(t, testenv.Error(h.meta.RevokeKey(context.Background(), revoked.ID, nil)))
	expired := secret(access.NewKey{Scopes: every, Expires: time.Now().Add(-time.Minute)})
	h.wrong = []credential{
		{"another scheme", []string{"Authorization", "Basic " + good}},
		{"no scheme", []string{"Authorization", good}},
		{"an empty bearer", []string{"Authorization", "Bearer "}},
		{"an empty key", []string{"X-Api-Key", ""}},
		{"two credentials", []string{"Authorization", "Bearer " + good, "X-Api-Key", good}},
		withBearer("nonsense", "sluice"),
		withBearer("truncated", good[:len(good)-1]),
		withBearer("too long", good+"a"),
		withBearer("a wrong secret", good[:len(good)-1]+flipped(good[len(good)-1])),
		withBearer("unknown", strings.Replace(good, good[7:23], "aaaaaaaaaaaaaaaa", 1)),
		withBearer("revoked", revokedSecret),
		withBearer("expired", expired),
		{"revoked, in the other header", []string{"X-Api-Key", revokedSecret}},
	}
	return h
}

// limited returns a change to a configuration: the limits of each address.
func limited(l keys.Limits) func(*Config) {
	return func(c *Config) { c.Limiter = access.NewLimiter(access.LimiterOptions{Address: l}) }
}

// keysOf makes a service a hosted one.
func keysOf(meta whole.Database) *access.Authenticator {
	return access.NewAuthenticator(meta, access.AuthenticatorOptions{})
}

func withBearer(name, key string) credential {
	return credential{name, []string{"Authorization", "Bearer " + key}}
}

func flipped(c byte) string {
	if c == 'a' {
		return "b"
	}
	return "a"
}

func (h *hosted) key(t testing.TB, n access.NewKey) (keys.Key, string) {
	t.Helper()
	issued := testenv.Must(access.Create(context.Background(), h.meta, n))(t)
	return issued.Key, issued.Credential
}

// limited returns a key with a scope and limits, and the header that sends it.
func (h *hosted) limited(t testing.TB, scope access.Scope, limits keys.Limits) (key keys.Key, auth []string) {
	t.Helper()
	key, secret := h.key(t, access.NewKey{Scopes: []access.Scope{scope}, Limits: limits})
	return key, keyHeader(secret)
}

// need is a route's requirement on its caller.
type need struct {
	scope access.Scope // "" if nothing is required
	probe bool         // credentials are ignored
}

// target is a request to a route, with its own objects.
type target struct {
	method, path, body string
	want               int // status for an authorized caller
}

// row has a route's requirement for each kind of reads, and how to request it.
type row struct {
	need func(access.Reads) need
	ask  func(t *testing.T, h *hosted) target
}

func nothing(access.Reads) need { return need{} }
func probed(access.Reads) need  { return need{probe: true} }
func scoped(s access.Scope) func(access.Reads) need {
	return func(access.Reads) need { return need{scope: s} }
}

// reading returns a read's requirement: nothing if reads are public. A listing is never paid for.
func reading(paid need) func(access.Reads) need {
	return func(r access.Reads) need {
		switch r {
		case access.ReadsPublic:
			return need{}
		case access.ReadsKey:
			return need{scope: access.ScopeRead}
		default:
			return paid
		}
	}
}

const payer = "0x000000000000000000000000000000000000000000000000000000000000abcd"

var accessTable = map[string]row{
	"POST /v1/sessions":                 {nothing, static("POST", "/v1/sessions", "{}", 201)},
	"GET /v1/sessions/{sessionId}":      {nothing, onSession("GET", "", 200)},
	"POST /v1/sessions/{sessionId}/use": {nothing, onSession("POST", "/use", 200)},
	"POST /v1/sessions/micropaymentchannels": {scoped(access.ScopeChannels),
		static("POST", "/v1/sessions/micropaymentchannels", `{"userIdentity": "`+payer+`"}`, 201)},
	"GET /v1/sessions/micropaymentchannels/{channelId}":            {nothing, onChannel("GET", "", "", 200)},
	"POST /v1/sessions/micropaymentchannels/{channelId}/deposit":   {scoped(access.ScopeChannels), onChannel("POST", "/deposit", `{"amount":"1"}`, 200)},
	"POST /v1/sessions/micropaymentchannels/{channelId}/close":     {scoped(access.ScopeChannels), onChannel("POST", "/close", "", 200)},
	"POST /v1/sessions/micropaymentchannels/{channelId}/renew":     {nothing, onChannel("POST", "/renew", `{"micropaymentUpdate":"AAAA"}`, 400)},
	"POST /v1/sessions/micropaymentchannels/{channelId}/reconcile": {scoped(access.ScopeAdmin), onChannel("POST", "/reconcile", "", 400)},

	"GET /v1/accounts": {scoped(access.ScopeAdmin), static("GET", "/v1/accounts", "", 200)},
	"GET /v1/channels": {scoped(access.ScopeAdmin), static("GET", "/v1/channels", "", 200)},
	"GET /v1/channels/{channelId}/ledger": {scoped(access.ScopeAdmin), func(t *testing.T, h *hosted) target {
		c := testenv.Must(h.channels.Open(t.Context(), paychan.OpenOptions{Sender: payer}, nil))(t)
		return target{"GET", "/v1/channels/" + c.ID + "/ledger", "", 200}
	}},
	"GET /v1/changes":                       {reading(need{scope: access.ScopeRead}), static("GET", "/v1/changes?account="+ours, "", 200)},
	"GET /v1/figures":                       {scoped(access.ScopeAdmin), static("GET", "/v1/figures", "", 200)},
	"GET /v1/blobs/{account}":               {reading(need{scope: access.ScopeRead}), static("GET", "/v1/blobs/"+ours, "", 200)},
	"GET /v1/blobs/{account}/{blobName...}": {reading(need{}), onBlob("GET", 200)},
	"PUT /v1/blobs/{account}/{blobName...}": {scoped(access.ScopeWrite), onBlob("PUT", 204)},
	"POST /v1/blobs/{account}/{blobName...}": {scoped(access.ScopeWrite), func(t *testing.T, h *hosted) target {
		at := onBlob("POST", 200)(t, h)
		at.body = `{"moveTo": {"blobName": "moved"}}`
		return at
	}},
	"DELETE /v1/blobs/{account}/{blobName...}": {scoped(access.ScopeWrite), onBlob("DELETE", 204)},

	"GET /v1/versions/{account}":                            {scoped(access.ScopeRead), static("GET", "/v1/versions/"+ours, "", 200)},
	"GET /v1/versions/{account}/{version}/{blobName...}":    {scoped(access.ScopeRead), onVersion("GET", "", 200)},
	"POST /v1/versions/{account}/{version}/{blobName...}":   {scoped(access.ScopeWrite), onVersion("POST", `{"copyTo": {"blobName": "a/b"}}`, 200)},
	"DELETE /v1/versions/{account}/{version}/{blobName...}": {scoped(access.ScopeAdmin), onVersion("DELETE", "", 204)},
	"PATCH /v1/versions/{account}/{version}/{blobName...}": {scoped(access.ScopeRetain), func(t *testing.T, h *hosted) target {
		h.lockable(t, ours)
		return onVersion("PATCH", `{"hold": true}`, 200)(t, h)
	}},

	"POST /v1/multipart-uploads": {scoped(access.ScopeWrite),
		static("POST", "/v1/multipart-uploads", `{"rawAccount": "ours", "rawBlobName": "new"}`, 200)},
	"GET /v1/multipart-uploads":                            {scoped(access.ScopeWrite), static("GET", "/v1/multipart-uploads?account="+ours, "", 200)},
	"GET /v1/multipart-uploads/{uploadId}":                 {scoped(access.ScopeWrite), onUpload("GET", "", "", 200)},
	"DELETE /v1/multipart-uploads/{uploadId}":              {scoped(access.ScopeWrite), onUpload("DELETE", "", "", 204)},
	"PUT /v1/multipart-uploads/{uploadId}/parts/{partIdx}": {scoped(access.ScopeWrite), onUpload("PUT", "/parts/0", "part", 200)},
	"POST /v1/multipart-uploads/{uploadId}/complete":       {scoped(access.ScopeWrite), onUpload("POST", "/complete", "", 200)},

	"GET /v1/info":      {nothing, static("GET", "/v1/info", "", 200)},
	"GET /livez":        {probed, static("GET", "/livez", "", 200)},
	"GET /readyz":       {probed, static("GET", "/readyz", "", 200)},
	"GET /openapi.yaml": {nothing, static("GET", "/openapi.yaml", "", 200)},
}

func static(method, path, body string, want int) func(*testing.T, *hosted) target {
	return func(*testing.T, *hosted) target { return target{method, path, body, want} }
}

func onBlob(method string, want int) func(*testing.T, *hosted) target {
	return func(t *testing.T, h *hosted) target {
		_, err := h.blobs.Put(t.Context(), blob.PutOptions{Account: ours, Name: "a/b"}, strings.NewReader("hello"), 5)
		testenv.OK(t, err)
		return target{method, "/v1/blobs/" + ours + "/a/b", "", want}
	}
}

func onVersion(method, body string, want int) func(*testing.T, *hosted) target {
	return func(t *testing.T, h *hosted) target {
		onBlob("", 0)(t, h)
		return target{method, h.version(t, "a/b"), body, want}
	}
}

func onSession(method, rest string, want int) func(*testing.T, *hosted) target {
	return func(t *testing.T, h *hosted) target {
		s := testenv.Must(h.sessions.Grant(t.Context(), "", nil))(t)
		return target{method, "/v1/sessions/" + s.ID + rest, "", want}
	}
}

func onChannel(method, rest, body string, want int) func(*testing.T, *hosted) target {
	return func(t *testing.T, h *hosted) target {
		c := testenv.Must(h.channels.Open(t.Context(), paychan.OpenOptions{Sender: payer}, nil))(t)
		return target{method, "/v1/sessions/micropaymentchannels/" + c.ID + rest, body, want}
	}
}

func onUpload(method, rest, body string, want int) func(*testing.T, *hosted) target {
	return func(t *testing.T, h *hosted) target {
		u, err := h.blobs.Begin(t.Context(), blob.BeginOptions{Account: ours, Name: "n", PartSize: 10})
		testenv.OK(t, err)
		return target{method, "/v1/multipart-uploads/" + u.ID + rest, body, want}
	}
}

// TestEveryRouteAsksForCredentials tries every form of credential on every
// route. A route without a row in the table fails it.
// Invariant 32.
func TestEveryRouteAsksForCredentials(t *testing.T) {
	t.Parallel()
	for _, reads := range []access.Reads{access.ReadsPublic, access.ReadsKey, access.ReadsPaid} {
		services := map[access.Scope]*hosted{}
		for _, scope := range []access.Scope{access.ScopeRead, access.ScopeWrite, access.ScopeRetain, access.ScopeChannels, access.ScopeAdmin} {
			services[scope] = newHosted(t, reads, scope)
		}
		tried := map[string]bool{}
		for _, r := range services[access.ScopeRead].router.Routes() {
			name := r.Method + " " + r.Pattern
			row, ok := accessTable[name]
			if !ok {
				t.Errorf("%s has no row in the table of requirements", name)
				continue
			}
			tried[name] = true
			need := row.need(reads)
			h := services[access.ScopeRead]
			if need.scope != "" {
				h = services[need.scope]
			}
			t.Run(string(reads)+" "+name, func(t *testing.T) { h.tryRoute(t, need, row) })
		}
		for name := range maps.Keys(accessTable) {
			if !tried[name] {
				t.Errorf("%s is in the table but is not a route", name)
			}
		}
	}
}

// tryRoute checks that each credential gets the response that the row describes.
func (h *hosted) tryRoute(t *testing.T, need need, row row) {
	expect := func(c credential, status int, code string) {
		t.Helper()
		at := row.ask(t, h)
		if status == 0 {
			status = at.want
			if at.method == "GET" && strings.HasPrefix(at.path, "/v1/blobs/"+ours+"/") && h.reads == access.ReadsPaid && c.name != "right" {
				status, code = 402, "payment_required"
			}
		}
		res, body := h.do(t, at.method, at.path, at.body, c.headers...)
		if res.StatusCode != status || code != "" && !strings.Contains(body, `"code":"`+code+`"`) {
			t.Errorf("%s %s with %s: %d %s; want %d %s", at.method, at.path, c.name, res.StatusCode, body, status, code)
		}
		if (res.Header.Get("WWW-Authenticate") != "") != (status == 401) {
			t.Errorf("with %s: %d has WWW-Authenticate %q", c.name, status, res.Header.Get("WWW-Authenticate"))
		}
		if at.method == "GET" {
			head, _ := h.do(t, "HEAD", at.path, "", c.headers...)
			if head.StatusCode != status && status != 402 { // HEAD is free
				t.Errorf("HEAD with %s: %d, and GET %d", c.name, head.StatusCode, status)
			}
		}
	}
	none := credential{name: "none"}
	if need.scope != "" {
		expect(none, 401, "credential_required")
		expect(h.small, 403, "scope_missing")
		expect(h.other, 403, "account_forbidden")
	} else {
		expect(none, 0, "")
		expect(h.small, 0, "")
		expect(h.other, 0, "")
	}
	for _, c := range h.wrong {
		if need.probe {
			expect(c, 0, "")
		} else {
			expect(c, 401, "credential_unknown")
		}
	}
	expect(h.right, 0, "")
	expect(credential{"right", []string{"X-Api-Key", strings.TrimPrefix(h.right.headers[1], "Bearer ")}}, 0, "")
}

// TestConditionsRevealNothingToUnauthorizedCallers checks that a refusal depends neither on the
// blob's existence nor on conditions and ranges that would disclose it.
// Invariant 33.
func TestConditionsRevealNothingToUnauthorizedCallers(t *testing.T) {
	for _, reads := range []access.Reads{access.ReadsKey, access.ReadsPaid} {
		h := newHosted(t, reads, access.ScopeRead)
		at := onBlob("GET", 200)(t, h)
		res, _ := h.do(t, "GET", at.path, "", h.right.headers...)
		etag, modified := res.Header.Get("ETag"), res.Header.Get("Last-Modified")
		for _, method := range []string{"GET", "HEAD", "PUT", "DELETE"} {
			refused := append([]credential{{name: "none"}, h.other}, h.wrong...)
			for _, c := range refused {
				if reads == access.ReadsPaid && (method == "GET" || method == "HEAD") && (c.name == "none" || c.name == h.other.name) {
					continue // they may pay, and HEAD is free
				}
				plain := h.response(t, method, at.path, c)
				for _, condition := range [][]string{
					{"If-None-Match", etag}, {"If-None-Match", "*"}, {"If-None-Match", `"x"`}, {"If-Match", etag}, {"If-Match", `"x"`},
					{"If-Modified-Since", modified}, {"If-Unmodified-Since", "Thu, 01 Jan 1970 00:00:00 GMT"},
					{"Range", "bytes=0-0"}, {"Range", "bytes=99-"}, {"Range", "bytes=0-0", "If-Range", etag}, {"If-Match", "broken"},
				} {
					asked := c
					asked.headers = slices.Concat(c.headers, condition)
					if got := h.response(t, method, at.path, asked); got != plain {
						t.Errorf("%s with %s and %v gets\n%s, and without the condition\n%s", method, c.name, condition, got, plain)
					}
				}
				if absent := h.response(t, method, at.path+"-absent", c); absent != plain {
					t.Errorf("%s with %s of an absent blob gets\n%s, and of an existing one\n%s", method, c.name, absent, plain)
				}
			}
		}
	}
}

// response returns a whole response without its date, as text.
func (h *hosted) response(t *testing.T, method, path string, c credential) string {
	t.Helper()
	res, body := h.do(t, method, path, "", append([]string{"X-Request-Id", "same"}, c.headers...)...)
	res.Header.Del("Date")
	var b bytes.Buffer
	_, err := fmt.Fprintln(&b, res.Status)
	if err == nil {
		err = res.Header.Write(&b)
	}
	testenv.OK(t, err)
	return b.String() + body
}

func TestRouteWithoutRuleIsRefused(t *testing.T) {
	handle := func(*call) error { return nil }
	for _, op := range []operation{{}, {rule: public()}, {handle: handle}, {rule: public(), handle: handle}} {
		_, err := newRouter("", []router.Route[operation]{{Method: "GET", Pattern: "/a", Value: op}})
		if whole := op.rule != nil && op.handle != nil; (err == nil) != whole {
			t.Errorf("a route with a rule: %t, with a handler: %t: %v", op.rule != nil, op.handle != nil, err)
		}
	}
}

// TestPartsComeFromTheGroupThatBegan: a part is charged to the group that began its upload, so a
// key of another group for the same account may end the upload but not add parts.
func TestPartsComeFromTheGroupThatBegan(t *testing.T) {
	h := newHosted(t, access.ReadsKey, access.ScopeWrite)
	n := access.NewKey{Scopes: []access.Scope{access.ScopeWrite}, Accounts: []string{ours}, Group: "mates"}
	_, mate := h.key(t, n)
	_, other := h.key(t, n)
	path := h.newUpload(t, ours, "n", "", keyHeader(mate)...)
	h.want(t, 403, "PUT", path+"/parts/0", "x", h.right.headers...)
	h.want(t, 200, "PUT", path+"/parts/0", "x", keyHeader(other)...)
	h.want(t, 200, "POST", path+"/complete", "", h.right.headers...)
}

// TestIdempotencyKeysBelongToTheirCaller: an idempotency key belongs to the key that sent it.
func TestIdempotencyKeysBelongToTheirCaller(t *testing.T) {
	h := newHosted(t, access.ReadsKey, access.ScopeChannels)
	_, other := h.key(t, access.NewKey{Scopes: []access.Scope{access.ScopeChannels}})
	const path, open = "/v1/sessions/micropaymentchannels", `{"userIdentity": "` + payer + `"}`
	seen := map[string]bool{}
	for _, key := range [][]string{h.right.headers, keyHeader(other)} {
		_, body := h.want(t, 201, "POST", path, open, append(key, "Idempotency-Key", "k")...)
		if seen[body] {
			t.Errorf("the channel is of another caller: %s", body)
		}
		seen[body] = true
	}
}

// TestRefusalDoesNotWaitForTheBody: a refusal does not wait for a body that is not sent, and a
// body that was sent does not cost the connection unless it is chunked, which always does.
// Invariant 58.
func TestRefusalDoesNotWaitForTheBody(t *testing.T) {
	t.Parallel()
	h := newHosted(t, access.ReadsKey, access.ScopeWrite)
	for _, c := range []struct {
		name, head, body string
		close            bool
	}{
		{"a body that was sent", "Content-Length: 4\r\n", "some", false},
		{"chunks that were sent", "Transfer-Encoding: chunked\r\n", "4\r\nsome\r\n0\r\n\r\n", true},
		{"a short body that is not sent", "Content-Length: 10\r\n", "some", true},
		{"chunks that are not sent", "Transfer-Encoding: chunked\r\n", "4\r\nsome\r\n", true},
		{"a long body that is not sent", "Content-Length: 10000000\r\n", "some", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			res, body := h.raw(t, "PUT /v1/blobs/ours/x HTTP/1.1\r\nHost: h\r\n"+c.head+"\r\n"+c.body)
			if res.StatusCode != 401 || res.Close != c.close {
				t.Errorf("%d, closes: %t: %s", res.StatusCode, res.Close, body)
			}
		})
	}
}
