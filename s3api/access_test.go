package s3api

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/minio/minio-go/v7/pkg/signer"

	"sluice/access"
	"sluice/access/places"
	"sluice/access/sealed"
	"sluice/blob"
	"sluice/bytestore/memory"
	"sluice/database/sqlstore"
	"sluice/exchange"
	"sluice/metastore"
	"sluice/s3api/internal/document"
	"sluice/test/testenv"
)

// hosted is a service that requires keys.
type hosted struct {
	*service
	box *sealed.Box
}

// startHosted starts a service with these reads.
func startHosted(t *testing.T, reads access.Reads, config func(*Config)) *hosted {
	t.Helper()
	box := testenv.Must(sealed.Parse([]byte(strings.Repeat("01", 32))))(t)
	h := &hosted{box: box}
	database := openDatabase(t)
	keys := access.NewAuthenticator(database, access.AuthenticatorOptions{S3: box})
	h.service = start(t, setup{
		database: database,
		config: func(c *Config) {
			c.Keys, c.Reads = keys, reads
			if config != nil {
				config(c)
			}
		},
		exchange: func(c *exchange.Config) {
			c.Keys, c.Limiter = keys, access.NewLimiter(access.LimiterOptions{Usage: database})
			c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
		},
	})
	return h
}

// signerOf is who signs requests; without an id it signs nothing.
type signerOf struct{ id, secret string }

// key creates a key with an S3 secret.
func (h *hosted) key(t *testing.T, n access.NewKey) signerOf {
	t.Helper()
	n.S3 = h.box
	issued := testenv.Must(access.Create(t.Context(), h.database, n))(t)
	return signerOf{issued.Key.ID, issued.S3Secret}
}

// request returns a request. fields are names, each with its value.
func (h *hosted) request(t *testing.T, method, path, body string, fields ...string) *http.Request {
	t.Helper()
	r := testenv.Must(http.NewRequestWithContext(t.Context(), method, h.url+path, strings.NewReader(body)))(t)
	for i := 0; i < len(fields); i += 2 {
		r.Header.Set(fields[i], fields[i+1])
	}
	return r
}

// sign signs a request with the signer of another client.
func (s signerOf) sign(r *http.Request) *http.Request {
	if s.id == "" {
		return r
	}
	if r.Header.Get("X-Amz-Content-Sha256") == "" {
		r.Header.Set("X-Amz-Content-Sha256", "UNSIGNED-PAYLOAD")
	}
	return signer.SignV4(*r, s.id, s.secret, "", "us-east-1")
}

// sample is a request for an operation.
type sample struct {
	path, body string
	fields     []string
}

