package httpapi

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/access"
	"sluice/access/keys"
	"sluice/access/sealed"
	"sluice/admin"
	"sluice/database/whole"
	"sluice/metastore"
	"sluice/test/testenv"
	"sluice/wire"
)

// administered starts a service with the operations for administrators.
func administered(t testing.TB, hosted bool, config func(*Config)) *service {
	t.Helper()
	var store whole.Database
	of := setup{around: func(m whole.Database) whole.Database { store = m; return m }, config: func(c *Config) {
		box := testenv.Must(sealed.Parse([]byte(strings.Repeat("ab", 32))))(t)
		c.Admin = admin.New(store, admin.Options{Webhooks: &admin.WebhookOptions{
			Secrets: box, CheckURL: func(string) error { return nil },
			Test: func(context.Context, metastore.Webhook) (metastore.WebhookResult, bool) {
				return metastore.WebhookResult{Status: 204}, true
			},
		}})
		if config != nil {
			config(c)
		}
	}}
	if hosted {
		of.keys = keysOf
	}
	return start(t, of)
}

// grantOf returns a grant of one scope for accounts; none: all.
func grantOf(scope string, accounts ...string) keys.Grant {
	return keys.Grant{Scopes: []string{scope}, Accounts: accounts}
}

func (s *service) issue(t testing.TB, n access.NewKey) (keys.Key, []string) {
	t.Helper()
	issued := testenv.Must(access.Create(t.Context(), s.meta, n))(t)
	return issued.Key, keyHeader(issued.Credential)
}

// adminOperation is a request of each operation for administrators. A key "tenant" for the account
// "ours" belongs to the group of that account's administrator.
type adminOperation struct {
	method, path, body string
	etag               func(t *testing.T, s *service, path string) string // nil: it needs no If-Match
	all                bool                                               // it needs admin for all accounts
	below              bool                                               // an administrator of a prefix may do it, too
	want               int
}

// tagOf reads a thing's ETag.
func tagOf(auth []string) func(*testing.T, *service, string) string {
	return func(t *testing.T, s *service, path string) string {
		res, _ := s.want(t, 200, "GET", path, "", auth...)
		return res.Header.Get("Etag")
	}
}

