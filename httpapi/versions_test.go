package httpapi

import (
	"fmt"
	"strings"
	"testing"

	"sluice/access"
	"sluice/access/actions"
	"sluice/access/keys"
	"sluice/access/places"
	"sluice/metastore"
	"sluice/test/testenv"
	"sluice/wire"
	"sluice/wire/link"
)

// keep lets an account keep versions.
func (s *service) keep(t testing.TB, account string) { s.keepWith(t, account, false) }

// lockable lets an account keep versions with locks.
func (s *service) lockable(t testing.TB, account string) { s.keepWith(t, account, true) }

func (s *service) keepWith(t testing.TB, account string, locks bool) {
	t.Helper()
	testenv.OK(t, testenv.Error(s.meta.SetKeeping(t.Context(), account, func(k *metastore.Keeping) (*actions.Act, error) {
		k.State, k.Locks = metastore.KeepOn, locks
		return nil, nil
	})))
}

// version returns the path to a blob's current version.
func (s *service) version(t testing.TB, name string) string {
	t.Helper()
	b := testenv.Must(s.meta.Blob(t.Context(), ours, name))(t)
	return "/v1/versions/" + ours + "/" + metastore.VersionOf(&b).String() + "/" + name
}

// TestVersionsAreForKeys reads and lists versions, current ones too, as every caller, at places
// with every setting. Only a key with read may, and no shared cache may keep the response.
// Invariant 207.
func TestVersionsAreForKeys(t *testing.T) {
	for _, instance := range kindsOfReads {
		l := newLinking(t, instance, func(c *Config) { c.PublicCacheControl = "public, max-age=60" })
		l.keep(t, ours)
		l.store(t, "a/b")
		kept := l.version(t, "a/b")
		l.store(t, "a/b")
		current, list := l.version(t, "a/b"), "/v1/versions/"+ours+"?prefix=a/"
		readers := l.readers(t)
		for _, setting := range []string{"", "public", "key", "free"} {
			for _, block := range []*places.Block{nil, {Reason: "order 7"}} {
				l.set(t, ours, "", false, places.Settings{MayOpen: true})
				l.set(t, ours, "a/", false, places.Settings{Reads: setting, Lists: strings.ReplaceAll(setting, "free", "public"), Blocked: block})
				for who, by := range readers {
					for _, path := range []string{kept, current, list} {
						for _, method := range []string{"GET", "HEAD"} {
							asked, header := by(path, "a/b", path == list)
							res, body := l.do(t, method, asked, "", header...)
							status, code := 200, ""
							switch {
							case who == "nobody":
								status, code = 401, "credential_required"
							case strings.HasSuffix(who, "link"):
								status, code = 403, "link_forbidden"
							case who == "writer":
								status, code = 403, "scope_missing"
							case who == "other":
								status, code = 403, "account_forbidden"
							case block != nil && path != list:
								status, code = 451, "blocked"
							}
							if res.StatusCode != status || res.Header.Get("Error-Code") != code {
								t.Errorf("%s %s, %s at %q by %s: %d %s; want %d %s", method, path, instance, setting, who, res.StatusCode, body, status, code)
							}
							if status == 200 && path != list && (!strings.HasPrefix(res.Header.Get("Cache-Control"), "private, no-") || !strings.Contains(strings.Join(res.Header.Values("Vary"), ","), "Authorization")) {
								t.Errorf("%s of a version, %s at %q: %v", method, instance, setting, res.Header)
							}
							if res.Header.Get("Chunksets-Charged") != "" {
								t.Error("a key with read paid for a version")
							}
						}
					}
				}
			}
		}
	}
}

// TestBlockedVersions: a blocked place's versions are neither restored nor copied; they can be
// deleted, which ends no block.
func TestBlockedVersions(t *testing.T) {
	l := newLinking(t, access.ReadsPublic)
	l.keep(t, ours)
	owner := keyHeader(l.signer(t, access.NewKey{Scopes: []access.Scope{access.ScopeAdmin}}).credential)
	path := l.store(t, "a/b")
	first := l.version(t, "a/b")
	l.store(t, "a/b")
	second := l.version(t, "a/b")
	l.set(t, ours, "a/", false, places.Settings{Blocked: &places.Block{Reason: "order 7"}})
	for _, to := range []string{"a/b", "elsewhere"} {
		l.refused(t, 451, wire.CodeBlocked, "POST", first, fmt.Sprintf(`{"copyTo": {"blobName": %q}}`, to), owner...)
	}
	l.want(t, 204, "DELETE", second, "", owner...)
	l.refused(t, 451, wire.CodeBlocked, "GET", path, "", owner...)
	l.set(t, ours, "a/", false, places.Settings{})
	_, body := l.want(t, 200, "GET", path, "", owner...)
	testenv.Equal(t, body, "a/b", "the blob")
	testenv.Equal(t, l.version(t, "a/b"), first, "its version")
}