// samples have a request for each operation. UPLOAD stands for an open upload.
var samples = map[string]sample{
	"ListBuckets":                     {path: "/"},
	"HeadBucket":                      {path: "/ours"},
	"PutBucketAcl":                    {path: "/ours?acl", fields: []string{"X-Amz-Acl", "private"}},
	"CreateBucket":                    {path: "/ours"},
	"DeleteBucket":                    {path: "/ours"},
	"GetBucketLocation":               {path: "/ours?location"},
	"GetBucketVersioning":             {path: "/ours?versioning"},
	"PutBucketVersioning":             {path: "/ours?versioning", body: "<VersioningConfiguration/>"},
	"PutObjectLockConfiguration":      {path: "/ours?object-lock", body: "<ObjectLockConfiguration/>"},
	"GetBucketLifecycleConfiguration": {path: "/ours?lifecycle"},
	"PutBucketLifecycleConfiguration": {path: "/ours?lifecycle", body: "<LifecycleConfiguration/>"},
	"GetObjectRetention":              {path: "/ours/a?retention"},
	"GetObjectLegalHold":              {path: "/ours/a?legal-hold"},
	"PutObjectRetention":              {path: "/ours/a?retention", body: "<Retention/>"},
	"PutObjectLegalHold":              {path: "/ours/a?legal-hold", body: noLegalHold},
	"GetBucketAcl":                    {path: "/ours?acl"},
	"ListMultipartUploads":            {path: "/ours?uploads"},
	"ListObjectsV2":                   {path: "/ours?list-type=2"},
	"ListObjects":                     {path: "/ours"},
	"DeleteObjects":                   {path: "/ours?delete", body: "<Delete><Object><Key>none</Key></Object></Delete>"},
	"GetObjectAcl":                    {path: "/ours/a?acl"},
	"GetBucketTagging":                {path: "/ours?tagging"},
	"PutBucketTagging":                {path: "/ours?tagging", body: "<Tagging><TagSet/></Tagging>"},
	"DeleteBucketTagging":             {path: "/ours?tagging"},
	"PutBucketPolicy":                 {path: "/ours?policy", body: strings.ReplaceAll(publicPolicy, "BUCKET", "ours")},
	"PutPublicAccessBlock":            {path: "/ours?publicAccessBlock", body: "<PublicAccessBlockConfiguration/>"},
	"GetBucketCors":                   {path: "/ours?cors"},
	"PutBucketCors":                   {path: "/ours?cors", body: corsRules},
	"DeleteBucketCors":                {path: "/ours?cors"},
	"GetObjectTagging":                {path: "/ours/a?tagging"},
	"PutObjectTagging":                {path: "/ours/a?tagging", body: "<Tagging><TagSet/></Tagging>"},
	"DeleteObjectTagging":             {path: "/ours/a?tagging"},
	"GetObjectAttributes":             {path: "/ours/a?attributes", fields: []string{"X-Amz-Object-Attributes", "ETag"}},
	"ListParts":                       {path: "/ours/a?uploadId=UPLOAD"},
	"GetObject":                       {path: "/ours/a"},
	"HeadObject":                      {path: "/ours/a"},
	"PutObjectAcl":                    {path: "/ours/a?acl", fields: []string{"X-Amz-Acl", "private"}},
	"UploadPartCopy":                  {path: "/ours/a?uploadId=UPLOAD&partNumber=1", fields: []string{"X-Amz-Copy-Source", "see TestAccessToASource"}},
	"CopyObject":                      {path: "/ours/b", fields: []string{"X-Amz-Copy-Source", "see TestAccessToASource"}},
	"UploadPart":                      {path: "/ours/a?uploadId=UPLOAD&partNumber=1", body: "x"},
	"PutObject":                       {path: "/ours/b", body: "x"},
	"AbortMultipartUpload":            {path: "/ours/a?uploadId=UPLOAD"},
	"DeleteObject":                    {path: "/ours/none"},
	"CreateMultipartUpload":           {path: "/ours/a?uploads"},
	"CompleteMultipartUpload":         {path: "/ours/a?uploadId=UPLOAD", body: "<CompleteMultipartUpload/>"},
}

