package s3api

import (
	"context"
	"encoding/json"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/access"
	"sluice/access/keys"
	"sluice/access/places"
	"sluice/test/testenv"
)

// publicPolicy lets everybody read the bucket BUCKET below photos/ and list it there, as MinIO's
// client sets it.
const publicPolicy = `{"Version":"2012-10-17","Statement":[
{"Effect":"Allow","Principal":{"AWS":["*"]},"Action":["s3:GetBucketLocation"],"Resource":["arn:aws:s3:::BUCKET"]},
{"Effect":"Allow","Principal":{"AWS":["*"]},"Action":["s3:ListBucket"],"Resource":["arn:aws:s3:::BUCKET"],"Condition":{"StringEquals":{"s3:prefix":["photos/"]}}},
{"Sid":"r","Effect":"Allow","Principal":{"AWS":["*"]},"Action":["s3:GetObject"],"Resource":["arn:aws:s3:::BUCKET/photos/*"]}]}`

// opening is a hosted service with the bucket ours, which may open itself.
type opening struct {
	*hosted
	admin, writer, nobody signerOf
}

func startOpening(t *testing.T) opening {
	h := startHosted(t, access.ReadsKey, nil)
	o := opening{hosted: h}
	o.admin = h.key(t, access.NewKey{Scopes: []access.Scope{access.ScopeAdmin}, Accounts: []string{"ours"}})
	o.writer = h.key(t, access.NewKey{Scopes: []access.Scope{access.ScopeRead, access.ScopeWrite}, Accounts: []string{"ours"}})
	for _, name := range []string{"photos/a", "b"} {
		o.wants(t, o.writer, 200, "PUT", "/ours/"+name, "x")
	}
	return o
}

// wants sends a request by a key.
func (o opening) wants(t *testing.T, by signerOf, status int, method, path, body string, fields ...string) response {
	t.Helper()
	res := send(t, by.sign(o.request(t, method, path, body, fields...)))
	testenv.Equal(t, res.StatusCode, status, "%s %s: %.300s", method, path, res.body)
	return res
}

// TestBucketPolicy: a policy gives exactly its permissions, as far as the operator permits, and
// shows those that were given otherwise. Invariant 197.
func TestBucketPolicy(t *testing.T) {
	o := startOpening(t)
	policy := strings.ReplaceAll(publicPolicy, "BUCKET", "ours")
	opened := func(object, other, list, whole int) {
		t.Helper()
		o.wants(t, o.nobody, object, "GET", "/ours/photos/a", "")
		o.wants(t, o.nobody, other, "GET", "/ours/b", "")
		o.wants(t, o.nobody, list, "GET", "/ours?list-type=2&prefix=photos/", "")
		o.wants(t, o.nobody, whole, "GET", "/ours?list-type=2", "")
	}
	same := func(want string) {
		t.Helper()
		var a, b any
		testenv.OK(t, json.Unmarshal([]byte(o.wants(t, o.writer, 200, "GET", "/ours?policy", "").body), &a))
		testenv.OK(t, json.Unmarshal([]byte(want), &b))
		testenv.Equal(t, reflect.DeepEqual(a, b), true, "the policy is %v, want %v", a, b)
	}
	opened(403, 403, 403, 403)
	// The operator does not permit it yet.
	wantError(t, o.wants(t, o.admin, 403, "PUT", "/ours?policy", policy), 403, "AccessDenied")
	opened(403, 403, 403, 403)
	o.set(t, "", false, places.Settings{MayOpen: true})
	wantError(t, o.wants(t, o.writer, 403, "PUT", "/ours?policy", policy), 403, "AccessDenied")
	wantError(t, o.wants(t, o.admin, 404, "GET", "/ours?policy", ""), 404, "NoSuchBucketPolicy")
	wantError(t, o.wants(t, o.admin, 404, "GET", "/ours?policyStatus", ""), 404, "NoSuchBucketPolicy")

	o.wants(t, o.admin, 204, "PUT", "/ours?policy", policy)
	opened(200, 403, 200, 403)
	same(policy)
	testenv.Equal(t, strings.Contains(o.wants(t, o.writer, 200, "GET", "/ours?policyStatus", "").body, "<IsPublic>true</IsPublic>"), true, "it is public")

	for text, code := range map[string]string{
		"{": "MalformedPolicy", strings.ReplaceAll(publicPolicy, "BUCKET", "other"): "MalformedPolicy",
		strings.Replace(policy, "s3:GetObject", "s3:PutObject", 1): "NotImplemented", strings.Replace(policy, "Allow", "Deny", 1): "NotImplemented",
	} {
		status := map[string]int{"MalformedPolicy": 400, "NotImplemented": 501}[code]
		wantError(t, o.wants(t, o.admin, status, "PUT", "/ours?policy", text), status, code)
	}
	opened(200, 403, 200, 403)

	// Another policy closes names that it does not have.
	one := `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":"*","Action":"s3:GetObject","Resource":["arn:aws:s3:::ours/b"]}]}`
	o.wants(t, o.admin, 204, "PUT", "/ours?policy", one)
	opened(403, 200, 403, 403)
	same(one)

	// A policy that is kept and has no effect is refused.
	o.set(t, "", false, places.Settings{})
	opened(403, 403, 403, 403)
	if got := o.wants(t, o.admin, 403, "PUT", "/ours?policy", one); !strings.Contains(got.body, "--may-open") {
		t.Errorf("the refusal does not name the remedy: %s", got.body)
	}
	o.set(t, "", false, places.Settings{MayOpen: true})
	opened(403, 200, 403, 403)

	// Settings that were made otherwise are in the policy.
	o.set(t, "b", true, places.Settings{})
	o.set(t, "photos/", false, places.Settings{Reads: "public"})
	same(strings.Replace(one, "ours/b", "ours/photos/*", 1))
	opened(200, 403, 403, 403)

	wantError(t, o.wants(t, o.writer, 403, "DELETE", "/ours?policy", ""), 403, "AccessDenied")
	o.wants(t, o.admin, 204, "DELETE", "/ours?policy", "")
	o.wants(t, o.writer, 204, "DELETE", "/ours?policy", "") // there is nothing to close
	opened(403, 403, 403, 403)
	var names []string
	for _, a := range testenv.Must(o.database.ListActions(t.Context(), "", 100))(t) {
		if a.Key != "" {
			names = append(names, a.Name+" "+a.Subject)
		}
	}
	testenv.Equal(t, strings.Join(names, ", "), "place.reopen ours, place.reopen ours, place.reopen ours", "each policy is recorded")
}