// TestVersionsAreNoParameters names a version by a parameter: no blob is returned or changed.
func TestVersionsAreNoParameters(t *testing.T) {
	s := newService(t, nil)
	path := "/v1/blobs/ours/a"
	s.want(t, 204, "PUT", path, "bytes")
	for _, parameter := range []string{"version=1", "a=b&versionId=", "%76ersion=1"} {
		for _, method := range []string{"GET", "HEAD", "PUT", "POST", "DELETE"} {
			if method == "HEAD" {
				s.want(t, 400, method, path+"?"+parameter, "")
				continue
			}
			s.refused(t, 400, wire.CodeBadParameter, method, path+"?"+parameter, "other")
		}
	}
	_, body := s.want(t, 200, "GET", path+"?v=1", "")
	testenv.Equal(t, body, "bytes", "the blob afterwards")
}

// TestRestoresDiscloseNothing: a key with write restores where it may not read. It gets neither the
// ETag nor the description, and copies the version nowhere else, also where everybody may read. A
// key that may only create restores nothing, also if the blob was deleted.
// Invariant 207.
func TestRestoresDiscloseNothing(t *testing.T) {
	for _, reads := range kindsOfReads {
		h := newHosted(t, reads, access.ScopeWrite)
		h.keep(t, ours)
		path, _ := h.store(t, ours, "a", "first", "Blob-Meta-A", "b")
		first := h.version(t, "a")
		h.store(t, ours, "a", "second")
		_, secret := h.key(t, access.NewKey{Scopes: scopeWrite, Accounts: []string{ours}})
		h.refused(t, 403, wire.CodeScopeMissing, "GET", first, "", keyHeader(secret)...)
		h.refused(t, 403, wire.CodeScopeMissing, "DELETE", first, "", keyHeader(secret)...)
		h.refused(t, 403, wire.CodeScopeMissing, "POST", first, `{"copyTo": {"blobName": "b"}}`, keyHeader(secret)...)
		res, body := h.want(t, 200, "POST", first, `{"copyTo": {"blobName": "a"}}`, keyHeader(secret)...)
		if shown := strings.Contains(body, `"etag"`); shown != (reads == access.ReadsPublic) || strings.Contains(body, `"metadata"`) != (reads != access.ReadsKey) {
			t.Errorf("reads %s: the response to a restore is %s", reads, body)
		}
		testenv.Equal(t, "/v1/versions/ours/"+res.Header.Get(wire.HeaderBlobVersion)+"/a", h.version(t, "a"), "the restored version")
		b := testenv.Must(h.meta.Blob(t.Context(), ours, "a"))(t)
		testenv.Equal(t, b.Size, 5, "the size of %s", path)
		h.want(t, 204, "DELETE", path, "", keyHeader(secret)...)
		_, secret = h.key(t, access.NewKey{Scopes: []access.Scope{access.ScopeRead, access.ScopeCreate}, Accounts: []string{ours}})
		h.refused(t, 403, wire.CodeScopeMissing, "POST", first, `{"copyTo": {"blobName": "a"}}`, keyHeader(secret)...)
	}
}

// TestMarksAreForKeys reads a deleted blob as every caller: those who may read its versions learn
// the mark. In an account without versions nobody learns one.
// Invariant 207.
func TestMarksAreForKeys(t *testing.T) {
	for _, reads := range kindsOfReads {
		l := newLinking(t, reads)
		l.keep(t, ours)
		owner := keyHeader(l.signer(t, access.NewKey{Scopes: []access.Scope{access.ScopeAdmin}}).credential)
		path := l.store(t, "a/b")
		res, _ := l.want(t, 204, "DELETE", path, "", owner...)
		mark := res.Header.Get(wire.HeaderBlobVersion)
		for who, by := range l.readers(t) {
			for _, method := range []string{"GET", "HEAD"} {
				asked, header := by(path, "a/b", false)
				res, _ := l.do(t, method, asked, "", header...)
				want := ""
				if who == "reader" {
					want = "404 true " + mark
				}
				got := fmt.Sprint(res.StatusCode, " ", res.Header.Get(wire.HeaderBlobDeleted), " ", res.Header.Get(wire.HeaderBlobVersion))
				if shown := res.Header.Get(wire.HeaderBlobDeleted) + res.Header.Get(wire.HeaderBlobVersion); shown != "" && got != want || want != "" && got != want {
					t.Errorf("%s of a deleted blob, reads %s, by %s: %s, want %s", method, reads, who, got, want)
				}
			}
		}
		res, _ = l.do(t, "GET", "/v1/blobs/"+ours+"2/a/b", "", owner...)
		testenv.Equal(t, res.Header.Get(wire.HeaderBlobDeleted), "", "the mark in an account without versions")
	}
}

// TestLinksAreForNoVersions: a link permits nothing with versions, and a link to create restores
// no blob that was deleted.
func TestLinksAreForNoVersions(t *testing.T) {
	l := newLinking(t, access.ReadsPublic)
	l.keep(t, ours)
	key := l.signer(t, access.NewKey{Scopes: []access.Scope{access.ScopeAdmin}})
	l.store(t, "a")
	at := l.version(t, "a")
	for _, verb := range []link.Verb{link.Read, link.Create} {
		for method, body := range map[string]string{"GET": "", "POST": `{"copyTo": {"blobName": "a"}}`, "DELETE": ""} {
			l.refused(t, 403, wire.CodeLinkForbidden, method, at+l.link(t, key, verb, ours, "a"), body)
		}
	}
	l.want(t, 200, "GET", at, "", keyHeader(key.credential)...)
}

