package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"sluice/access"
	"sluice/access/keys"
	"sluice/database"
	"sluice/test/testenv"
	"sluice/wire"
)

// slowRequest sends a request's headers, waits until the service reads the body, calls meanwhile
// and sends the body.
func (s *service) slowRequest(t *testing.T, method, path, body string, c credential, meanwhile func()) (*http.Response, string) {
	t.Helper()
	conn := dial(t, s.addr)
	conn.send(t, fmt.Sprintf("%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\nExpect: 100-continue\r\n%s: %s\r\n\r\n",
		method, path, len(body), c.headers[0], c.headers[1]))
	if interim, _ := conn.receive(t); interim.StatusCode != http.StatusContinue {
		t.Fatalf("the service does not read the body: %v", interim)
	}
	meanwhile()
	conn.send(t, body)
	return conn.receive(t)
}

// TestKeysAreCheckedAfterTheBody changes a request's key while its body is on its way. The request
// must then be refused like a new one, with no effect; a change of another key must not affect it.
// Invariant 35.
func TestKeysAreCheckedAfterTheBody(t *testing.T) {
	h := newHosted(t, access.ReadsPublic, access.ScopeWrite)
	ctx := context.Background()
	all := access.NewKey{Scopes: []access.Scope{access.ScopeRead, access.ScopeWrite, access.ScopeChannels}, Accounts: []string{ours, payer}, Group: "team"}
	update := func(c access.KeyChange) func(*testing.T, string) {
		return func(t *testing.T, id string) {
			testenv.OK(t, testenv.Error(access.Update(ctx, h.meta, id, c)))
		}
	}
	past, elsewhere := time.Now().Add(-time.Minute), keys.Grant{Scopes: []string{"read", "write", "channels"}, Accounts: []string{"theirs"}}
	changes := []struct {
		name   string
		change func(t *testing.T, id string)
		status int // 0: the request succeeds
		code   wire.Code
	}{
		{"another key was made", func(t *testing.T, _ string) { h.key(t, all) }, 0, ""},
		{"revoked", func(t *testing.T, id string) {
			testenv.OK(t, testenv.Error(h.meta.RevokeKey(ctx, id, nil)))
		}, 401, wire.CodeCredentialUnknown},
		{"expired", update(access.KeyChange{Expires: &past}), 401, wire.CodeCredentialUnknown},
		{"without the scope", update(access.KeyChange{Grants: []keys.Grant{grantOf("read", ours, payer)}}), 403, wire.CodeScopeMissing},
		{"without the account", update(access.KeyChange{Grants: []keys.Grant{elsewhere}}), 403, wire.CodeAccountForbidden},
	}
	large := strings.Repeat("x", 64<<10) // an object in the byte store
	for i, change := range changes {
		name := fmt.Sprint("blob-", i)
		// The key is made by each case, because the one before has changed its own.
		for _, one := range []struct {
			name, method, body string
			want               int
			path               func(key string) string
			untouched          func(t *testing.T) bool
		}{
			{"PUT", "PUT", large, 204, func(string) string { return "/v1/blobs/ours/" + name }, func(t *testing.T) bool { return !h.has(t, name) }},
			{"inline PUT", "PUT", "small", 204, func(string) string { return "/v1/blobs/ours/small-" + name }, func(t *testing.T) bool { return !h.has(t, "small-"+name) }},
			{"part", "PUT", large, 200, func(key string) string {
				return h.beginAs(t, key, "part-"+name) + "/parts/0"
			}, func(t *testing.T) bool { return h.partsOf(t, "part-"+name) == 0 }},
			{"begin", "POST", `{"rawAccount": "ours", "rawBlobName": "begun-` + name + `"}`, 200, func(string) string { return "/v1/multipart-uploads" }, func(t *testing.T) bool { return h.upload(t, "begun-"+name) == "" }},
			{"complete", "POST", `{"totalBytes": 0}`, 200, func(key string) string {
				return h.beginAs(t, key, "complete-"+name) + "/complete"
			}, func(t *testing.T) bool { return !h.has(t, "complete-"+name) }},
			{"DELETE", "DELETE", "ignored", 204, func(key string) string {
				path := "/v1/blobs/ours/deleted-" + name
				h.want(t, 204, "PUT", path, "x", "Authorization", "Bearer "+key)
				return path
			}, func(t *testing.T) bool { return h.has(t, "deleted-"+name) }},
			{"copy", "POST", `{"copyTo": {"blobName": "copy-` + name + `"}}`, 200, func(key string) string {
				path := "/v1/blobs/ours/source-" + name
				h.want(t, 204, "PUT", path, "x", "Authorization", "Bearer "+key)
				return path
			}, func(t *testing.T) bool { return !h.has(t, "copy-"+name) }},
			{"copy of a version", "POST", `{"copyTo": {"blobName": "versioned-` + name + `"}}`, 200, func(key string) string {
				h.want(t, 204, "PUT", "/v1/blobs/ours/source-"+name, "x", "Authorization", "Bearer "+key)
				return h.version(t, "source-"+name)
			}, func(t *testing.T) bool { return !h.has(t, "versioned-"+name) }},
			{"move", "POST", `{"moveTo": {"blobName": "moved-` + name + `"}}`, 200, func(key string) string {
				path := "/v1/blobs/ours/source-" + name
				h.want(t, 204, "PUT", path, "x", "Authorization", "Bearer "+key)
				return path
			}, func(t *testing.T) bool { return h.has(t, "source-"+name) && !h.has(t, "moved-"+name) }},
			{"open channel", "POST", fmt.Sprintf(`{"userIdentity": %q, "paymentChannelId": "%d"}`, payer, 100+i), 201, func(string) string { return "/v1/sessions/micropaymentchannels" }, nil},
		} {
			t.Run(change.name+"/"+one.name, func(t *testing.T) {
				key, secret := h.key(t, all)
				path := one.path(secret)
				before := objectsIn(t, h.bytes)
				res, text := h.slowRequest(t, one.method, path, one.body, withBearer("", secret), func() { change.change(t, key.ID) })
				if change.status == 0 {
					if res.StatusCode != one.want {
						t.Errorf("%d %s, want %d", res.StatusCode, text, one.want)
					}
					return
				}
				wantProblem(t, res, text, change.status, change.code)
				if one.untouched != nil && !one.untouched(t) {
					t.Error("the refused request had an effect")
				}
				if after := objectsIn(t, h.bytes); after != before {
					t.Errorf("the refused request left %d objects", after-before)
				}
			})
		}
	}
}

