package httpapi

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"sluice/access"
	"sluice/access/keys"
	"sluice/access/sealed"
	"sluice/blob"
	"sluice/database"
	"sluice/database/whole"
	"sluice/test/testenv"
	"sluice/wire"
	"sluice/wire/link"
)

// ahead is how far the database's clock is ahead of the machine's in these tests.
const ahead = 30 * 24 * time.Hour

// linking is a hosted service with keys that have S3 secrets.
type linking struct {
	*service
	box *sealed.Box
}

// newLinking starts a hosted service with these reads, and a clock that is not the machine's.
func newLinking(t *testing.T, reads access.Reads, config ...func(*Config)) *linking {
	t.Helper()
	l := &linking{box: testenv.Must(sealed.Parse([]byte(strings.Repeat("01", 32))))(t)}
	l.service = start(t, setup{
		now: l.now,
		keys: func(meta whole.Database) *access.Authenticator {
			return access.NewAuthenticator(meta, access.AuthenticatorOptions{S3: l.box})
		},
		config: func(c *Config) {
			c.Reads = reads
			for _, change := range config {
				change(c)
			}
		},
	})
	return l
}

func (*linking) now() time.Time { return time.Now().Add(ahead) }

// signing is a key that signs links.
type signing struct{ id, credential, secret string }

// signer creates a key with an S3 secret.
func (l *linking) signer(t *testing.T, n access.NewKey) signing {
	t.Helper()
	n.S3 = l.box
	issued := testenv.Must(access.Create(t.Context(), l.meta, n))(t)
	return signing{issued.Key.ID, issued.Credential, issued.S3Secret}
}

// link returns a link's query for an hour.
func (l *linking) link(t *testing.T, by signing, verb link.Verb, account, name string) string {
	t.Helper()
	return l.linkFor(t, by, verb, account, name, time.Hour)
}

func (l *linking) linkFor(t *testing.T, by signing, verb link.Verb, account, name string, life time.Duration) string {
	t.Helper()
	return "?" + link.Parameter + "=" + testenv.Must(link.Sign(link.Link{Verb: verb, KeyID: by.id, Account: account, Name: name, Expires: l.now().Add(life)}, by.secret))(t).String()
}

// store stores a blob in the account ours. Its content is its name.
func (l *linking) store(t *testing.T, name string) (path string) {
	t.Helper()
	testenv.OK(t, testenv.Error(l.blobs.Put(t.Context(), blob.PutOptions{Account: ours, Name: name}, strings.NewReader(name), int64(len(name)))))
	return "/v1/blobs/" + ours + "/" + (&url.URL{Path: name}).EscapedPath()
}

var scopeRead, scopeWrite = []access.Scope{access.ScopeRead}, []access.Scope{access.ScopeWrite}

// TestLinkedReads: a link lets a caller without a key read its blob, whatever reads cost, and no
// response to it may be stored.
func TestLinkedReads(t *testing.T) {
	for _, reads := range []access.Reads{access.ReadsPublic, access.ReadsKey, access.ReadsPaid} {
		l := newLinking(t, reads, func(c *Config) { c.PublicCacheControl = "max-age=60" })
		key := l.signer(t, access.NewKey{Scopes: scopeRead, Accounts: []string{ours}})
		path := l.store(t, "a/ä b?.txt")
		query := l.link(t, key, link.Read, ours, "a/ä b?.txt")
		private := func(status int, method, want string, fields ...string) {
			t.Helper()
			res, body := l.want(t, status, method, path+query, "", fields...)
			if body != want || res.Header.Get("Cache-Control") != "private, no-store" {
				t.Errorf("%s: %s %v: %q, %v, want %q", reads, method, fields, body, res.Header, want)
			}
		}
		private(200, "GET", "a/ä b?.txt")
		private(200, "HEAD", "")
		private(206, "GET", "/ä", "Range", "bytes=1-3")
		etag := testenv.Must(l.meta.Blob(t.Context(), ours, "a/ä b?.txt"))(t)
		private(304, "GET", "", "If-None-Match", `"`+strings.Trim(l.validatorsOf(&etag).ETag, `"`)+`"`)
		private(200, "GET", "a/ä b?.txt", "Origin", "https://elsewhere.example")

		other := l.store(t, "a/c")
		l.refused(t, 401, wire.CodeCredentialUnknown, "GET", other+query, "")
		l.refused(t, 401, wire.CodeCredentialUnknown, "GET", other+"/d"+query, "")
		l.refused(t, 401, wire.CodeCredentialUnknown, "GET", strings.Replace(path, ours, "theirs", 1)+query, "")
		l.refused(t, 401, wire.CodeCredentialUnknown, "GET", path+query[:len(query)-4]+"AAAA", "")
		l.refused(t, 401, wire.CodeCredentialUnknown, "GET", path+"?"+link.Parameter+"=nonsense", "")
		l.refused(t, 401, wire.CodeCredentialUnknown, "GET", path+query, "", keyHeader(key.credential)...)
		l.refused(t, 400, wire.CodeBadParameter, "GET", path+query+"&"+query[1:], "")
		l.refused(t, 404, wire.CodeBlobNotFound, "GET", "/v1/blobs/"+ours+"/absent"+l.link(t, key, link.Read, ours, "absent"), "")
	}
}