// TestAccess sends each operation by each kind of caller, with each kind of reads.
// Invariant 187.
func TestAccess(t *testing.T) {
	for _, reads := range []access.Reads{access.ReadsPublic, access.ReadsKey, access.ReadsPaid} {
		t.Run(string(reads), func(t *testing.T) {
			t.Parallel()
			h := startHosted(t, reads, nil)
			h.set(t, "", false, places.Settings{MayOpen: true})
			ours, other := []string{"ours"}, []string{"other"}
			read, write := []access.Scope{access.ScopeRead}, []access.Scope{access.ScopeWrite}
			reader, writer := h.key(t, access.NewKey{Scopes: read, Accounts: ours, Group: "g"}), h.key(t, access.NewKey{Scopes: write, Accounts: ours, Group: "g"})
			admin := h.key(t, access.NewKey{Scopes: []access.Scope{access.ScopeAdmin}, Group: "g"})
			stranger := h.key(t, access.NewKey{Scopes: []access.Scope{access.ScopeRead, access.ScopeWrite}, Accounts: other})
			revoked := h.key(t, access.NewKey{Scopes: []access.Scope{access.ScopeAdmin}})
			testenv.Must(h.database.RevokeKey(t.Context(), revoked.id, nil))(t)
			expired := h.key(t, access.NewKey{Scopes: []access.Scope{access.ScopeAdmin}, Expires: time.Now().Add(-time.Second)})
			testenv.Equal(t, send(t, writer.sign(h.request(t, "PUT", "/ours/a", "x"))).StatusCode, 200, "the first PUT")
			for _, r := range routes {
				o := r.operation
				if o.name == "PostObject" { // see TestSignedForms
					continue
				}
				s, ok := samples[o.name]
				if !ok && r.level == bucketLevel { // a question
					s, ok = sample{path: "/ours?" + r.parameter}, r.parameter != ""
				}
				if !ok {
					t.Fatalf("there is no request for %s", o.name)
				}
				public := o.scope == access.ScopeRead && reads == access.ReadsPublic
				for _, caller := range []struct {
					name   string
					signer signerOf
					denied string
				}{
					{"nobody", signerOf{}, deniedUnless(public)},
					{"a reader", reader, deniedUnless(public || o.scope == "" || o.scope == access.ScopeRead)},
					{"a writer", writer, deniedUnless(public || o.scope != access.ScopeRead && o.scope != access.ScopeAdmin && o.scope != access.ScopeRetain && o.name != "DeleteBucketPolicy")},
					{"an administrator", admin, ""},
					{"another account's owner", stranger, deniedUnless(public || o.scope == "")},
					{"an unknown key", signerOf{strings.Repeat("a", 16), reader.secret}, "InvalidAccessKeyId"},
					{"a revoked key", revoked, "InvalidAccessKeyId"},
					{"an expired key", expired, "InvalidAccessKeyId"},
					{"a wrong secret", signerOf{reader.id, stranger.secret}, "SignatureDoesNotMatch"},
				} { // the policy to delete is an administrator's
					path := s.path
					if strings.Contains(path, "UPLOAD") {
						path = strings.ReplaceAll(path, "UPLOAD", h.upload(t, writer))
					}
					res := send(t, caller.signer.sign(h.request(t, r.method, path, s.body, s.fields...)))
					denied := res.StatusCode == http.StatusForbidden
					if denied && r.method != http.MethodHead && caller.denied != "" {
						wantError(t, res, http.StatusForbidden, caller.denied)
					}
					if denied != (caller.denied != "") || res.StatusCode >= 500 {
						t.Errorf("%s by %s: %d %s, want it denied: %q", o.name, caller.name, res.StatusCode, res.body, caller.denied)
					}
				}
			}
		})
	}
}

func deniedUnless(allowed bool) string {
	if allowed {
		return ""
	}
	return "AccessDenied"
}

// upload begins an upload.
func (h *hosted) upload(t *testing.T, by signerOf) string {
	t.Helper()
	res := send(t, by.sign(h.request(t, "POST", "/ours/a?uploads", "")))
	return decodedAs[struct {
		UploadID string `xml:"UploadId"`
	}](t, res.body).UploadID
}

// TestAccessToASource: a copy needs write for the destination, and read for the source unless
// everyone may read it.
// Invariant 187.
func TestAccessToASource(t *testing.T) {
	for _, reads := range []access.Reads{access.ReadsPublic, access.ReadsPaid} {
		h := startHosted(t, reads, nil)
		scopes := []access.Scope{access.ScopeRead, access.ScopeWrite}
		owner, other := h.key(t, access.NewKey{Scopes: scopes, Accounts: []string{"ours"}}), h.key(t, access.NewKey{Scopes: scopes, Accounts: []string{"other"}})
		both := h.key(t, access.NewKey{Scopes: scopes, Accounts: []string{"ours", "other"}})
		testenv.Equal(t, send(t, owner.sign(h.request(t, "PUT", "/ours/a", "x"))).StatusCode, 200, "the source")
		copied := func(by signerOf) int {
			return send(t, by.sign(h.request(t, "PUT", "/other/b", "", "X-Amz-Copy-Source", "/ours/a"))).StatusCode
		}
		want := 200
		if reads != access.ReadsPublic {
			want = 403
		}
		testenv.Equal(t, copied(other), want, "%s: a copy by who may not read the source", reads)
		testenv.Equal(t, copied(owner), 403, "%s: a copy by who may not write the destination", reads)
		testenv.Equal(t, copied(both), 200, "%s: a copy by who may do both", reads)
	}
}