// TestPublicList: with the canned list public-read everybody may list a bucket, and with private
// nobody.
func TestPublicList(t *testing.T) {
	o := startOpening(t)
	wantError(t, o.wants(t, o.admin, 403, "PUT", "/ours?acl", "", "X-Amz-Acl", "public-read"), 403, "AccessDenied")
	o.set(t, "", false, places.Settings{MayOpen: true})
	wantError(t, o.wants(t, o.writer, 403, "PUT", "/ours?acl", "", "X-Amz-Acl", "public-read"), 403, "AccessDenied")
	o.wants(t, o.writer, 200, "PUT", "/ours?acl", "", "X-Amz-Acl", "private")
	o.wants(t, o.admin, 200, "PUT", "/ours?acl", "", "X-Amz-Acl", "public-read")
	o.wants(t, o.nobody, 200, "GET", "/ours?list-type=2", "")
	o.wants(t, o.nobody, 403, "GET", "/ours/b", "")
	testenv.Equal(t, strings.Contains(o.wants(t, o.writer, 200, "GET", "/ours?acl", "").body, "AllUsers"), true, "the list names everybody")
	wantError(t, o.wants(t, o.writer, 400, "PUT", "/ours/b", "x", "X-Amz-Acl", "public-read"), 400, "AccessControlListNotSupported")
	o.wants(t, o.admin, 200, "PUT", "/ours?acl", "", "X-Amz-Acl", "private")
	o.wants(t, o.nobody, 403, "GET", "/ours?list-type=2", "")
	o.wants(t, o.admin, 200, "PUT", "/ours", "", "X-Amz-Acl", "public-read")
	o.wants(t, o.nobody, 200, "GET", "/ours?list-type=2", "")
}

