package httpapi

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/access"
	"sluice/access/actions"
	"sluice/access/keys"
	"sluice/metastore"
	"sluice/test/testenv"
	"sluice/wire"
)

// TestKeysThatCreate tries every way to change a blob with keys that may only create: what is new
// is stored, and nothing that exists is replaced, moved or deleted.
// Invariant 192.
func TestKeysThatCreate(t *testing.T) {
	const full = wire.CodeScopeMissing
	h := newHosted(t, access.ReadsPublic, access.ScopeWrite)
	key := func(group string, accounts ...string) []string {
		_, secret := h.key(t, access.NewKey{Scopes: []access.Scope{access.ScopeCreate}, Accounts: accounts, Group: group})
		return keyHeader(secret)
	}
	creator := key("backup", ours)
	old, etag := h.store(t, ours, "old", "old")
	parted := func(name string, by []string) string {
		path := h.newUpload(t, ours, name, "", by...)
		h.want(t, 200, "PUT", path+"/parts/0", "new", by...)
		return path
	}
	theirs := parted("of another group", h.right.headers)
	u := testenv.Must(h.meta.BeginUpload(t.Context(), metastore.Upload{ID: "an-upload-that-was-begun-locally", Account: ours, Name: "n", Content: metastore.NewContentID(time.Now()), PartSize: 1 << 20}))(t)
	nobodys := "/v1/multipart-uploads/" + u.ID
	for _, test := range []struct {
		name, method, path, body string
		status                   int
		code                     wire.Code
	}{
		{"a new blob", "PUT", "/v1/blobs/ours/new", "new", 204, ""},
		{"the same again", "PUT", "/v1/blobs/ours/new", "new", 403, full},
		{"an old blob", "PUT", old, "new", 403, full},
		{"another account", "PUT", "/v1/blobs/theirs/new", "new", 403, wire.CodeAccountForbidden},
		{"a deletion", "DELETE", old, "", 403, full},
		{"a copy", "POST", old, `{"copyTo": {"blobName": "copy"}}`, 200, ""},
		{"a copy over a blob", "POST", "/v1/blobs/ours/new", `{"copyTo": {"blobName": "old"}}`, 403, full},
		{"a copy onto itself", "POST", old, `{"copyTo": {"blobName": "old"}, "replaceMetadata": true}`, 403, full},
		{"a copy to another account", "POST", old, `{"copyTo": {"account": "theirs", "blobName": "copy"}}`, 403, wire.CodeAccountForbidden},
		{"a move", "POST", old, `{"moveTo": {"blobName": "moved"}}`, 403, full},
		{"the list of uploads", "GET", "/v1/multipart-uploads?account=ours", "", 403, full},
		{"another group's upload", "GET", theirs, "", 403, ""},
		{"the end of another group's upload", "DELETE", theirs, "", 403, ""},
		{"the completion of another group's upload", "POST", theirs + "/complete", "{}", 403, ""},
		{"a part of another group's upload", "PUT", theirs + "/parts/0", "x", 403, ""},
		{"a part of an upload of nobody", "PUT", nobodys + "/parts/0", "x", 403, ""},
		{"the end of an upload of nobody", "DELETE", nobodys, "", 403, ""},
		{"an upload", "GET", parted("a", creator), "", 200, ""},
		{"the end of an upload", "DELETE", parted("a", creator), "", 204, ""},
		{"the completion of an upload", "POST", parted("uploaded", creator) + "/complete", "{}", 200, ""},
		{"a completion over a blob", "POST", parted("old", creator) + "/complete", "{}", 403, full},
		{"a channel", "POST", "/v1/sessions/micropaymentchannels", "{}", 403, full},
		{"all accounts", "GET", "/v1/accounts", "", 403, full},
	} {
		res, body := h.do(t, test.method, test.path, test.body, creator...)
		if res.StatusCode != test.status || test.code != "" && decodedAs[wire.Problem](t, body).Code != string(test.code) {
			t.Errorf("%s: %d %s, want %d %s", test.name, res.StatusCode, body, test.status, test.code)
		}
	}
	h.refused(t, 412, wire.CodePreconditionFailed, "PUT", old, "new", append(creator, "If-None-Match", "*")...)
	// A key that may not read learns nothing about a blob from its tag.
	held, of := h.store(t, ours, "held", "held")
	for _, condition := range []string{of, `"other"`} {
		h.refused(t, 412, wire.CodePreconditionFailed, "PUT", held, "new", append(creator, "If-Match", condition)...)
		h.refused(t, 403, full, "PUT", held, "new", append(creator, "If-None-Match", condition)...)
	}
	done := parted("twice", creator)
	for range 2 { // a reply can be lost
		h.want(t, 200, "POST", done+"/complete", "{}", creator...)
	}
	if res, body := h.want(t, 200, "GET", old, ""); body != "old" || res.Header.Get("ETag") != etag {
		t.Errorf("the old blob is %q", body)
	}
	h.refused(t, 403, wire.CodeAccountForbidden, "PUT", "/v1/blobs/ours/newer", "x", key("backup", "theirs")...)
}