// TestLinksBelowAPrefix: a link for a prefix is for every blob below it, and for their names.
// Invariant 32.
func TestLinksBelowAPrefix(t *testing.T) {
	l := newLinking(t, access.ReadsKey)
	key := l.signer(t, access.NewKey{Scopes: scopeRead, Accounts: []string{ours}})
	query := l.link(t, key, link.Read, ours, "a/")
	for _, name := range []string{"a/b", "a/b/c", "a//d", "a/../e"} {
		_, body := l.want(t, 200, "GET", l.store(t, name)+query, "")
		testenv.Equal(t, body, name, "the content of %s", name)
	}
	for _, name := range []string{"ab", "b", "A/b", "b/a/c"} {
		l.refused(t, 401, wire.CodeCredentialUnknown, "GET", l.store(t, name)+query, "")
	}
	list := "/v1/blobs/" + ours + query
	res, body := l.want(t, 200, "GET", list+"&prefix=a/", "")
	if page := decodedAs[wire.BlobPage](t, body); len(page.Blobs) != 4 || res.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("the list is %s with %v", body, res.Header)
	}
	_, body = l.want(t, 200, "GET", list+"&prefix=a%2Fb&delimiter=/&limit=1", "")
	if page := decodedAs[wire.BlobPage](t, body); len(page.Blobs) != 1 || page.Blobs[0].Name != "a/b" {
		t.Errorf("the list of names that begin with a/b is %s", body)
	}
	for _, prefix := range []string{"", "a", "b/", "%2F"} {
		l.refused(t, 401, wire.CodeCredentialUnknown, "GET", list+"&prefix="+prefix, "")
	}
	l.refused(t, 401, wire.CodeCredentialUnknown, "GET", list, "")
	l.refused(t, 400, wire.CodeBadName, "GET", "/v1/blobs/"+ours+"/a/"+query, "")
	l.refused(t, 403, wire.CodeLinkForbidden, "GET", "/v1/blobs/"+ours+l.link(t, key, link.Read, ours, "a/b")+"&prefix=a/b", "")
}

// TestLinkedCreation: a link to create stores a blob of its name once, whatever the client states,
// and is charged to its key's group.
// Invariant 32.
func TestLinkedCreation(t *testing.T) {
	l := newLinking(t, access.ReadsKey)
	key := l.signer(t, access.NewKey{Scopes: scopeWrite, Accounts: []string{ours}, Group: "team", Limits: keys.Limits{StoredBytes: 5000}})
	query := l.link(t, key, link.Create, ours, "new")
	path := "/v1/blobs/" + ours + "/new" + query
	l.refused(t, 412, wire.CodePreconditionFailed, "PUT", path, "first", "If-Match", "*")
	res, _ := l.want(t, 204, "PUT", path, "first", "Content-Type", "text/plain")
	testenv.Equal(t, res.Header.Get("Cache-Control"), "private, no-store", "Cache-Control")
	for _, fields := range [][]string{nil, {"If-None-Match", `"x"`}, {"If-Match", `"x"`}, {"If-Match", "*"}} {
		l.refused(t, 412, wire.CodePreconditionFailed, "PUT", path, "second", fields...)
	}
	stored := testenv.Must(l.meta.Blob(t.Context(), ours, "new"))(t)
	testenv.Equal(t, stored.Owner, "team", "who is charged")
	testenv.Equal(t, stored.Size, 5, "the stored size")
	l.refused(t, 401, wire.CodeCredentialUnknown, "PUT", "/v1/blobs/"+ours+"/other"+query, "x")
	large := "/v1/blobs/" + ours + "/large" + l.link(t, key, link.Create, ours, "large")
	l.refused(t, 403, wire.CodeQuotaExceeded, "PUT", large, strings.Repeat("x", 9000))
}