// TestAdminMatrix tries every operation for administrators with every kind of key.
// Invariant 199.
func TestAdminMatrix(t *testing.T) {
	t.Parallel()
	s := administered(t, true, nil)
	_, boss := s.issue(t, access.NewKey{Grants: []keys.Grant{grantOf("admin")}, Group: "ops"})
	tag := tagOf(boss)
	operations := map[string]adminOperation{
		"GET keys":                       {"GET", "keys", "", nil, false, true, 200},
		"POST keys":                      {"POST", "keys", `{"grants":[{"scopes":["read"],"accounts":["ours"]}]}`, nil, false, false, 201},
		"GET keys/{keyId}":               {"GET", "keys/TENANT", "", nil, false, false, 200},
		"PATCH keys/{keyId}":             {"PATCH", "keys/TENANT", `{"label":"x"}`, tag, false, false, 200},
		"POST keys/{keyId}/revoke":       {"POST", "keys/TENANT/revoke", "", nil, false, false, 200},
		"GET groups":                     {"GET", "groups", "", nil, false, true, 200},
		"GET groups/{group}":             {"GET", "groups/tenant", "", nil, false, true, 200},
		"PATCH groups/{group}":           {"PATCH", "groups/tenant", `{"limits":{"channels":5}}`, tag, true, false, 200},
		"GET aliases":                    {"GET", "aliases", "", nil, true, false, 200},
		"PUT aliases/{bucket}":           {"PUT", "aliases/photos", `{"account":"ours"}`, nil, true, false, 200},
		"DELETE aliases/{bucket}":        {"DELETE", "aliases/photos", "", nil, true, false, 204},
		"GET places":                     {"GET", "places", "", nil, false, true, 200},
		"GET places/{account}":           {"GET", "places/ours", "", nil, false, false, 200},
		"PATCH places/{account}":         {"PATCH", "places/ours?prefix=other%2F", `{"lists":"key"}`, nil, false, false, 200},
		"GET versions":                   {"GET", "versions", "", nil, false, true, 200},
		"GET versions/{account}":         {"GET", "versions/ours", "", nil, false, false, 200},
		"PUT versions/{account}":         {"PUT", "versions/ours", `{"keep":"on","most":5}`, tag, false, false, 200},
		"GET rules":                      {"GET", "rules", "", nil, false, true, 200},
		"GET rules/{account}":            {"GET", "rules/ours", "", nil, false, false, 200},
		"PUT rules/{account}":            {"PUT", "rules/ours", `{"rules":[{"id":"r","expireDays":9}]}`, tag, false, false, 200},
		"DELETE rules/{account}":         {"DELETE", "rules/ours", "", tag, false, false, 204},
		"POST rules/{account}/preview":   {"POST", "rules/ours/preview", `{}`, nil, false, false, 200},
		"GET webhooks":                   {"GET", "webhooks", "", nil, false, true, 200},
		"POST webhooks":                  {"POST", "webhooks", `{"url":"https://e","account":"ours"}`, nil, false, false, 201},
		"GET webhooks/{webhookId}":       {"GET", "webhooks/TENANT", "", nil, false, false, 200},
		"PATCH webhooks/{webhookId}":     {"PATCH", "webhooks/TENANT", `{"on":false}`, tag, false, false, 200},
		"DELETE webhooks/{webhookId}":    {"DELETE", "webhooks/TENANT", "", nil, false, false, 204},
		"POST webhooks/{webhookId}/test": {"POST", "webhooks/TENANT/test", "", nil, false, false, 200},
		"GET damaged":                    {"GET", "damaged", "", nil, true, false, 200},
		"GET uploads":                    {"GET", "uploads", "", nil, true, false, 200},
		"GET actions":                    {"GET", "actions", "", nil, false, true, 200},
		"GET tasks":                      {"GET", "tasks", "", nil, true, false, 200},
		"POST tasks/{task}/start":        {"POST", "tasks/heal/start", "", nil, true, false, 200},
		"POST tasks/{task}/pause":        {"POST", "tasks/purge/pause", "", nil, true, false, 200},
		"POST tasks/{task}/resume":       {"POST", "tasks/purge/resume", "", nil, true, false, 200},
		"GET nodes":                      {"GET", "nodes", "", nil, true, false, 200},
	}
	var routed []string
	for _, r := range adminRoutes(s.Server) {
		routed = append(routed, r.Method+" "+strings.TrimPrefix(r.Pattern, "/v1/admin/"))
	}
	slices.Sort(routed)
	testenv.Equal(t, strings.Join(slices.Sorted(maps.Keys(operations)), "\n"), strings.Join(routed, "\n"), "the operations of the matrix, and the routes")

	revoked, revokedAuth := s.issue(t, access.NewKey{Grants: []keys.Grant{grantOf("admin")}})
	testenv.Must(s.meta.RevokeKey(t.Context(), revoked.ID, nil))(t)
	kind := func(grants ...keys.Grant) []string {
		_, auth := s.issue(t, access.NewKey{Grants: grants, Group: "tenant"})
		return auth
	}
	prefixed := grantOf("admin", "ours")
	prefixed.Prefix = "photos/"
	_, expired := s.issue(t, access.NewKey{Grants: []keys.Grant{grantOf("admin")}, Expires: time.Now().Add(-time.Minute)})
	var none []string
	refusal := func(status int, code string) func(adminOperation) (int, string) {
		return func(adminOperation) (int, string) { return status, code }
	}
	for name, c := range map[string]struct {
		auth []string
		want func(o adminOperation) (status int, code string)
	}{
		"none":     {none, refusal(401, "credential_required")},
		"unknown":  {keyHeader("sluice_unknown"), refusal(401, "credential_unknown")},
		"revoked":  {revokedAuth, refusal(401, "credential_unknown")},
		"expired":  {expired, refusal(401, "credential_unknown")},
		"read":     {kind(grantOf("read")), refusal(403, "scope_missing")},
		"create":   {kind(grantOf("create")), refusal(403, "scope_missing")},
		"write":    {kind(grantOf("write")), refusal(403, "scope_missing")},
		"channels": {kind(grantOf("channels")), refusal(403, "scope_missing")},
		"admin on another account": {kind(grantOf("admin", "theirs"), grantOf("write")), func(o adminOperation) (int, string) {
			switch {
			case o.all:
				return 403, "account_forbidden"
			case strings.Contains(o.path, "TENANT"):
				return 404, "not_found"
			case o.method == "POST", strings.Contains(o.path, "places/"), strings.Contains(o.path, "versions/"), strings.Contains(o.path, "rules/"):
				return 403, "beyond_key"
			}
			return o.want, ""
		}},
		"admin on a prefix": {kind(prefixed), func(o adminOperation) (int, string) {
			switch {
			case o.all:
				return 403, "account_forbidden"
			case strings.Contains(o.path, "TENANT"):
				return 404, "not_found"
			case !o.below:
				return 403, "beyond_key"
			}
			return o.want, ""
		}},
		"admin on the account": {kind(grantOf("admin", "ours"), grantOf("read")), func(o adminOperation) (int, string) {
			if o.all {
				return 403, "account_forbidden"
			}
			return o.want, ""
		}},
		"admin on all accounts": {boss, func(o adminOperation) (int, string) { return o.want, "" }},
	} {
		for operation, o := range operations {
			if operation == "DELETE aliases/{bucket}" && o.want == 204 {
				s.do(t, "PUT", "/v1/admin/aliases/photos", `{"account":"ours"}`, boss...)
			}
			tenant, _ := s.issue(t, access.NewKey{Grants: []keys.Grant{grantOf("write", "ours")}, Group: "tenant"})
			testenv.Must(s.meta.CreateWebhook(t.Context(), metastore.Webhook{ID: tenant.ID, WebhookSettings: metastore.WebhookSettings{Account: "ours"}}, nil, nil))(t)
			path := "/v1/admin/" + strings.ReplaceAll(o.path, "TENANT", tenant.ID)
			headers := slices.Clone(c.auth)
			if o.etag != nil {
				headers = append(headers, "If-Match", o.etag(t, s, path))
			}
			status, code := c.want(o)
			res, body := s.do(t, o.method, path, o.body, headers...)
			if res.StatusCode != status || code != "" && !strings.Contains(body, `"code":"`+code+`"`) {
				t.Errorf("%s with %s: %d %s; want %d %s", operation, name, res.StatusCode, body, status, code)
			}
		}
	}
}

