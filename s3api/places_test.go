package s3api

import (
	"net/http"
	"strings"
	"testing"

	"sluice/access"
	"sluice/access/actions"
	"sluice/access/places"
	"sluice/access/places/placestest"
	"sluice/test/testenv"
)

// set sets a place in the account ours.
func (s *service) set(t testing.TB, name string, exact bool, to places.Settings) {
	t.Helper()
	testenv.OK(t, testenv.Error(placestest.Change(t.Context(), s.database, places.Place{Account: "ours", Name: name, Exact: exact}, func(now *places.Settings, _ places.Settings) (*actions.Act, error) {
		*now = to
		return nil, nil
	})))
}

// TestPlaces sends each read by each kind of caller, on every kind of instance and with every
// setting. A bucket's own settings and lists of all objects belong to those who may list.
// Invariant 197.
func TestPlaces(t *testing.T) {
	for _, instance := range []access.Reads{access.ReadsPublic, access.ReadsKey, access.ReadsPaid} {
		h := startHosted(t, instance, nil)
		key := func(scope access.Scope, account string) signerOf {
			return h.key(t, access.NewKey{Scopes: []access.Scope{scope}, Accounts: []string{account}})
		}
		reader, writer, stranger := key(access.ScopeRead, "ours"), key(access.ScopeWrite, "ours"), key(access.ScopeRead, "other")
		for _, name := range []string{"dir/a", "dir/"} {
			testenv.Equal(t, send(t, writer.sign(h.request(t, "PUT", "/ours/"+name, ""))).StatusCode, 200, "a PUT")
		}
		for _, setting := range []access.Reads{"", "instance", "public", "key", "free"} {
			lists := setting
			if lists == "free" {
				lists = ""
			}
			for _, mayOpen := range []bool{true, false} {
				h.set(t, "", false, places.Settings{MayOpen: mayOpen})
				h.set(t, "dir/", false, places.Settings{Reads: string(setting), Lists: string(lists)})
				reads, list := instance, instance.Lists()
				if setting != "" && setting != "instance" && (mayOpen || !setting.Opener(instance)) {
					reads = setting
				}
				if lists != "" && lists != "instance" && (mayOpen || !lists.Opener(instance.Lists())) {
					list = lists
				}
				whole := instance.Lists()
				if list == access.ReadsKey {
					whole = list
				}
				for _, request := range []struct {
					method, path string
					public       bool
				}{
					{"GET", "/ours/dir/a", reads.Everybody()},
					{"HEAD", "/ours/dir/a", reads.Everybody()},
					{"GET", "/ours/dir%2Fa?versionId=null", reads.Everybody()},
					{"GET", "/ours/dir/?partNumber=1", reads.Everybody()},
					{"GET", "/ours/dir/a?tagging", reads.Everybody()},
					{"GET", "/ours/dir/a?acl", reads.Everybody()},
					{"GET", "/ours?list-type=2&prefix=dir/", list == access.ReadsPublic},
					{"GET", "/ours?prefix=dir%2Fa", list == access.ReadsPublic},
					{"GET", "/ours?versions&prefix=dir/", list == access.ReadsPublic},
					{"GET", "/ours?list-type=2&prefix=di", whole == access.ReadsPublic},
					{"GET", "/ours?list-type=2", whole == access.ReadsPublic},
					{"HEAD", "/ours", whole == access.ReadsPublic},
					{"HEAD", "/ours?prefix=dir/", whole == access.ReadsPublic},
					{"GET", "/ours?location", whole == access.ReadsPublic},
				} {
					for _, caller := range []struct {
						name    string
						signer  signerOf
						allowed bool
					}{{"nobody", signerOf{}, request.public}, {"a reader", reader, true}, {"a writer", writer, request.public}, {"a stranger", stranger, request.public}} {
						res := send(t, caller.signer.sign(h.request(t, request.method, request.path, "")))
						if want := map[bool]int{true: 200, false: 403}[caller.allowed]; res.StatusCode/100 != want/100 {
							t.Errorf("%s %s by %s on %s, %q, may open %t: %d %s", request.method, request.path, caller.name, instance, setting, mayOpen, res.StatusCode, res.body)
						}
						cache := res.Header.Get("Cache-Control")
						if strings.HasSuffix(request.path, "dir/a") && res.StatusCode == 200 && (cache == "private, no-cache") != (reads != access.ReadsPublic) {
							t.Errorf("reads are %s, and Cache-Control is %q", reads, cache)
						}
					}
				}
			}
		}
	}
}