// TestVersionsOfALocalInstanceArePaid: where no caller has a key, a version costs as its blob does,
// and its checksums are withheld like those.
func TestVersionsOfALocalInstanceArePaid(t *testing.T) {
	s := newService(t, func(c *Config) { c.Reads = access.ReadsPaid })
	s.keep(t, ours)
	s.want(t, 204, "PUT", "/v1/blobs/ours/a", "first")
	first := s.version(t, "a")
	s.want(t, 204, "PUT", "/v1/blobs/ours/a", "second")
	session := testenv.Must(s.sessions.Grant(t.Context(), "", nil))(t).ID
	s.refused(t, 402, wire.CodePaymentRequired, "GET", first, "")
	res, body := s.want(t, 200, "GET", first, "", wire.HeaderSessionID, session)
	if body != "first" || res.Header.Get(wire.HeaderChunksetsCharged) != "1" || res.Header.Get("Cache-Control") != notCached {
		t.Errorf("%q, %v", body, res.Header)
	}
	res, _ = s.want(t, 200, "HEAD", first, "")
	_, list := s.want(t, 200, "GET", "/v1/versions/ours", "")
	if res.Header.Get("ETag") != "" || strings.Contains(list, `"etag"`) {
		t.Errorf("a small version's ETag is shown: %v %s", res.Header, list)
	}
}

// TestRestoresCountToTheQuota: a kept version counts to its owner's quota, and so do a restore and
// a move that keeps one, which without room change nothing. A deletion is not refused for its
// mark, and deleted versions count no more.
func TestRestoresCountToTheQuota(t *testing.T) {
	h := newHosted(t, access.ReadsPublic, access.ScopeWrite)
	h.keep(t, ours)
	_, auth := h.limited(t, access.ScopeAdmin, keys.Limits{StoredBytes: 8 << 10})
	h.want(t, 204, "PUT", "/v1/blobs/ours/a", strings.Repeat("x", 5<<10), auth...)
	first := h.version(t, "a")
	res, _ := h.want(t, 204, "DELETE", "/v1/blobs/ours/a", "", auth...)
	const restore = `{"copyTo": {"blobName": "a"}}`
	h.refused(t, 403, wire.CodeQuotaExceeded, "POST", first, restore, auth...)
	h.refused(t, 404, wire.CodeBlobNotFound, "GET", "/v1/blobs/ours/a", "", auth...)
	h.want(t, 204, "DELETE", "/v1/versions/ours/"+res.Header.Get(wire.HeaderBlobVersion)+"/a", "", auth...)
	h.want(t, 200, "GET", "/v1/blobs/ours/a", "", auth...)
	h.want(t, 204, "DELETE", first, "", auth...)
	h.want(t, 204, "PUT", "/v1/blobs/ours/b", strings.Repeat("x", 5<<10), auth...)
	const move = `{"moveTo": {"blobName": "c"}}`
	h.refused(t, 403, wire.CodeQuotaExceeded, "POST", "/v1/blobs/ours/b", move, auth...)
}

// TestVersionsRecordWho: a list names the key of each write, restore and deletion, and pages of
// other origins may read the headers.
func TestVersionsRecordWho(t *testing.T) {
	h := newHosted(t, access.ReadsPublic, access.ScopeWrite)
	h.keep(t, ours)
	var want []string
	by := func() []string {
		key, secret := h.key(t, access.NewKey{Scopes: []access.Scope{access.ScopeAdmin}})
		want = append([]string{key.ID}, want...)
		return append(keyHeader(secret), "Origin", "https://elsewhere.example")
	}
	h.want(t, 204, "PUT", "/v1/blobs/ours/a", "first", by()...)
	first := h.version(t, "a")
	h.want(t, 200, "POST", h.newUpload(t, ours, "a", "", by()...)+"/complete", "", h.right.headers...)
	h.want(t, 200, "POST", first, `{"copyTo": {"blobName": "a"}}`, by()...)
	h.want(t, 204, "DELETE", "/v1/blobs/ours/a", "", by()...)
	recorded := len(want)
	res, body := h.want(t, 200, "GET", "/v1/versions/ours?prefix=a", "", by()...)
	var got []string
	for _, v := range decodedAs[wire.VersionPage](t, body).Versions {
		got = append(got, v.By)
	}
	testenv.Equal(t, fmt.Sprint(got), fmt.Sprint(want[len(want)-recorded:]), "who wrote the versions")
	for _, name := range []string{wire.HeaderBlobVersion, wire.HeaderBlobDeleted} {
		if !strings.Contains(res.Header.Get("Access-Control-Expose-Headers"), name) {
			t.Errorf("%s is not exposed", name)
		}
	}
}
