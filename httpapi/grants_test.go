package httpapi

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/access"
	"sluice/access/keys"
	"sluice/test/testenv"
	"sluice/wire"
	"sluice/wire/link"
)

// right is what a request needs of one grant.
type right struct {
	scope         access.Scope
	account, name string // "": all
}

// included has the scopes that a scope includes besides itself.
var included = map[access.Scope]string{
	access.ScopeRead: "admin", access.ScopeCreate: "write admin", access.ScopeWrite: "admin", access.ScopeChannels: "admin", access.ScopeAdmin: "",
	access.ScopeRetain: "admin", access.ScopeBypass: "admin",
}

// has reports whether one of these grants includes the scope.
func has(grants []keys.Grant, r right) bool {
	return slices.ContainsFunc(grants, func(g keys.Grant) bool {
		scope := slices.ContainsFunc(g.Scopes, func(s string) bool {
			return s == string(r.scope) || slices.Contains(strings.Fields(included[r.scope]), s)
		})
		return scope && (g.Accounts == nil || slices.Contains(g.Accounts, r.account)) && strings.HasPrefix(r.name, g.Prefix)
	})
}

// kindsOfKeys are keys by kind, for tests of rights.
var kindsOfKeys = map[string][]keys.Grant{
	"all accounts":          {{Scopes: []string{"admin"}}},
	"channels of all":       {{Scopes: []string{"channels"}}},
	"one account":           {{Scopes: []string{"read", "write"}, Accounts: []string{ours}}},
	"admin of one account":  {{Scopes: []string{"admin"}, Accounts: []string{ours}}},
	"another account":       {{Scopes: []string{"admin"}, Accounts: []string{"theirs"}}},
	"a prefix":              {{Scopes: []string{"read", "write"}, Accounts: []string{ours}, Prefix: "team/"}},
	"a prefix everywhere":   {{Scopes: []string{"admin"}, Prefix: "team/"}},
	"a reader of a prefix":  {{Scopes: []string{"read"}, Accounts: []string{ours}, Prefix: "team/"}},
	"a writer of a prefix":  {{Scopes: []string{"write"}, Accounts: []string{ours}, Prefix: "team/"}},
	"a creator in a prefix": {{Scopes: []string{"create"}, Accounts: []string{ours}, Prefix: "team/"}},
	"a locker of a prefix":  {{Scopes: []string{"create", "retain"}, Accounts: []string{ours}, Prefix: "team/"}},
	"a retainer":            {{Scopes: []string{"retain"}}},
	"a breaker of a prefix": {{Scopes: []string{"retain", "bypass", "write"}, Prefix: "team/"}},
	"a breaker of all":      {{Scopes: []string{"bypass"}, Accounts: []string{ours}}, {Scopes: []string{"retain"}, Prefix: "other/"}},
	"another prefix":        {{Scopes: []string{"admin"}, Accounts: []string{ours}, Prefix: "other/"}},
	"a backup": {
		{Scopes: []string{"read", "create"}, Accounts: []string{ours}},
		{Scopes: []string{"write"}, Accounts: []string{ours}, Prefix: "team/"},
	},
	"two prefixes": {
		{Scopes: []string{"read", "write"}, Accounts: []string{ours}, Prefix: "team/"},
		{Scopes: []string{"read"}, Accounts: []string{ours, "theirs"}, Prefix: "other/"},
		{Scopes: []string{"channels"}},
	},
}

// granting is a service on which requests are tried by a key.
type granting struct {
	*linking
	owner []string // an administrator's header
	by    []string // the key's
	key   signing
	n     int
}

// fresh returns a new name with the prefix, of a blob if it is stored.
func (g *granting) fresh(t *testing.T, at string, stored bool) string {
	t.Helper()
	g.n++
	name := fmt.Sprint(at, g.n)
	if stored {
		g.want(t, 204, "PUT", "/v1/blobs/ours/"+name, "x", g.owner...)
	}
	return name
}

// upload begins an upload for the key's group, with a part.
func (g *granting) upload(t *testing.T, at string) string {
	t.Helper()
	path := g.newUpload(t, ours, g.fresh(t, at, false), "", g.owner...)
	g.want(t, 200, "PUT", path+"/parts/0", "x", g.owner...)
	return path
}

