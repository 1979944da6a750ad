package s3api

import (
	"strings"
	"testing"

	"sluice/access"
	"sluice/test/testenv"
)

const corsRules = `<CORSConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/">
<CORSRule><ID>app</ID><AllowedHeader>x-amz-*</AllowedHeader><AllowedHeader>authorization</AllowedHeader><AllowedMethod>GET</AllowedMethod><AllowedMethod>PUT</AllowedMethod>
<AllowedOrigin>https://*.example.org</AllowedOrigin><ExposeHeader>ETag</ExposeHeader><MaxAgeSeconds>60</MaxAgeSeconds></CORSRule>
<CORSRule><AllowedMethod>HEAD</AllowedMethod><AllowedOrigin>*</AllowedOrigin></CORSRule></CORSConfiguration>`

// TestCORSIsRecorded: each change to a bucket's CORS rules is recorded with its writer and the
// rules before and after, and nothing else is.
// Invariant 201.
func TestCORSIsRecorded(t *testing.T) {
	h := startHosted(t, access.ReadsPublic, nil)
	key := h.key(t, access.NewKey{Scopes: []access.Scope{access.ScopeWrite}, Accounts: []string{"ours"}, Group: "g"})
	for i, body := range []string{corsRules, corsRules, "<CORSConfiguration/>", ""} {
		method, status := "PUT", []int{200, 200, 400, 204}[i]
		if body == "" {
			method = "DELETE"
		}
		send(t, key.sign(h.request(t, "PUT", "/ours", "")))
		testenv.Equal(t, send(t, key.sign(h.request(t, method, "/ours?cors", body))).StatusCode, status, "%s %s", method, body)
	}
	send(t, key.sign(h.request(t, "DELETE", "/ours?cors", "")))
	list := testenv.Must(h.database.ListActions(t.Context(), "", 10))(t)
	testenv.Equal(t, len(list), 2, "the actions: %+v", list)
	for i, a := range list { // the newest first
		has := a.After
		if i == 0 {
			has = a.Before
		}
		testenv.Equal(t, a.Name+" "+a.Subject+" "+a.Key, "cors.set ours "+key.id, "action %d", i)
		testenv.Equal(t, strings.Contains(string(has), "https://*.example.org") && (a.Before == nil) == (i == 1) && (a.After == nil) == (i == 0), true, "the rules: %+v", a)
	}
}

// TestCORSRules: a bucket's rules decide which pages read its responses, on a local instance, too,
// and buckets without rules are as they were.
func TestCORSRules(t *testing.T) {
	local := newService(t)
	hosted := startHosted(t, access.ReadsPublic, nil)
	key := hosted.key(t, access.NewKey{Scopes: []access.Scope{access.ScopeRead, access.ScopeWrite}})
	for _, c := range []struct {
		name    string
		service *service
		do      func(method, path, body string, fields ...string) response
		without int // the status for a page's GET, without rules
	}{
		{"local", local, func(method, path, body string, fields ...string) response {
			return local.do(t, method, path, body, fields...)
		}, 403},
		{"hosted", hosted.service, func(method, path, body string, fields ...string) response {
			r := hosted.request(t, method, path, body, fields...)
			if method == "OPTIONS" || r.Header.Get("Origin") != "" && method == "GET" {
				return send(t, r)
			}
			return send(t, key.sign(r))
		}, 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			wants := func(status int, method, path, body string, fields ...string) response {
				t.Helper()
				res := c.do(method, path, body, fields...)
				testenv.Equal(t, res.StatusCode, status, "%s %s %.200q: %.300s", method, path, fields, res.body)
				return res
			}
			page := func(origin string) []string { return []string{"Origin", origin} }
			preflight := func(origin, method, names string) []string {
				return []string{"Origin", origin, "Access-Control-Request-Method", method, "Access-Control-Request-Headers", names}
			}
			wants(200, "PUT", "/ours/a", "x", "X-Amz-Meta-A", "1")
			wantError(t, wants(404, "GET", "/ours?cors", ""), 404, "NoSuchCORSConfiguration")
			wants(c.without, "GET", "/ours/a", "", page("https://app.example.org")...)
			wantError(t, wants(400, "PUT", "/ours?cors", "<CORSConfiguration/>"), 400, "MalformedXML")
			wantError(t, wants(400, "PUT", "/ours?cors", strings.Replace(corsRules, "HEAD", "OPTIONS", 1)), 400, "InvalidRequest")
			wantError(t, wants(404, "PUT", "/none?cors", corsRules), 404, "NoSuchBucket")
			wants(200, "PUT", "/ours?cors", corsRules)
			got := wants(200, "GET", "/ours?cors", "").body
			for _, element := range []string{"<ID>app</ID>", "<AllowedOrigin>https://*.example.org</AllowedOrigin>", "<MaxAgeSeconds>60</MaxAgeSeconds>", "<AllowedMethod>HEAD</AllowedMethod>"} {
				testenv.Equal(t, strings.Count(got, element), 1, "%s in %s", element, got)
			}

			header := wants(200, "GET", "/ours/a", "", page("https://app.example.org")...).Header
			for name, want := range map[string]string{
				"Access-Control-Allow-Origin": "https://app.example.org", "Access-Control-Allow-Credentials": "true", "Access-Control-Expose-Headers": "ETag",
				"Access-Control-Allow-Methods": "GET, PUT", "Access-Control-Max-Age": "60", "Cross-Origin-Resource-Policy": "cross-origin",
				"Vary": "Origin, Access-Control-Request-Headers, Access-Control-Request-Method",
			} {
				testenv.Equal(t, header.Get(name), want, "%s", name)
			}
			testenv.Equal(t, wants(404, "GET", "/ours/none", "", page("https://app.example.org")...).Header.Get("Access-Control-Allow-Origin"), "https://app.example.org", "a refusal is readable")
			testenv.Equal(t, c.do("GET", "/ours/a", "", page("https://example.com")...).Header.Get("Access-Control-Allow-Origin"), "", "for another page")
			testenv.Equal(t, c.do("GET", "/ours/a", "", page("http://localhost:5173")...).Header.Get("Access-Control-Allow-Origin"), "", "for a page of this machine")

			header = wants(200, "OPTIONS", "/ours/a", "", preflight("https://app.example.org", "PUT", "authorization,x-amz-date")...).Header
			testenv.Equal(t, header.Get("Access-Control-Allow-Headers"), "authorization, x-amz-date", "fields that the page may send")
			testenv.Equal(t, wants(200, "OPTIONS", "/ours/a", "", preflight("https://any.example", "HEAD", "")...).Header.Get("Access-Control-Allow-Origin"), "*", "for every page")
			for _, refused := range [][]string{
				preflight("https://app.example.org", "PUT", "authorization,x-other"), preflight("https://app.example.org", "DELETE", ""), preflight("https://any.example", "GET", ""),
			} {
				wantError(t, wants(403, "OPTIONS", "/ours/a", "", refused...), 403, "AccessForbidden")
			}

			// Rules stay with the bucket's tags, and go with the bucket.
			wants(204, "PUT", "/ours?tagging", `<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>`)
			wants(200, "GET", "/ours?cors", "")
			wants(204, "DELETE", "/ours?cors", "")
			wants(204, "DELETE", "/ours?cors", "")
			wants(200, "GET", "/ours?tagging", "")
			wantError(t, wants(404, "GET", "/ours?cors", ""), 404, "NoSuchCORSConfiguration")
			wants(c.without, "GET", "/ours/a", "", page("https://app.example.org")...)
		})
	}
}