// TestPublicAccessBlock: it refuses to open a bucket, and takes the effect from settings that open
// it.
func TestPublicAccessBlock(t *testing.T) {
	o := startOpening(t)
	o.set(t, "", false, places.Settings{MayOpen: true})
	policy := strings.ReplaceAll(publicPolicy, "BUCKET", "ours")
	block := func(members ...string) {
		t.Helper()
		body := "<PublicAccessBlockConfiguration>"
		for _, m := range members {
			body += "<" + m + ">true</" + m + ">"
		}
		o.wants(t, o.admin, 200, "PUT", "/ours?publicAccessBlock", body+"</PublicAccessBlockConfiguration>")
		got := o.wants(t, o.writer, 200, "GET", "/ours?publicAccessBlock", "").body
		testenv.Equal(t, strings.Count(got, ">true<"), len(members), "members of %s", got)
	}
	wantError(t, o.wants(t, o.writer, 404, "GET", "/ours?publicAccessBlock", ""), 404, "NoSuchPublicAccessBlockConfiguration")
	wantError(t, o.wants(t, o.writer, 403, "PUT", "/ours?publicAccessBlock", "<PublicAccessBlockConfiguration/>"), 403, "AccessDenied")
	wantError(t, o.wants(t, o.admin, 400, "PUT", "/ours?publicAccessBlock", "<PublicAccessBlockConfiguration><Other/></PublicAccessBlockConfiguration>"), 400, "MalformedXML")
	o.wants(t, o.admin, 204, "PUT", "/ours?policy", policy)
	o.wants(t, o.nobody, 200, "GET", "/ours/photos/a", "")
	for _, ignores := range []string{"RestrictPublicBuckets", "IgnorePublicAcls"} {
		block(ignores)
		o.wants(t, o.nobody, 403, "GET", "/ours/photos/a", "")
		o.wants(t, o.nobody, 403, "GET", "/ours?list-type=2&prefix=photos/", "")
	}
	block("BlockPublicPolicy", "BlockPublicAcls")
	o.wants(t, o.nobody, 200, "GET", "/ours/photos/a", "")
	for _, opens := range []string{policy, strings.Replace(policy, "photos/*", "*", 1)} { // also what is open already
		wantError(t, o.wants(t, o.admin, 403, "PUT", "/ours?policy", opens), 403, "AccessDenied")
	}
	o.set(t, "", false, places.Settings{MayOpen: true, Guard: places.RefuseLists, Lists: "public"})
	wantError(t, o.wants(t, o.admin, 403, "PUT", "/ours?acl", "", "X-Amz-Acl", "public-read"), 403, "AccessDenied")
	wantError(t, o.wants(t, o.writer, 403, "DELETE", "/ours?publicAccessBlock", ""), 403, "AccessDenied")
	o.wants(t, o.admin, 204, "DELETE", "/ours?publicAccessBlock", "")
	o.wants(t, o.writer, 204, "DELETE", "/ours?publicAccessBlock", "")
	o.wants(t, o.admin, 204, "PUT", "/ours?policy", strings.Replace(policy, "photos/*", "*", 1))
	o.wants(t, o.nobody, 200, "GET", "/ours/b", "")
	var states []string
	for _, a := range testenv.Must(o.database.ListActions(t.Context(), "", 100))(t) {
		if a.Name == "place.guard" {
			states = append(states, string(a.Before), string(a.After))
		}
	}
	if all := strings.Join(states, " "); len(states) != 8 || !strings.Contains(all, `"restrictPublicBuckets":true`) || strings.Count(all, `"blockPublicPolicy":true`) != 1 {
		t.Errorf("the protections are recorded as %q", states)
	}
}

// TestPublicAccessBlockOfAPublicInstance: where everybody reads, it closes the bucket, too.
func TestPublicAccessBlockOfAPublicInstance(t *testing.T) {
	h := startHosted(t, access.ReadsPublic, nil)
	o := opening{hosted: h, admin: h.key(t, access.NewKey{Scopes: []access.Scope{access.ScopeAdmin}, Accounts: []string{"ours"}})}
	o.wants(t, o.admin, 200, "PUT", "/ours/photos/a", "x")
	opened := func(status int) {
		t.Helper()
		for _, path := range []string{"/ours/photos/a", "/ours?list-type=2&prefix=photos/", "/ours?list-type=2"} {
			o.wants(t, o.nobody, status, "GET", path, "")
		}
		o.wants(t, o.admin, 200, "GET", "/ours/photos/a", "")
	}
	opened(200)
	for _, ignores := range []string{"RestrictPublicBuckets", "IgnorePublicAcls"} {
		o.wants(t, o.admin, 200, "PUT", "/ours?publicAccessBlock", "<PublicAccessBlockConfiguration><"+ignores+">true</"+ignores+"></PublicAccessBlockConfiguration>")
		opened(403)
		o.wants(t, o.admin, 204, "PUT", "/ours?policy", strings.ReplaceAll(publicPolicy, "BUCKET", "ours"))
		opened(403)
		o.wants(t, o.admin, 204, "DELETE", "/ours?policy", "")
	}
	o.wants(t, o.admin, 200, "PUT", "/ours?publicAccessBlock", "<PublicAccessBlockConfiguration><BlockPublicPolicy>true</BlockPublicPolicy><BlockPublicAcls>true</BlockPublicAcls></PublicAccessBlockConfiguration>")
	opened(200)
	wantError(t, o.wants(t, o.admin, 403, "PUT", "/ours?policy", strings.ReplaceAll(publicPolicy, "BUCKET", "ours")), 403, "AccessDenied")
	wantError(t, o.wants(t, o.admin, 403, "PUT", "/ours?acl", "", "X-Amz-Acl", "public-read"), 403, "AccessDenied")
}