// TestBlockedObjects: every read and every copy of a blocked object is refused with the reason to
// who may read it, and its key remains blocked when it is replaced.
// Invariant 198.
func TestBlockedObjects(t *testing.T) {
	h := startHosted(t, access.ReadsKey, nil)
	owner := h.key(t, access.NewKey{Scopes: []access.Scope{access.ScopeAdmin}, Group: "g"})
	ask := func(method, path, body string, fields ...string) response {
		return send(t, owner.sign(h.request(t, method, path, body, fields...)))
	}
	testenv.Equal(t, ask("PUT", "/ours/a", "x").StatusCode, 200, "the first PUT")
	for _, place := range []places.Place{{}, {Name: "a"}, {Name: "a", Exact: true}} {
		h.set(t, place.Name, place.Exact, places.Settings{Blocked: &places.Block{Reason: "order 7"}})
		for _, path := range []string{"/ours/a", "/ours/a?tagging", "/ours/a?acl", "/ours/a?attributes", "/ours/a?versionId=null", "/ours/a?partNumber=1"} {
			res := ask("GET", path, "", "X-Amz-Object-Attributes", "ETag")
			wantError(t, res, http.StatusUnavailableForLegalReasons, "AllAccessDisabled")
			testenv.Equal(t, res.Header.Get("Link"), `</>; rel="blocked-by"`, "Link")
			if !strings.Contains(res.body, "order 7") || res.Header.Get("ETag") != "" {
				t.Errorf("%s: %v %s", path, res.Header, res.body)
			}
		}
		testenv.Equal(t, ask("HEAD", "/ours/a", "").StatusCode, 451, "HEAD")
		testenv.Equal(t, ask("GET", "/ours/a", "", "If-None-Match", "*").StatusCode, 451, "a conditional GET")
		wantError(t, send(t, h.request(t, "GET", "/ours/a", "")), 403, "AccessDenied")
		for _, path := range []string{"/ours/b", "/ours/a", "/other/a", "/ours/a?partNumber=1&uploadId=" + h.upload(t, owner)} {
			wantError(t, ask("PUT", path, "", "X-Amz-Copy-Source", "/ours/a", "X-Amz-Metadata-Directive", "REPLACE"), 451, "AllAccessDisabled")
		}
		if res := ask("GET", "/ours", ""); !strings.Contains(res.body, "<Key>a</Key>") {
			t.Errorf("the list is %s", res.body)
		}
		testenv.Equal(t, ask("PUT", "/ours/a", "y").StatusCode, 200, "a PUT over a blocked object")
		testenv.Equal(t, ask("GET", "/ours/a", "").StatusCode, 451, "GET after a PUT")
		h.set(t, place.Name, place.Exact, places.Settings{})
		testenv.Equal(t, ask("GET", "/ours/a", "").StatusCode, 200, "GET when it is unblocked")
	}
}

// TestS3CopiesToMoreReaders: a copy to where more callers may read needs admin for the source.
// Invariant 198.
func TestS3CopiesToMoreReaders(t *testing.T) {
	h := startHosted(t, access.ReadsKey, nil)
	scopes := []access.Scope{access.ScopeRead, access.ScopeWrite}
	writer, admin := h.key(t, access.NewKey{Scopes: scopes}), h.key(t, access.NewKey{Scopes: []access.Scope{access.ScopeAdmin}})
	testenv.Equal(t, send(t, writer.sign(h.request(t, "PUT", "/ours/a", "x"))).StatusCode, 200, "the first PUT")
	h.set(t, "", false, places.Settings{MayOpen: true})
	h.set(t, "public/", false, places.Settings{Reads: "public"})
	copied := func(by signerOf, to, from string) int {
		return send(t, by.sign(h.request(t, "PUT", to, "", "X-Amz-Copy-Source", from))).StatusCode
	}
	testenv.Equal(t, copied(writer, "/ours/b", "/ours/a"), 200, "a copy to as many readers")
	testenv.Equal(t, copied(writer, "/ours/public/a", "/ours/a"), 403, "a copy to more readers")
	testenv.Equal(t, copied(admin, "/ours/public/a", "/ours/a"), 200, "the same by an administrator")
	testenv.Equal(t, copied(writer, "/ours/c", "/ours/public/a"), 200, "a copy to fewer readers")
	res := send(t, writer.sign(h.request(t, "PUT", "/ours/b", "x", "X-Amz-Acl", "public-read")))
	wantError(t, res, 400, "AccessControlListNotSupported")
	res = send(t, writer.sign(h.request(t, "PUT", "/ours/public/b", "x", "X-Amz-Acl", "public-read")))
	testenv.Equal(t, res.StatusCode, 200, "public-read in a public place")
}
