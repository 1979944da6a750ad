package httpapi

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"sluice/access"
	"sluice/bytestore"
	"sluice/database"
	"sluice/database/whole"
	"sluice/internal/testenv"
	"sluice/metastore"
	"sluice/wire"
)

// slowRequest sends a request's headers, waits until the service reads the body, calls meanwhile
// and sends the body.
func (s *service) slowRequest(t *testing.T, method, path, body string, c credential, meanwhile func()) (*http.Response, string) {
	t.Helper()
	conn, err := net.Dial("tcp", s.addr)
	testenv.OK(t, err)
	defer closeOrFail(t, conn)
	send(t, conn, fmt.Sprintf("%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\nExpect: 100-continue\r\n%s: %s\r\n\r\n",
		method, path, len(body), c.headers[0], c.headers[1]))
	replies := bufio.NewReader(conn)
	interim, err := http.ReadResponse(replies, nil)
	if err != nil || interim.StatusCode != http.StatusContinue {
		t.Fatalf("the service does not read the body: %v, %v", interim, err)
	}
	meanwhile()
	send(t, conn, body)
	res, err := http.ReadResponse(replies, nil)
	testenv.OK(t, err)
	text, err := io.ReadAll(res.Body)
	testenv.OK(t, errors.Join(err, res.Body.Close()))
	return res, string(text)
}

// TestKeysAreCheckedAfterTheBody changes a request's key while its body is on its way. The request
// must then be refused like a new one, with no effect; a change of another key must not affect it.
func TestKeysAreCheckedAfterTheBody(t *testing.T) {
	h := newHosted(t, ReadsPublic, access.ScopeWrite)
	ctx := context.Background()
	all := access.NewKey{Scopes: []access.Scope{access.ScopeRead, access.ScopeWrite, access.ScopeChannels}, Accounts: []string{ours, payer}, Group: "team"}
	update := func(c access.KeyChange) func(*testing.T, string) {
		return func(t *testing.T, id string) {
			if _, err := access.Update(ctx, h.meta, id, c); err != nil {
				t.Fatal(err)
			}
		}
	}
	past, elsewhere := time.Now().Add(-time.Minute), []string{"theirs"}
	changes := []struct {
		name   string
		change func(t *testing.T, id string)
		status int // 0: the request succeeds
		code   wire.Code
	}{
		{"another key was made", func(t *testing.T, _ string) { h.key(t, all) }, 0, ""},
		{"revoked", func(t *testing.T, id string) {
			if _, err := h.meta.RevokeKey(ctx, id); err != nil {
				t.Fatal(err)
			}
		}, 401, wire.CodeCredentialUnknown},
		{"expired", update(access.KeyChange{Expires: &past}), 401, wire.CodeCredentialUnknown},
		{"without the scope", update(access.KeyChange{Scopes: []access.Scope{access.ScopeRead}}), 403, wire.CodeScopeMissing},
		{"without the account", update(access.KeyChange{Accounts: &elsewhere}), 403, wire.CodeAccountForbidden},
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
				return "/v1/multipart-uploads/" + h.beginAs(t, key, "part-"+name) + "/parts/0"
			}, func(t *testing.T) bool { return h.partsOf(t, "part-"+name) == 0 }},
			{"begin", "POST", `{"rawAccount": "ours", "rawBlobName": "begun-` + name + `"}`, 200, func(string) string { return "/v1/multipart-uploads" }, func(t *testing.T) bool { return h.upload(t, "begun-"+name) == "" }},
			{"complete", "POST", `{"totalBytes": 0}`, 200, func(key string) string {
				return "/v1/multipart-uploads/" + h.beginAs(t, key, "complete-"+name) + "/complete"
			}, func(t *testing.T) bool { return !h.has(t, "complete-"+name) }},
			{"DELETE", "DELETE", "ignored", 204, func(key string) string {
				path := "/v1/blobs/ours/deleted-" + name
				h.as(t, key, "PUT", path, "x", 204)
				return path
			}, func(t *testing.T) bool { return h.has(t, "deleted-"+name) }},
			{"open channel", "POST", fmt.Sprintf(`{"userIdentity": %q, "paymentChannelId": "%d"}`, payer, 100+i), 201, func(string) string { return "/v1/sessions/micropaymentchannels" }, nil},
		} {
			t.Run(change.name+"/"+one.name, func(t *testing.T) {
				key, secret := h.key(t, all)
				path := one.path(secret)
				before := h.objects(t)
				res, text := h.slowRequest(t, one.method, path, one.body, bearer("", secret), func() { change.change(t, key.ID) })
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
				if after := h.objects(t); after != before {
					t.Errorf("the refused request left %d objects", after-before)
				}
			})
		}
	}
}

// as sends a request with a key.
func (h *hosted) as(t *testing.T, key, method, path, body string, want int) string {
	t.Helper()
	res, text := h.do(t, method, path, body, "Authorization", "Bearer "+key)
	if res.StatusCode != want {
		t.Fatalf("%s %s: %d %s", method, path, res.StatusCode, text)
	}
	return text
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

// beginAs begins an upload and returns its id.
func (h *hosted) beginAs(t *testing.T, key, name string) string {
	t.Helper()
	h.as(t, key, "POST", "/v1/multipart-uploads", fmt.Sprintf(`{"rawAccount": "ours", "rawBlobName": %q}`, name), 200)
	return h.upload(t, name)
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
	parts, err := h.meta.Parts(context.Background(), h.upload(t, name), -1, 10)
	testenv.OK(t, err)
	return len(parts)
}

// objects returns the number of objects in the byte store.
func (h *hosted) objects(t *testing.T) int {
	t.Helper()
	n := 0
	err := h.bytes.List(context.Background(), "", func(bytestore.Object) error { n++; return nil })
	testenv.OK(t, err)
	return n
}

// TestWriteInDoubtStaysInDoubt revokes a key while its request is being committed. The commit
// decides the outcome, which remains unknown if the commit's is.
func TestWriteInDoubtStaysInDoubt(t *testing.T) {
	var during func()
	h := newHostedOver(t, func(m whole.Database) whole.Database { return &revokedAtCommit{m, &during} }, ReadsPublic, access.ScopeWrite)
	key, secret := h.key(t, access.NewKey{Scopes: []access.Scope{access.ScopeWrite}})
	during = func() {
		if _, err := h.meta.RevokeKey(context.Background(), key.ID); err != nil {
			t.Error(err)
		}
	}
	res, text := h.do(t, "PUT", "/v1/blobs/ours/name", "x", "Authorization", "Bearer "+secret)
	wantProblem(t, res, text, 503, wire.CodeOutcomeUnknown)
	if !h.has(t, "name") {
		t.Error("the write was committed and is not there")
	}
}

// revokedAtCommit is a store. Its commits succeed and are not acknowledged. It calls during before
// each.
type revokedAtCommit struct {
	whole.Database
	during *func()
}

func (r *revokedAtCommit) CommitBlob(ctx context.Context, b metastore.Blob, extents []metastore.Extent, p metastore.Precondition) (metastore.Blob, error) {
	(*r.during)()
	stored, err := r.Database.CommitBlob(ctx, b, extents, p)
	return stored, errors.Join(err, database.ErrUnknownOutcome)
}