// TestPolicyNamesAreHidden: a key for some names does not see which others a policy opens.
func TestPolicyNamesAreHidden(t *testing.T) {
	o := startOpening(t)
	o.set(t, "", false, places.Settings{MayOpen: true})
	o.wants(t, o.admin, 204, "PUT", "/ours?policy", strings.ReplaceAll(publicPolicy, "BUCKET", "ours"))
	limited := o.key(t, access.NewKey{Scopes: []access.Scope{access.ScopeRead, access.ScopeWrite}, Accounts: []string{"ours"}, Prefix: "b"})
	wantError(t, o.wants(t, limited, 403, "GET", "/ours?policy", ""), 403, "AccessDenied")
	o.wants(t, limited, 200, "GET", "/ours?policyStatus", "")
}

// TestPolicyOfAFullGroup: who may read can be changed when the group's quota is used up.
func TestPolicyOfAFullGroup(t *testing.T) {
	o := startOpening(t)
	o.set(t, "", false, places.Settings{MayOpen: true})
	full := o.key(t, access.NewKey{Scopes: []access.Scope{access.ScopeAdmin}, Accounts: []string{"ours"}, Group: "full", Limits: keys.Limits{StoredBytes: 1}})
	o.wants(t, full, 204, "PUT", "/ours?policy", strings.ReplaceAll(publicPolicy, "BUCKET", "ours"))
	o.wants(t, o.nobody, 200, "GET", "/ours/photos/a", "")
	testenv.Equal(t, strings.Contains(o.wants(t, full, 200, "GET", "/ours?policy", "").body, "photos/*"), true, "the policy has other words")
	o.wants(t, full, 204, "DELETE", "/ours?policy", "")
	o.wants(t, o.nobody, 403, "GET", "/ours/photos/a", "")
}

// lookedAt is a store of places that reports the first query's end.
type lookedAt struct {
	places.Store
	once  sync.Once
	ended chan struct{}
}

// PlaceChanges implements places.Store.
func (l *lookedAt) PlaceChanges(ctx context.Context, since places.Version) (places.Changes, error) {
	defer l.once.Do(func() { close(l.ended) })
	return l.Store.PlaceChanges(ctx, since)
}

// TestPolicyHoldsAtOnce: a node that opens or closes a bucket does not wait for its next look at
// the settings, and returns the policy as it was put. Invariant 197.
func TestPolicyHoldsAtOnce(t *testing.T) {
	h := startHosted(t, access.ReadsKey, nil)
	h.set(t, "", false, places.Settings{MayOpen: true})
	store := &lookedAt{Store: h.database, ended: make(chan struct{})}
	h.places = access.NewPlaces(store, access.ReadsKey, time.Hour)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { h.places.Run(ctx, func(err error) { t.Error(err) }) })
	defer running.Wait()
	defer stop()
	<-store.ended
	testenv.OK(t, h.places.Renew(ctx)) // the first look has had its effect
	o := opening{hosted: h, admin: h.key(t, access.NewKey{Scopes: []access.Scope{access.ScopeAdmin}, Accounts: []string{"ours"}})}
	o.wants(t, o.admin, 200, "PUT", "/ours/photos/a", "x")
	policy := strings.ReplaceAll(strings.ReplaceAll(publicPolicy, "BUCKET", "ours"), "\n", " ")
	o.wants(t, o.admin, 204, "PUT", "/ours?policy", policy)
	o.wants(t, o.nobody, 200, "GET", "/ours/photos/a", "")
	testenv.Equal(t, o.wants(t, o.admin, 200, "GET", "/ours?policy", "").body, policy, "the policy")
	o.wants(t, o.admin, 200, "PUT", "/ours?publicAccessBlock", "<PublicAccessBlockConfiguration><RestrictPublicBuckets>true</RestrictPublicBuckets></PublicAccessBlockConfiguration>")
	o.wants(t, o.nobody, 403, "GET", "/ours/photos/a", "")
	o.wants(t, o.admin, 204, "DELETE", "/ours?publicAccessBlock", "")
	o.wants(t, o.nobody, 200, "GET", "/ours/photos/a", "")
	o.wants(t, o.admin, 204, "DELETE", "/ours?policy", "")
	o.wants(t, o.nobody, 403, "GET", "/ours/photos/a", "")
}