// in returns the time in so many hours and half an hour more.
func (g *granting) in(hours int) string {
	return g.now().Add(time.Duration(hours)*time.Hour + 30*time.Minute).UTC().Format(time.RFC3339)
}

// attempt is a request, and the rights that it needs.
type attempt struct {
	name, method, path, body string
	headers                  []string
	rights                   []right
}

// attempts returns a request for each operation on names that begin with at.
func (g *granting) attempts(t *testing.T, at string) []attempt {
	t.Helper()
	const blobs, uploads = "/v1/blobs/ours/", "/v1/multipart-uploads"
	one := func(scope access.Scope, name string) []right { return []right{{scope, ours, name}} }
	read, create, write := one(access.ScopeRead, at), one(access.ScopeCreate, at), one(access.ScopeWrite, at)
	stored := func() string { return g.fresh(t, at, true) }
	to := func(action, name string) string { return fmt.Sprintf(`{%q: {"blobName": %q}}`, action, name) }
	away := g.fresh(t, "team/copy", false)
	linked := func(verb link.Verb, name string) string { return g.link(t, g.key, verb, ours, name) }
	restored := stored()
	read1, new1 := stored(), g.fresh(t, at, false)
	retain, bypass := one(access.ScopeRetain, at), []string{wire.HeaderBypass, "true"}
	lock := func(hours int) string {
		return fmt.Sprintf(`{"retention": {"mode": "governance", "until": %q}}`, g.in(hours))
	}
	locked := func() string {
		path := g.version(t, stored())
		g.want(t, 200, "PATCH", path, lock(1), g.owner...)
		return path
	}
	return []attempt{
		{"read", "GET", blobs + stored(), "", g.by, read},
		{"head", "HEAD", blobs + stored(), "", g.by, read},
		{"create", "PUT", blobs + g.fresh(t, at, false), "x", g.by, create},
		{"replace", "PUT", blobs + stored(), "y", g.by, write},
		{"delete", "DELETE", blobs + stored(), "", g.by, write},
		{"delete nothing", "DELETE", blobs + g.fresh(t, at, false), "", g.by, write},
		{"copy from there", "POST", blobs + stored(), to("copyTo", away+"1"), g.by, slices.Concat(read, one(access.ScopeCreate, away))},
		{"copy to there", "POST", blobs + g.fresh(t, "team/", true), to("copyTo", g.fresh(t, at, false)), g.by, slices.Concat(create, one(access.ScopeRead, "team/"))},
		{"copy over", "POST", blobs + g.fresh(t, "team/", true), to("copyTo", stored()), g.by, slices.Concat(write, one(access.ScopeRead, "team/"))},
		{"copy to another account", "POST", blobs + stored(), `{"copyTo": {"account": "theirs", "blobName": "team/` + new1 + `"}}`, g.by, append(slices.Clone(read), right{access.ScopeCreate, "theirs", "team/"})},
		{"read a version", "GET", g.version(t, stored()), "", g.by, read},
		{"head of a version", "HEAD", g.version(t, stored()), "", g.by, read},
		{"list versions", "GET", "/v1/versions/ours?prefix=" + at, "", g.by, read},
		{"list all versions", "GET", "/v1/versions/ours", "", g.by, one(access.ScopeRead, "")},
		{"restore", "POST", g.version(t, restored), to("copyTo", restored), g.by, write},
		{"copy a version from there", "POST", g.version(t, stored()), to("copyTo", away+"2"), g.by, slices.Concat(read, one(access.ScopeCreate, away))},
		{"copy a version to there", "POST", g.version(t, g.fresh(t, "team/", true)), to("copyTo", g.fresh(t, at, false)), g.by, slices.Concat(create, one(access.ScopeRead, "team/"))},
		{"delete a version", "DELETE", g.version(t, stored()), "", g.by, one(access.ScopeAdmin, at)},
		{"hold", "PATCH", g.version(t, stored()), `{"hold": true}`, g.by, retain},
		{"lock", "PATCH", g.version(t, stored()), lock(2), g.by, retain},
		{"extend a lock", "PATCH", locked(), lock(2), g.by, retain},
		{"shorten a lock", "PATCH", locked(), lock(0), append(slices.Clone(g.by), bypass...), slices.Concat(retain, one(access.ScopeBypass, at))},
		{"end a lock", "PATCH", locked(), `{"retention": null}`, append(slices.Clone(g.by), bypass...), slices.Concat(retain, one(access.ScopeBypass, at))},
		{"delete a locked version", "DELETE", locked(), "", append(slices.Clone(g.by), bypass...), slices.Concat(one(access.ScopeAdmin, at), one(access.ScopeBypass, at))},
		{"store with a hold", "PUT", blobs + g.fresh(t, at, false), "x", append(slices.Clone(g.by), wire.HeaderHold, "true"), slices.Concat(create, retain)},
		{"replace with a lock", "PUT", blobs + stored(), "x", append(slices.Clone(g.by), wire.HeaderRetainMode, "compliance", wire.HeaderRetainUntil, g.in(2)), slices.Concat(write, retain)},
		{"copy with a lock", "POST", blobs + g.fresh(t, "team/", true), strings.Replace(to("copyTo", g.fresh(t, at, false)), "{", `{"hold": true, `, 1), g.by, slices.Concat(create, retain, one(access.ScopeRead, "team/"))},
		{"move with a lock", "POST", blobs + g.fresh(t, "team/", true), strings.Replace(to("moveTo", g.fresh(t, at, false)), "{", `{"hold": true, `, 1), g.by, slices.Concat(create, retain, one(access.ScopeWrite, "team/"))},
		{"begin with a lock", "POST", uploads, fmt.Sprintf(`{"rawAccount": "ours", "rawBlobName": %q, `, new1) + lock(1)[1:], g.by, slices.Concat(create, retain)},
		{"begin", "POST", uploads, fmt.Sprintf(`{"rawAccount": "ours", "rawBlobName": %q}`, new1), g.by, create},
		{"get an upload", "GET", g.upload(t, at), "", g.by, create},
		{"part", "PUT", g.upload(t, at) + "/parts/0", "x", g.by, create},
		{"complete", "POST", g.upload(t, at) + "/complete", "{}", g.by, create},
		{"abort", "DELETE", g.upload(t, at), "", g.by, create},
		{"list uploads", "GET", uploads + "?account=ours&prefix=" + at, "", g.by, write},
		{"list all uploads", "GET", uploads + "?account=ours", "", g.by, one(access.ScopeWrite, "")},
		{"list", "GET", "/v1/blobs/ours?prefix=" + at, "", g.by, read},
		{"list folders", "GET", "/v1/blobs/ours?delimiter=/&prefix=" + at + "&after=" + at, "", g.by, read},
		{"list all", "GET", "/v1/blobs/ours", "", g.by, one(access.ScopeRead, "")},
		{"list after the place", "GET", "/v1/blobs/ours?after=" + at, "", g.by, one(access.ScopeRead, "")},
		{"list accounts", "GET", "/v1/accounts", "", g.by, []right{{access.ScopeAdmin, "", ""}}},
		{"figures", "GET", "/v1/figures", "", g.by, []right{{access.ScopeAdmin, "", ""}}},
		{"channels", "GET", "/v1/channels", "", g.by, []right{{access.ScopeAdmin, "", ""}}},
		{"read by link", "GET", blobs + read1 + linked(link.Read, read1), "", nil, read},
		{"read by link to a folder", "GET", blobs + "team/" + read1 + linked(link.Read, "team/"), "", nil, one(access.ScopeRead, "team/")},
		{"list by link", "GET", "/v1/blobs/ours" + linked(link.Read, at+"/") + "&prefix=" + at + "/", "", nil, read},
		{"create by link", "PUT", blobs + new1 + linked(link.Create, new1), "x", nil, create},
	}
}