// TestListOfBuckets: it has the accounts that the key is for, and no account besides.
func TestListOfBuckets(t *testing.T) {
	h := startHosted(t, access.ReadsPublic, nil)
	admin := h.key(t, access.NewKey{Scopes: []access.Scope{access.ScopeAdmin}})
	for _, bucket := range []string{"first", "second", "third"} {
		send(t, admin.sign(h.request(t, "PUT", "/"+bucket+"/a", "x")))
	}
	some := h.key(t, access.NewKey{Scopes: []access.Scope{access.ScopeWrite}, Accounts: []string{"second", "none"}})
	list := func(by signerOf) (names []string) {
		for _, b := range decodedAs[struct {
			Buckets []struct{ Name string } `xml:"Buckets>Bucket"`
		}](t, send(t, by.sign(h.request(t, "GET", "/", ""))).body).Buckets {
			names = append(names, b.Name)
		}
		return names
	}
	testenv.Equal(t, fmt.Sprint(list(admin)), "[first second third]", "an administrator's buckets")
	testenv.Equal(t, fmt.Sprint(list(some)), "[second]", "the buckets of a key for some accounts")
}

// countingLists counts the lists of blobs that are read.
type countingLists struct {
	*sqlstore.Store
	n atomic.Int64
}

// ListBlobs implements blob.Metadata.
func (c *countingLists) ListBlobs(ctx context.Context, q metastore.ListQuery) (metastore.Page, error) {
	c.n.Add(1)
	return c.Store.ListBlobs(ctx, q)
}

// TestPrefixOfBuckets checks that a list of buckets looks up the accounts with the prefix only.
func TestPrefixOfBuckets(t *testing.T) {
	var store countingLists
	h := startHosted(t, access.ReadsKey, func(c *Config) {
		c.Blobs = blob.New(&store, memory.New(), blob.Options{})
	})
	store.Store = h.database
	var accounts []string
	for i := range 100 {
		accounts = append(accounts, fmt.Sprint("account", i))
	}
	some := h.key(t, access.NewKey{Scopes: []access.Scope{access.ScopeRead, access.ScopeWrite}, Accounts: accounts})
	testenv.Equal(t, send(t, some.sign(h.request(t, "PUT", "/account21/a", "x"))).StatusCode, 200, "a PUT")
	for prefix, looks := range map[string]int64{"none": 0, "account2": 11 * 2, "account21": 2} {
		before := store.n.Load()
		res := send(t, some.sign(h.request(t, "GET", "/?prefix="+prefix, "")))
		testenv.Equal(t, strings.Contains(res.body, "<Name>account21</Name>"), looks > 0, "%s: the bucket is listed", prefix)
		if got := store.n.Load() - before; got > looks {
			t.Errorf("the prefix %s costs %d lists, want at most %d", prefix, got, looks)
		}
	}
}

// TestUnsignedBodies: a body that no signature covers must come over TLS, or from this machine.
func TestUnsignedBodies(t *testing.T) {
	for _, test := range []struct {
		name, from, scheme string
		tls, allowed       bool
		want               int
	}{
		{name: "this machine", from: "127.0.0.1:1", want: 200},
		{name: "plain HTTP", from: "198.51.100.1:1", want: 403},
		{name: "TLS", from: "198.51.100.1:1", tls: true, want: 200},
		{name: "a trusted proxy with TLS", from: "192.0.2.1:1", scheme: "https", want: 200},
		{name: "a trusted proxy without", from: "192.0.2.1:1", scheme: "http", want: 403},
		{name: "a liar", from: "198.51.100.1:1", scheme: "https", want: 403},
		{name: "plain HTTP, allowed", from: "198.51.100.1:1", allowed: true, want: 200},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := startHosted(t, access.ReadsPublic, func(c *Config) { c.UnsignedPayload = test.allowed })
			writer := h.key(t, access.NewKey{Scopes: []access.Scope{access.ScopeWrite}})
			for _, payload := range []string{"UNSIGNED-PAYLOAD", "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"} {
				target := "http://h/ours/a"
				if test.tls {
					target = "https://h/ours/a"
				}
				r := httptest.NewRequest("PUT", target, strings.NewReader("x"))
				r.RemoteAddr = test.from
				r.Header.Set("X-Amz-Content-Sha256", payload)
				if test.scheme != "" {
					r.Header.Set("X-Forwarded-Proto", test.scheme)
				}
				want := test.want
				if payload != "UNSIGNED-PAYLOAD" {
					want = 200
				}
				signed := writer.sign(r)
				signed.RequestURI, signed.Body = r.RequestURI, r.Body
				testenv.Equal(t, h.direct(signed).StatusCode, want, "%s: the payload %.20s", test.name, payload)
			}
		})
	}
}