// TestLinksPermitNothingElse sends each operation with a link for another operation.
// Invariant 32.
func TestLinksPermitNothingElse(t *testing.T) {
	l := newLinking(t, access.ReadsPublic)
	admin := l.signer(t, access.NewKey{Scopes: []access.Scope{access.ScopeAdmin}})
	h := &hosted{service: l.service}
	for name, row := range accessTable {
		if row.need(access.ReadsPublic).probe {
			continue
		}
		for _, verb := range []link.Verb{link.Read, link.Create} {
			at := row.ask(t, h)
			if method, _, _ := strings.Cut(name, " "); method == "GET" && verb == link.Read && strings.HasPrefix(at.path, "/v1/blobs/") || method == "PUT" && verb == link.Create && strings.HasPrefix(at.path, "/v1/blobs/") {
				continue
			}
			query := l.link(t, admin, verb, ours, "a/b")
			if strings.Contains(at.path, "?") {
				query = "&" + query[1:]
			}
			l.refused(t, 403, wire.CodeLinkForbidden, at.method, at.path+query, at.body)
		}
	}
	l.want(t, 404, "GET", "/v1/nothing"+l.link(t, admin, link.Read, ours, "a/b"), "")
	l.want(t, 200, "GET", "/livez"+l.link(t, admin, link.Read, ours, "a/b"), "")
}

// TestLinksEndWithTheirKey: a link is valid until it expires by the database's clock, and while its
// key is unchanged.
// Invariant 34.
func TestLinksEndWithTheirKey(t *testing.T) {
	l := newLinking(t, access.ReadsKey)
	path := l.store(t, "a")
	n := access.NewKey{Scopes: scopeRead, Accounts: []string{ours}}
	key := l.signer(t, n)
	for life, code := range map[time.Duration]wire.Code{
		time.Minute: "", link.MaxLife: "", -time.Second: wire.CodeLinkExpired, -ahead: wire.CodeLinkExpired, link.MaxLife + 2*link.MaxSkew: wire.CodeCredentialUnknown,
	} {
		query := l.linkFor(t, key, link.Read, ours, "a", life)
		if code == "" {
			l.want(t, 200, "GET", path+query, "")
		} else {
			res, _ := l.refused(t, 401, code, "GET", path+query, "")
			testenv.Equal(t, res.Header.Get("WWW-Authenticate"), `Bearer realm="sluice", error="invalid_token"`, "the challenge")
		}
	}
	update := func(c access.KeyChange) func(id string) error {
		return func(id string) error { return testenv.Error(access.Update(t.Context(), l.meta, id, c)) }
	}
	past := l.now().Add(-time.Minute)
	for _, test := range []struct {
		name   string
		change func(id string) error
		status int
		code   wire.Code
	}{
		{"revoked", func(id string) error { return testenv.Error(l.meta.RevokeKey(t.Context(), id, nil)) }, 401, wire.CodeCredentialUnknown},
		{"expired", update(access.KeyChange{Expires: &past}), 401, wire.CodeCredentialUnknown},
		{"another secret", update(access.KeyChange{S3: l.box}), 401, wire.CodeCredentialUnknown},
		{"no secret", update(access.KeyChange{NoS3: true}), 401, wire.CodeCredentialUnknown},
		{"without the scope", update(access.KeyChange{Grants: []keys.Grant{grantOf("write", ours)}}), 403, wire.CodeScopeMissing},
		{"without the account", update(access.KeyChange{Grants: []keys.Grant{grantOf("read", "theirs")}}), 403, wire.CodeAccountForbidden},
	} {
		key := l.signer(t, n)
		query := l.link(t, key, link.Read, ours, "a")
		l.want(t, 200, "GET", path+query, "")
		testenv.OK(t, test.change(key.id))
		_, body := l.refused(t, test.status, test.code, "GET", path+query, "")
		if test.name == "another secret" && !strings.Contains(body, "The signature of the link does not match") {
			t.Errorf("%s: %s", test.name, body)
		}
	}
	l.refused(t, 401, wire.CodeCredentialUnknown, "GET", path+l.link(t, signing{id: strings.Repeat("a", 16), secret: key.secret}, link.Read, ours, "a"), "")
	plain := testenv.Must(access.Create(t.Context(), l.meta, n))(t)
	l.refused(t, 401, wire.CodeCredentialUnknown, "GET", path+l.link(t, signing{id: plain.Key.ID, secret: key.secret}, link.Read, ours, "a"), "")
}