// has reports whether there is a blob of ours.
func (h *hosted) has(t *testing.T, name string) bool {
	t.Helper()
	_, err := h.meta.Blob(context.Background(), ours, name)
	if err != nil && !errors.Is(err, database.ErrNotFound) {
		t.Fatal(err)
	}
	return err == nil
}

// beginAs begins an upload with a key and returns its path.
func (h *hosted) beginAs(t *testing.T, key, name string) string {
	t.Helper()
	return h.newUpload(t, ours, name, "", "Authorization", "Bearer "+key)
}

// upload returns the id of a blob's open upload, or "".
func (h *hosted) upload(t *testing.T, name string) string {
	t.Helper()
	list, _, err := h.meta.ListUploads(context.Background(), ours, "", 1000, 0)
	testenv.OK(t, err)
	for _, u := range list {
		if u.Name == name {
			return u.ID
		}
	}
	return ""
}

func (h *hosted) partsOf(t *testing.T, name string) int {
	t.Helper()
	parts := testenv.Must(h.meta.Parts(context.Background(), h.upload(t, name), -1, 10))(t)
	return len(parts)
}

// TestWriteInDoubtStaysInDoubt revokes a key while its request is being committed. The commit
// decides the outcome, which remains unknown if the commit's is.
// Invariant 35.
func TestWriteInDoubtStaysInDoubt(t *testing.T) {
	m := &failingMeta{}
	h := newHostedOver(t, m.around, access.ReadsPublic, access.ScopeWrite)
	key, secret := h.key(t, access.NewKey{Scopes: []access.Scope{access.ScopeWrite}})
	m.fail(database.ErrUnknownOutcome)
	m.committing = func() { testenv.Check(t, testenv.Error(h.meta.RevokeKey(t.Context(), key.ID, nil))) }
	h.refused(t, 503, wire.CodeOutcomeUnknown, "PUT", "/v1/blobs/ours/name", "x", "Authorization", "Bearer "+secret)
	if !h.has(t, "name") {
		t.Error("the write was committed and is not there")
	}
}