// TestPresigned: a URL is valid until it expires, for the request that was signed.
func TestPresigned(t *testing.T) {
	h := startHosted(t, access.ReadsKey, nil)
	key := h.key(t, access.NewKey{Scopes: []access.Scope{access.ScopeRead, access.ScopeWrite}})
	presigned := func(method, path string, seconds int64) *http.Request {
		return signer.PreSignV4(*h.request(t, method, path, ""), key.id, key.secret, "", "us-east-1", seconds)
	}
	put := presigned("PUT", "/ours/a", 60)
	upload := h.request(t, "PUT", "/ours/a?"+put.URL.RawQuery, "presigned")
	testenv.Equal(t, send(t, upload).StatusCode, 200, "a PUT")
	// As by Amazon, the digest of a body that the signature covers need not be a signed header.
	upload = h.request(t, "PUT", "/ours/a?"+put.URL.RawQuery, "presigned", "X-Amz-Content-Sha256", "UNSIGNED-PAYLOAD")
	testenv.Equal(t, send(t, upload).StatusCode, 200, "a PUT that states its payload")
	for _, payload := range []string{strings.Repeat("0", 64), "STREAMING-UNSIGNED-PAYLOAD-TRAILER"} {
		upload = h.request(t, "PUT", "/ours/a?"+put.URL.RawQuery, "other", "X-Amz-Content-Sha256", payload)
		wantError(t, send(t, upload), 403, "SignatureDoesNotMatch")
	}
	get := presigned("GET", "/ours/a", 7*24*3600)
	testenv.Equal(t, send(t, get).body, "presigned", "a GET")
	other := h.request(t, "GET", "/ours/b?"+get.URL.RawQuery, "")
	wantError(t, send(t, other), 403, "SignatureDoesNotMatch")
	wantError(t, send(t, h.request(t, "PUT", "/ours/a?"+get.URL.RawQuery, "x")), 403, "SignatureDoesNotMatch")
	long := presigned("GET", "/ours/a", 7*24*3600+1)
	testenv.Equal(t, send(t, long).StatusCode, 400, "a URL of more than 7 days")
	q := get.URL.Query()
	old := time.Now().UTC().Add(-8 * 24 * time.Hour)
	q.Set("X-Amz-Date", old.Format("20060102T150405Z"))
	q.Set("X-Amz-Credential", key.id+"/"+old.Format("20060102")+"/us-east-1/s3/aws4_request")
	wantError(t, send(t, h.request(t, "GET", "/ours/a?"+q.Encode(), "")), 403, "AccessDenied")
}

// TestSkewedClocks: a signature is valid for 15 minutes around its time, by the database's clock.
func TestSkewedClocks(t *testing.T) {
	h := startHosted(t, access.ReadsPublic, nil)
	key := h.key(t, access.NewKey{Scopes: []access.Scope{access.ScopeRead}})
	r := key.sign(h.request(t, "GET", "/", ""))
	now := time.Now().UTC()
	skewed := now.Add(16 * time.Minute)
	if skewed.Day() != now.Day() { // the credential has the date of now
		skewed = now.Add(-16 * time.Minute)
	}
	r.Header.Set("X-Amz-Date", skewed.Format("20060102T150405Z"))
	wantError(t, send(t, r), 403, "RequestTimeTooSkewed")
}