// TestAdminKnowsWhatItIsTold: parameters, members and values that have no meaning are refused, and
// change nothing.
func TestAdminKnowsWhatItIsTold(t *testing.T) {
	s := administered(t, true, nil)
	_, boss := s.issue(t, access.NewKey{Grants: []keys.Grant{grantOf("admin")}})
	key, _ := s.issue(t, access.NewKey{Grants: []keys.Grant{grantOf("read")}, Group: "g"})
	one, headers := "/v1/admin/keys/"+key.ID, append([]string{"If-Match", "*"}, boss...)
	for _, c := range []struct {
		method, path, body string
		code               wire.Code
	}{
		{"GET", "/v1/admin/keys?group=g", "", wire.CodeBadParameter},
		{"GET", "/v1/admin/actions?key=g", "", wire.CodeBadParameter},
		{"GET", one + "?x=", "", wire.CodeBadParameter},
		{"POST", one + "/revoke?force=1", "", wire.CodeBadParameter},
		{"POST", one + "/revoke?forced=true", "", wire.CodeBadParameter},
		{"POST", "/v1/admin/keys", "", wire.CodeBadJSON},
		{"POST", "/v1/admin/keys", `{"scopes":["read"]}`, wire.CodeBadJSON},
		{"POST", "/v1/admin/keys", `{"grants":[{"scopes":["read"],"account":"a"}]}`, wire.CodeBadJSON},
		{"POST", "/v1/admin/keys", `{"grants":[{"scopes":["read"],"accounts":[]}]}`, wire.CodeBadParameter},
		{"POST", "/v1/admin/keys", `{"grants":[{"scopes":["read"],"accounts":["UPPER"]}]}`, wire.CodeBadAccount},
		{"POST", "/v1/admin/keys", `{"grants":[{"scopes":["read"]}],"expires":"tomorrow"}`, wire.CodeBadParameter},
		// There is no --s3-secret-key-file.
		{"POST", "/v1/admin/keys", `{"grants":[{"scopes":["read"]}],"s3":true}`, wire.CodeBadParameter},
		{"POST", "/v1/admin/keys", `{"grants":[{"scopes":["read"]}],"limits":{"channels":-2}}`, wire.CodeBadParameter},
		{"PATCH", one, `{"lable":"x"}`, wire.CodeBadJSON},
		{"PATCH", one, `{"newS3Secret":true}`, wire.CodeBadParameter},
		{"PATCH", one, `{"newS3Secret":true,"removeS3Secret":true}`, wire.CodeBadParameter},
		{"PATCH", one, `{"grants":[]}`, wire.CodeBadParameter},
		{"PATCH", "/v1/admin/groups/g", `{"limits":{"bytes":1}}`, wire.CodeBadParameter},
		{"PUT", "/v1/admin/aliases/A", `{"account":"a"}`, wire.CodeBadParameter},
		{"PUT", "/v1/admin/aliases/photos", `{}`, wire.CodeBadAccount},
		{"GET", "/v1/admin/damaged?after=x", "", wire.CodeBadParameter},
		{"GET", "/v1/admin/tasks?limit=1", "", wire.CodeBadParameter},
		{"POST", "/v1/admin/tasks/purge/pause?for=1h", "", wire.CodeBadParameter},
	} {
		s.refused(t, 400, c.code, c.method, c.path, c.body, headers...)
	}
	testenv.Equal(t, fmt.Sprint(testenv.Must(s.meta.Key(t.Context(), key.ID))(t)), fmt.Sprint(key), "the key")
	testenv.Equal(t, len(testenv.Must(s.meta.ListActions(t.Context(), "", 10))(t)), 0, "recorded actions")
}