// TestCreatorsSpareVersions: by no kind of write does a key that may only create remove a version,
// neither the oldest of as many as the account keeps nor the only one that is not versioned. A key
// with write may.
// Invariant 192.
func TestCreatorsSpareVersions(t *testing.T) {
	h := newHosted(t, access.ReadsPublic, access.ScopeWrite)
	set := func(state metastore.KeepState) {
		testenv.Must(h.meta.SetKeeping(t.Context(), ours, func(k *metastore.Keeping) (*actions.Act, error) {
			k.State, k.Most = state, 1
			return nil, nil
		}))(t)
	}
	_, secret := h.key(t, access.NewKey{Scopes: []access.Scope{access.ScopeCreate}, Accounts: []string{ours}})
	creator, other := keyHeader(secret), func() string { path, _ := h.store(t, ours, "other", "other"); return path }()
	const expires = "2099-01-01T00:00:00Z"
	for _, state := range []metastore.KeepState{metastore.KeepOn, metastore.KeepOff} {
		h.want(t, 204, "PUT", "/v1/blobs/ours/n", "kept", h.right.headers...)
		set(metastore.KeepOn)
		h.want(t, 204, "DELETE", "/v1/blobs/ours/n", "", h.right.headers...)
		set(state)
		upload := h.newUpload(t, ours, "n", fmt.Sprintf(`, "expires": %q`, expires), creator...)
		by := func(check func(method, path, body string, header ...string)) {
			check("PUT", "/v1/blobs/ours/n", "new", append(creator, "Blob-Expires", expires)...)
			check("POST", other, fmt.Sprintf(`{"copyTo": {"blobName": "n"}, "expires": %q}`, expires), creator...)
			check("POST", upload+"/complete", "{}", creator...)
		}
		by(func(method, path, body string, header ...string) {
			h.refused(t, 403, wire.CodeScopeMissing, method, path, body, header...)
		})
		h.want(t, 204, "PUT", "/v1/blobs/ours/n", "new", append(h.right.headers, "Blob-Expires", expires, "If-None-Match", "*")...)
		set(metastore.KeepOff)
	}
}

// TestCreatorsRace checks that one of several keys that may only create creates a blob.
// Invariant 192.
func TestCreatorsRace(t *testing.T) {
	h := newHosted(t, access.ReadsPublic, access.ScopeWrite)
	for round := range 20 {
		var stored atomic.Int64
		var wait sync.WaitGroup
		for i := range 4 {
			_, secret := h.key(t, access.NewKey{Scopes: []access.Scope{access.ScopeCreate}})
			wait.Go(func() {
				res, _, err := h.try(t, "PUT", fmt.Sprint("/v1/blobs/ours/", round), fmt.Sprint(i), keyHeader(secret)...)
				if err == nil && res.StatusCode == 204 {
					stored.Add(1)
				}
			})
		}
		wait.Wait()
		testenv.Equal(t, stored.Load(), 1, "blobs stored in round %d", round)
	}
}

// TestKeyIsNarrowedMeanwhile checks that a slow PUT which would replace a blob is refused if its
// key has lost the scope write meanwhile, although it may still create.
// Invariant 192.
func TestKeyIsNarrowedMeanwhile(t *testing.T) {
	h := newHosted(t, access.ReadsPublic, access.ScopeWrite)
	old, _ := h.store(t, ours, "old", "old")
	stored, secret := h.key(t, access.NewKey{Scopes: []access.Scope{access.ScopeWrite}})
	res, _ := h.slowRequest(t, "PUT", old, "new", withBearer("narrowed", secret), func() {
		testenv.Must(access.Update(t.Context(), h.meta, stored.ID, access.KeyChange{Grants: []keys.Grant{grantOf("create")}}))(t)
	})
	testenv.Equal(t, res.StatusCode, 403, "status")
	if _, body := h.want(t, 200, "GET", old, ""); body != "old" {
		t.Errorf("the old blob is %q", body)
	}
}