// TestEveryOperationByEveryKindOfKey sends each operation on blobs, in and outside of a prefix, by
// each kind of key. A request is refused exactly if no grant gives a right that it needs.
// Invariants 193, 207.
func TestEveryOperationByEveryKindOfKey(t *testing.T) {
	l := newLinking(t, access.ReadsKey, withAdmin)
	l.lockable(t, ours)
	owner := keyHeader(l.signer(t, access.NewKey{Scopes: []access.Scope{access.ScopeAdmin}, Group: "g"}).credential)
	allowed := 0
	for kind, grants := range kindsOfKeys {
		key := l.signer(t, access.NewKey{Grants: grants, Group: "g"})
		g := &granting{linking: l, owner: owner, by: keyHeader(key.credential), key: key}
		for _, at := range []string{"team/a", "team", "teams/a", "other/a"} {
			for _, a := range g.attempts(t, kindPrefix(at, kind)) {
				permitted := !slices.ContainsFunc(a.rights, func(r right) bool { return !has(grants, r) })
				res, body := l.do(t, a.method, a.path, a.body, a.headers...)
				if refused := res.StatusCode == 403; refused == permitted || res.StatusCode == 401 || res.StatusCode >= 500 || res.StatusCode == 400 {
					t.Errorf("%s at %q by a key for %s: %d %s, want it permitted: %t", a.name, at, kind, res.StatusCode, body, permitted)
				}
				if permitted {
					allowed++
				}
				if a.name == "read" && !permitted {
					wantCode(t, res.StatusCode, body, grants)
				}
			}
		}
	}
	if allowed < 400 {
		t.Errorf("only %d requests were permitted", allowed)
	}
}