// TestSecretsAreSentOnce: a secret that was replaced is refused at once, and neither logs nor
// recorded actions have one.
// Invariant 201.
func TestSecretsAreSentOnce(t *testing.T) {
	s := administered(t, true, nil)
	_, boss := s.issue(t, access.NewKey{Grants: []keys.Grant{grantOf("admin")}})
	_, got := s.want(t, 201, "POST", "/v1/admin/keys", `{"grants":[{"scopes":["write"],"accounts":["ours"]}],"group":"g"}`, boss...)
	first := decodedAs[wire.IssuedKey](t, got)
	put := func(status int, key string) { s.want(t, status, "PUT", "/v1/blobs/ours/n", "x", keyHeader(key)...) }
	put(204, first.Secret)
	_, got = s.want(t, 200, "PATCH", "/v1/admin/keys/"+first.ID, `{"newSecret":true}`, append([]string{"If-Match", first.ETag}, boss...)...)
	renewed := decodedAs[wire.IssuedKey](t, got)
	put(204, renewed.Secret)
	put(401, first.Secret)
	_, shown := s.want(t, 200, "GET", "/v1/admin/actions", "", boss...)
	for _, secret := range []string{first.Secret, renewed.Secret} {
		if strings.Contains(s.logged()+shown, secret[len(secret)-56:]) {
			t.Error("the log or an action has a secret")
		}
	}
}

// TestLocalInstanceIsAdministered: everybody administers a local instance.
func TestLocalInstanceIsAdministered(t *testing.T) {
	s := administered(t, false, nil)
	_, got := s.want(t, 201, "POST", "/v1/admin/keys", `{"grants":[{"scopes":["admin"]}]}`)
	key := decodedAs[wire.IssuedKey](t, got)
	s.want(t, 200, "POST", "/v1/admin/keys/"+key.ID+"/revoke", "")
	_, got = s.want(t, 200, "GET", "/v1/admin/actions", "")
	for _, made := range decodedAs[wire.ActionPage](t, got).Actions {
		testenv.Equal(t, made.Key, "", "who acted")
		testenv.Equal(t, made.From, "127.0.0.1", "from where")
	}
}

// TestAdminAtItsOwnAddress: with AdminApart the operations are served by AdminHandler alone, below
// the base path, and by no handler without Admin.
func TestAdminAtItsOwnAddress(t *testing.T) {
	s := administered(t, true, func(c *Config) { c.AdminApart, c.BasePath = true, "/sluice" })
	_, boss := s.issue(t, access.NewKey{Grants: []keys.Grant{grantOf("admin")}})
	s.refused(t, 404, wire.CodeRouteNotFound, "GET", "/sluice/v1/admin/keys", "", boss...)
	pattern, handler := s.AdminHandler()
	mux := http.NewServeMux()
	mux.Handle(pattern, handler)
	apart := &service{Server: s.Server}
	apart.url = "http://" + serve(t, &http.Server{Handler: mux}, newConnections(10))
	apart.want(t, 200, "GET", "/sluice/v1/admin/keys", "", boss...)
	apart.refused(t, 401, wire.CodeCredentialRequired, "GET", "/sluice/v1/admin/keys", "")
	apart.want(t, 404, "GET", "/sluice/v1/info", "", boss...)
	off := newService(t, nil)
	off.refused(t, 404, wire.CodeRouteNotFound, "GET", "/v1/admin/keys", "")
	if _, handler := off.AdminHandler(); handler != nil {
		t.Error("a server without administrators has a handler for them")
	}
}