// TestSignedForms: on a hosted service a form is its signer's, and a policy with another key's
// signature stores nothing. Invariant 187.
func TestSignedForms(t *testing.T) {
	h := startHosted(t, access.ReadsPublic, nil)
	writer := h.key(t, access.NewKey{Scopes: []access.Scope{access.ScopeWrite}, Accounts: []string{"ours"}})
	stranger := h.key(t, access.NewKey{Scopes: []access.Scope{access.ScopeWrite}, Accounts: []string{"other"}})
	wantError(t, h.post(t, writer, stranger, "a"), 403, "SignatureDoesNotMatch")
	wantError(t, h.post(t, stranger, stranger, "a"), 403, "AccessDenied")
	body, mediaType := form(t, "key", "a", "file", "posted")
	wantError(t, send(t, h.request(t, "POST", "/ours", body, "Content-Type", mediaType)), 403, "AccessDenied")
	testenv.Equal(t, send(t, h.request(t, "HEAD", "/ours/a", "")).StatusCode, 404, "what was stored")
	testenv.Equal(t, h.post(t, writer, writer, "a").StatusCode, 204, "the signer's form")
	testenv.Equal(t, send(t, h.request(t, "GET", "/ours/"+url.PathEscape("a"), "")).body, "posted", "the form's file")
}

// post sends a form for a key, by who signs its policy, in the name of claimed.
func (h *hosted) post(t *testing.T, by, claimed signerOf, key string) response {
	t.Helper()
	now := time.Now().UTC()
	date := now.Format("20060102T150405Z")
	credential := claimed.id + "/" + now.Format("20060102") + "/us-east-1/s3/aws4_request"
	policy := base64.StdEncoding.EncodeToString(testenv.Must(json.Marshal(map[string]any{
		"expiration": now.Add(time.Minute).Format(time.RFC3339),
		"conditions": []any{
			map[string]string{"bucket": "ours"}, []any{"starts-with", "$key", ""}, map[string]string{"x-amz-algorithm": "AWS4-HMAC-SHA256"},
			map[string]string{"x-amz-credential": credential}, map[string]string{"x-amz-date": date},
		},
	}))(t))
	body, mediaType := form(t, "key", key, "policy", policy, "x-amz-algorithm", "AWS4-HMAC-SHA256", "x-amz-credential", credential, "x-amz-date", date,
		"x-amz-signature", signer.PostPresignSignatureV4(policy, now, by.secret, "us-east-1"), "file", "posted")
	return send(t, h.request(t, "POST", "/ours", body, "Content-Type", mediaType))
}

// TestOverridesAreSigned: only who can sign replaces fields in a response, so that nobody makes a
// link to a foreign blob that browsers treat as something else.
func TestOverridesAreSigned(t *testing.T) {
	h := startHosted(t, access.ReadsPublic, nil)
	key := h.key(t, access.NewKey{Scopes: []access.Scope{access.ScopeRead, access.ScopeWrite}, Accounts: []string{"ours"}})
	testenv.Equal(t, send(t, key.sign(h.request(t, "PUT", "/ours/a", "x", "Content-Type", "text/plain"))).StatusCode, 200, "a PUT")
	testenv.Equal(t, send(t, h.request(t, "GET", "/ours/a", "")).StatusCode, 200, "an anonymous GET")
	const target = "/ours/a?response-content-type=text/html"
	wantError(t, send(t, h.request(t, "GET", target, "")), 400, "InvalidRequest")
	testenv.Equal(t, send(t, key.sign(h.request(t, "GET", target, ""))).Header.Get("Content-Type"), "text/html", "the type in a signed response")
}