// kindPrefix returns names of a kind's own, so that kinds do not meet.
func kindPrefix(at, kind string) string {
	return at + url.PathEscape(strings.ReplaceAll(kind, " ", "-"))
}

// wantCode checks the code of a refused read of a blob of ours.
func wantCode(t *testing.T, status int, body string, grants []keys.Grant) {
	t.Helper()
	want := wire.CodeNameForbidden
	switch {
	case !slices.ContainsFunc(grants, func(g keys.Grant) bool {
		return slices.Contains(g.Scopes, "read") || slices.Contains(g.Scopes, "admin")
	}):
		want = wire.CodeScopeMissing
	case !slices.ContainsFunc(grants, func(g keys.Grant) bool { return g.Accounts == nil || slices.Contains(g.Accounts, ours) }):
		want = wire.CodeAccountForbidden
	}
	if got := decodedAs[wire.Problem](t, body).Code; status != 403 || got != string(want) {
		t.Errorf("%d %s for %+v, want %s", status, got, grants, want)
	}
}

// TestMovesByEveryKindOfKey moves blobs into, out of and within a prefix. A key that cannot read a
// blob moves it to no place where it can.
// Invariant 193.
func TestMovesByEveryKindOfKey(t *testing.T) {
	l := newLinking(t, access.ReadsKey)
	owner := keyHeader(l.signer(t, access.NewKey{Scopes: []access.Scope{access.ScopeAdmin}}).credential)
	kinds := map[string][]keys.Grant{"a writer that reads a prefix": {{Scopes: []string{"write"}}, {Scopes: []string{"read"}, Prefix: "team/"}}, "a writer": {{Scopes: []string{"write"}}}}
	for kind, grants := range kindsOfKeys {
		kinds[kind] = grants
	}
	for kind, grants := range kinds {
		key := l.signer(t, access.NewKey{Grants: grants})
		g := &granting{linking: l, owner: owner, by: keyHeader(key.credential), key: key}
		for _, account := range []string{ours, "theirs"} {
			for _, from := range []string{"team/m", "other/m"} {
				for _, to := range []string{"team/n", "other/n"} {
					permitted := has(grants, right{access.ScopeWrite, ours, from}) && has(grants, right{access.ScopeCreate, account, to})
					if account != ours || has(grants, right{access.ScopeRead, account, to}) {
						permitted = permitted && has(grants, right{access.ScopeRead, ours, from})
					}
					source := kindPrefix(from, kind) + account + to[:4]
					l.want(t, 204, "PUT", "/v1/blobs/ours/"+source, "x", owner...)
					res, body := l.do(t, "POST", "/v1/blobs/ours/"+source, fmt.Sprintf(`{"moveTo": {"account": %q, "blobName": %q}}`, account, kindPrefix(to, kind)+from[:4]), g.by...)
					if (res.StatusCode == 200) != permitted || !permitted && res.StatusCode != 403 {
						t.Errorf("a move from %s to %s %s by a key for %s: %d %s", from, account, to, kind, res.StatusCode, body)
					}
				}
			}
		}
	}
}