// TestLinksAreCheckedAfterTheBody replaces a key's S3 secret while the body of a request by a link
// is on its way. Nothing is stored.
func TestLinksAreCheckedAfterTheBody(t *testing.T) {
	l := newLinking(t, access.ReadsKey)
	key := l.signer(t, access.NewKey{Scopes: scopeWrite})
	none := credential{"none", []string{"X-Request-Id", "r"}}
	for _, test := range []struct {
		change access.KeyChange
		status int
	}{{access.KeyChange{S3: l.box}, 401}, {access.KeyChange{Grants: []keys.Grant{grantOf("read")}}, 403}} {
		key.secret = testenv.Must(access.Update(t.Context(), l.meta, key.id, access.KeyChange{S3: l.box, Grants: []keys.Grant{grantOf("write")}}))(t).S3Secret
		path := "/v1/blobs/" + ours + "/new"
		res, body := l.slowRequest(t, "PUT", path+l.link(t, key, link.Create, ours, "new"), strings.Repeat("x", 64<<10), none, func() {
			testenv.OK(t, testenv.Error(access.Update(t.Context(), l.meta, key.id, test.change)))
		})
		if res.StatusCode != test.status {
			t.Errorf("%d %s, want %d", res.StatusCode, body, test.status)
		}
		testenv.Is(t, testenv.Error(l.meta.Blob(t.Context(), ours, "new")), database.ErrNotFound, "the blob")
	}
}

// TestLinksCountForTheirGroup: a request by a link has the limits of its key's group, and counts
// against them together with the requests that send a key of that group.
func TestLinksCountForTheirGroup(t *testing.T) {
	l := newLinking(t, access.ReadsKey)
	path := l.store(t, "a")
	n := access.NewKey{Scopes: scopeRead, Group: "team", Limits: keys.Limits{RequestsPerSecond: 77, ConcurrentRequests: 1}}
	key := l.signer(t, n)
	n.Limits = keys.Limits{}
	query := l.link(t, l.signer(t, n), link.Read, ours, "a")
	res, _ := l.want(t, 200, "GET", path+query, "")
	if policy := res.Header.Get("RateLimit-Policy"); !strings.Contains(policy, "77") {
		t.Errorf("RateLimit-Policy is %q, and not the group's", policy)
	}
	conn := dial(t, l.addr)
	conn.send(t, "POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nX-Api-Key: "+key.credential+"\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n")
	conn.receive(t) // it waits for the body
	l.refused(t, 429, wire.CodeTooManyAtOnce, "GET", path+query, "")
	conn.send(t, "{}")
	conn.receive(t)
	l.want(t, 200, "GET", path+query, "")
}

// TestLinkOfAKeyThatMustPay: with paid reads, a link from a key without read reads nothing for
// free.
func TestLinkOfAKeyThatMustPay(t *testing.T) {
	l := newLinking(t, access.ReadsPaid)
	path := l.store(t, "a")
	key := l.signer(t, access.NewKey{Scopes: scopeWrite})
	l.refused(t, 402, wire.CodePaymentRequired, "GET", path+l.link(t, key, link.Read, ours, "a"), "")
}

// TestLinksOnALocalInstance: it has no keys, so it ignores a link like every credential.
func TestLinksOnALocalInstance(t *testing.T) {
	s := newService(t, nil)
	query := "?" + link.Parameter + "=nonsense"
	s.want(t, 204, "PUT", "/v1/blobs/ours/a"+query, "x")
	s.want(t, 204, "PUT", "/v1/blobs/ours/a"+query, "y")
	s.want(t, 200, "GET", "/v1/blobs/ours/a"+query, "")
}

// TestLinksAreNotLogged: the log names the key, and has nothing with which a link can be used.
func TestLinksAreNotLogged(t *testing.T) {
	l := newLinking(t, access.ReadsKey)
	key := l.signer(t, access.NewKey{Scopes: scopeRead})
	query := l.link(t, key, link.Read, ours, "a")
	l.want(t, 200, "GET", l.store(t, "a")+query, "")
	l.refused(t, 401, wire.CodeCredentialUnknown, "GET", l.store(t, "b")+query, "")
	log := l.logged()
	if strings.Contains(log, query[len(query)-20:]) || strings.Contains(log, key.secret) || !strings.Contains(log, "key="+key.id) {
		t.Errorf("the log is\n%s", log)
	}
}