// TestBucketsAreListedOnce lists the buckets of a key for some accounts, and of one for all, in
// pages: by each name once, in order, and only those with this prefix.
func TestBucketsAreListedOnce(t *testing.T) {
	h := startHosted(t, access.ReadsKey, nil)
	writer := h.key(t, access.NewKey{Scopes: []access.Scope{access.ScopeRead, access.ScopeWrite}, Accounts: nil})
	for _, account := range []string{"aa", "ab", "ba", "other"} {
		testenv.Equal(t, send(t, writer.sign(h.request(t, "PUT", "/"+account+"/a", "x"))).StatusCode, 200, "a PUT")
	}
	some := h.key(t, access.NewKey{Scopes: []access.Scope{access.ScopeRead}, Accounts: []string{"aa", "ab", "ba", "empty"}})
	for name, want := range map[string]struct {
		by     signerOf
		prefix string
		list   []string
	}{
		"some":             {some, "", []string{"aa", "ab", "ba"}},
		"all":              {writer, "", []string{"aa", "ab", "ba", "other"}},
		"some by a prefix": {some, "a", []string{"aa", "ab"}},
		"all by a prefix":  {writer, "b", []string{"ba"}},
	} {
		for _, limit := range []int{1, 2, 3, 1000} {
			var got []string
			for token, more := "", true; more; {
				query := url.Values{"max-buckets": {fmt.Sprint(limit)}, "prefix": {want.prefix}, "continuation-token": {token}}
				if token == "" {
					query.Del("continuation-token")
				}
				res := send(t, want.by.sign(h.request(t, "GET", "/?"+query.Encode(), "")))
				page := decodedAs[document.ListAllMyBucketsResult](t, res.body)
				for _, b := range page.Buckets {
					got = append(got, b.Name)
				}
				if len(page.Buckets) > limit {
					t.Errorf("%s: a page of at most %d has %d buckets", name, limit, len(page.Buckets))
				}
				token = page.ContinuationToken
				more = token != ""
			}
			if !slices.Equal(got, want.list) {
				t.Errorf("%s, %d a page: %v, want %v", name, limit, got, want.list)
			}
		}
	}
	wantError(t, send(t, some.sign(h.request(t, "GET", "/?max-buckets=0", ""))), 400, "InvalidArgument")
}

// TestPaidReadsOfALocalInstance checks that reads which are paid need credentials, which a local
// instance takes for a key's, and that writes need none.
// Invariant 187.
func TestPaidReadsOfALocalInstance(t *testing.T) {
	s := start(t, setup{config: func(c *Config) { c.Reads = access.ReadsPaid }})
	s.want(t, 200, "PUT", "/bucket/a", "content")
	for _, path := range []string{"/bucket/a", "/bucket", "/bucket/a?tagging"} {
		s.refused(t, 403, "AccessDenied", "GET", path, "")
		s.want(t, 200, "GET", path, "", "Authorization", "AWS any:signature")
	}
	testenv.Equal(t, s.want(t, 200, "GET", "/bucket/a?AWSAccessKeyId=any&Expires=1&Signature=a", "").body, "content", "a presigned URL")
}

// TestNoCacheKeepsWhatAKeyReads checks that no cache stores a response that only a key may read,
// whichever document it has.
func TestNoCacheKeepsWhatAKeyReads(t *testing.T) {
	h := startHosted(t, access.ReadsKey, nil)
	admin := h.key(t, access.NewKey{Scopes: []access.Scope{access.ScopeAdmin}})
	for _, path := range []string{"/ours/a", "/ours/dir/", "/ours/tagged?tagging"} {
		key, _, _ := strings.Cut(path, "?")
		testenv.Equal(t, send(t, admin.sign(h.request(t, "PUT", key, ""))).StatusCode, 200, "a PUT of %s", key)
	}
	for _, path := range []string{"/", "/ours", "/ours/a", "/ours/dir/", "/ours/none", "/none", "/ours?versions", "/ours?location", "/ours/a?attributes", "/ours/tagged?tagging"} {
		for _, method := range []string{"GET", "HEAD"} {
			res := send(t, admin.sign(h.request(t, method, path, "", "X-Amz-Object-Attributes", "ETag")))
			if got := res.Header.Get("Cache-Control"); got != "no-store" && got != "private, no-cache" {
				t.Errorf("%s %s: %d with Cache-Control %q", method, path, res.StatusCode, got)
			}
		}
	}
}