// TestUploadsBelowAPrefix lists uploads in pages: those with the prefix, and no other.
// Invariant 193.
func TestUploadsBelowAPrefix(t *testing.T) {
	h := newHosted(t, access.ReadsKey, access.ScopeWrite)
	_, secret := h.key(t, access.NewKey{Scopes: scopeWrite, Accounts: []string{ours}, Prefix: "team/"})
	elsewhere := strings.TrimPrefix(h.newUpload(t, ours, "teams", "", h.right.headers...), "/v1/multipart-uploads/")
	var want []string
	for _, name := range []string{"team", "team/b", "other", "team/a", "team/b"} {
		path := h.newUpload(t, ours, name, "", h.right.headers...)
		if strings.HasPrefix(name, "team/") {
			want = append(want, strings.TrimPrefix(path, "/v1/multipart-uploads/"))
		}
	}
	want[0], want[1] = want[1], want[0] // by name, and then by when they began
	const list = "/v1/multipart-uploads?account=ours&limit=1&prefix=team/&after="
	var got []string
	for after := ""; ; {
		_, body := h.want(t, 200, "GET", list+after, "", keyHeader(secret)...)
		page := decodedAs[wire.UploadPage](t, body)
		got = append(got, page.Uploads[0].UploadID)
		if after = page.Next; after == "" {
			break
		}
	}
	testenv.Equal(t, fmt.Sprint(got), fmt.Sprint(want), "the uploads")
	for _, after := range []string{elsewhere, "unknown"} {
		h.refused(t, 400, wire.CodeBadParameter, "GET", list+after, "", keyHeader(secret)...)
	}
}

// TestPrefixIsNarrowedMeanwhile narrows a key while a body is on its way: to another prefix, or to
// one that still has the name.
// Invariant 193.
func TestPrefixIsNarrowedMeanwhile(t *testing.T) {
	h := newHosted(t, access.ReadsPublic, access.ScopeWrite)
	large := strings.Repeat("x", 64<<10)
	for prefix, want := range map[string]int{"team/": 204, "other/": 403, "team/blob-": 204, "team/blob-x/": 403} {
		stored, secret := h.key(t, access.NewKey{Scopes: scopeWrite, Accounts: []string{ours}})
		writes := func(prefix string) {
			on := []keys.Grant{{Scopes: []string{"write"}, Accounts: []string{ours}, Prefix: prefix}}
			testenv.Must(access.Update(t.Context(), h.meta, stored.ID, access.KeyChange{Grants: on}))(t)
		}
		narrowed := func() { writes(prefix) }
		name := "team/blob-" + url.PathEscape(strings.ReplaceAll(prefix, "/", "+"))
		part := h.beginAs(t, secret, name+"-part") + "/parts/0"
		source, _ := h.store(t, ours, name+"-source", "x")
		res, text := h.slowRequest(t, "PUT", "/v1/blobs/ours/"+name, large, withBearer("", secret), narrowed)
		if res.StatusCode != want || h.has(t, name) != (want == 204) {
			t.Errorf("a PUT narrowed to %q: %d %s, want %d", prefix, res.StatusCode, text, want)
		}
		for _, one := range []struct{ method, path, body string }{{"PUT", part, large}, {"POST", source, fmt.Sprintf(`{"copyTo": {"blobName": %q}}`, name+"-copy")}} {
			writes("")
			if res, text = h.slowRequest(t, one.method, one.path, one.body, withBearer("", secret), narrowed); (res.StatusCode == 200) != (want == 204) || res.StatusCode != 200 && res.StatusCode != 403 {
				t.Errorf("%s %s narrowed to %q: %d %s", one.method, one.path, prefix, res.StatusCode, text)
			}
		}
	}
}
