package s3api

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"sluice/access"
	"sluice/access/keys"
	"sluice/access/places"
	"sluice/test/testenv"
)

// grantsOf are keys by kind. Each has scopes, accounts and a prefix, as far as they are limited.
var grantsOf = map[string][]keys.Grant{
	"all":                   {{Scopes: []string{"read", "write"}}},
	"the bucket":            {{Scopes: []string{"admin"}, Accounts: []string{"ours"}}},
	"another bucket":        {{Scopes: []string{"admin"}, Accounts: []string{"other"}}},
	"a prefix":              {{Scopes: []string{"read", "write"}, Accounts: []string{"ours"}, Prefix: "team/"}},
	"a prefix of all":       {{Scopes: []string{"admin"}, Prefix: "team/"}},
	"a reader of a prefix":  {{Scopes: []string{"read"}, Accounts: []string{"ours"}, Prefix: "team/"}},
	"a creator in a prefix": {{Scopes: []string{"create"}, Accounts: []string{"ours"}, Prefix: "team/"}},
	"another prefix":        {{Scopes: []string{"read", "write"}, Accounts: []string{"ours"}, Prefix: "else/"}},
	"a backup":              {{Scopes: []string{"read", "create"}, Accounts: []string{"ours"}}, {Scopes: []string{"write"}, Accounts: []string{"ours"}, Prefix: "team/"}},
	"retention":             {{Scopes: []string{"retain", "bypass"}, Accounts: []string{"ours"}, Prefix: "team/"}},
	"channels":              {{Scopes: []string{"channels"}}},
}

// allowed reports whether a grant has the scope for a name in the bucket ours, or, if some is true,
// for any names.
func allowed(grants []keys.Grant, scope access.Scope, name string, some bool) bool {
	return slices.ContainsFunc(grants, func(g keys.Grant) bool {
		has := slices.Contains(g.Scopes, string(scope)) || slices.Contains(g.Scopes, "admin") || scope == access.ScopeCreate && slices.Contains(g.Scopes, "write")
		return has && (g.Accounts == nil || slices.Contains(g.Accounts, "ours")) && (some || strings.HasPrefix(name, g.Prefix))
	})
}

// placed are requests for the operations on the key KEY, which exists, and the key NEW, which does
// not. AT is what both begin with. UPLOAD is an open upload to NEW.
var placed = map[string]sample{
	"GetObject": {path: "/ours/KEY"}, "HeadObject": {path: "/ours/KEY"}, "GetObjectAcl": {path: "/ours/KEY?acl"}, "GetObjectTagging": {path: "/ours/KEY?tagging"},
	"GetObjectRetention": {path: "/ours/KEY?retention"}, "GetObjectLegalHold": {path: "/ours/KEY?legal-hold"},
	"PutObjectRetention": {path: "/ours/KEY?retention", body: "<Retention/>"}, "PutObjectLegalHold": {path: "/ours/KEY?legal-hold", body: noLegalHold},
	"GetObjectAttributes":     {path: "/ours/KEY?attributes", fields: []string{"X-Amz-Object-Attributes", "ETag"}},
	"PutObject":               {path: "/ours/NEW", body: "x"},
	"PutObjectAcl":            {path: "/ours/KEY?acl", fields: []string{"X-Amz-Acl", "private"}},
	"PutObjectTagging":        {path: "/ours/KEY?tagging", body: "<Tagging><TagSet/></Tagging>"},
	"DeleteObjectTagging":     {path: "/ours/KEY?tagging"},
	"DeleteObject":            {path: "/ours/KEY"},
	"CreateMultipartUpload":   {path: "/ours/NEW?uploads"},
	"ListParts":               {path: "/ours/NEW?uploadId=UPLOAD"},
	"UploadPart":              {path: "/ours/NEW?uploadId=UPLOAD&partNumber=1", body: "x"},
	"CompleteMultipartUpload": {path: "/ours/NEW?uploadId=UPLOAD", body: "<CompleteMultipartUpload/>"},
	"AbortMultipartUpload":    {path: "/ours/NEW?uploadId=UPLOAD"},
	"ListObjects":             {path: "/ours?prefix=AT"},
	"ListObjectsV2":           {path: "/ours?list-type=2&delimiter=/&prefix=AT"},
	"ListObjectVersions":      {path: "/ours?versions&prefix=AT"},
	"ListMultipartUploads":    {path: "/ours?uploads&prefix=AT"},
}

// TestEveryOperationByEveryKindOfKey sends each operation at places in and outside of a prefix, by
// each kind of key. It is denied exactly if no grant allows it there: what concerns no name needs a
// grant for some of its bucket's names, and what concerns the bucket one for all names.
// Invariant 193.
func TestEveryOperationByEveryKindOfKey(t *testing.T) {
	h := startHosted(t, access.ReadsKey, nil)
	h.set(t, "", false, places.Settings{MayOpen: true})
	owner := h.key(t, access.NewKey{Scopes: []access.Scope{access.ScopeAdmin}, Group: "g"})
	n := 0
	for kind, grants := range grantsOf {
		key := h.key(t, access.NewKey{Grants: grants, Group: "g"})
		for _, at := range []string{"team/", "team", "else/"} {
			for _, r := range routes {
				o := r.operation
				s, atKey := placed[o.name]
				name := at
				switch {
				case o.scope == "" || o.copies || o.name == "DeleteObjects" || o.name == "CreateBucket" || o.name == "DeleteBucket":
					continue // see TestGrantsByName
				case !atKey && r.level == bucketLevel:
					if s = samples[o.name]; s.path == "" {
						s.path = "/ours?" + r.parameter
					}
					name = ""
				case !atKey:
					t.Fatalf("there is no request for %s", o.name)
				}
				n++
				was, fresh := fmt.Sprint(at, n), fmt.Sprint(at, "new", n)
				upload := ""
				if atKey {
					testenv.Equal(t, send(t, owner.sign(h.request(t, "PUT", "/ours/"+was, "x"))).StatusCode, 200, "a PUT")
				}
				if strings.Contains(s.path, "UPLOAD") {
					upload = decodedAs[struct {
						UploadID string `xml:"UploadId"`
					}](t, send(t, owner.sign(h.request(t, "POST", "/ours/"+fresh+"?uploads", ""))).body).UploadID
				}
				path := strings.NewReplacer("KEY", was, "NEW", fresh, "AT", at, "UPLOAD", upload).Replace(s.path)
				question := !atKey && r.method == http.MethodGet && o.scope == access.ScopeRead && !strings.HasSuffix(o.name, "Acl") && !strings.HasSuffix(o.name, "Tagging") && o.name != "GetBucketPolicy"
				want := allowed(grants, o.scope, name, question || o.name == "HeadBucket")
				res := send(t, key.sign(h.request(t, r.method, path, s.body, s.fields...)))
				if (res.StatusCode == http.StatusForbidden) == want || res.StatusCode >= 500 {
					t.Errorf("%s at %q by a key for %s: %d %s, want it allowed: %t", o.name, at, kind, res.StatusCode, res.body, want)
				}
			}
		}
	}
}

// TestGrantsByName tries what TestEveryOperationByEveryKindOfKey leaves out: copies at both ends,
// replacements, deletions of several keys, forms, and the list of buckets.
// Invariant 193.
func TestGrantsByName(t *testing.T) {
	h := startHosted(t, access.ReadsKey, nil)
	owner := h.key(t, access.NewKey{Scopes: []access.Scope{access.ScopeAdmin}, Group: "g"})
	n := 0
	put := func(at string) string {
		t.Helper()
		n++
		name := fmt.Sprint(at, n)
		testenv.Equal(t, send(t, owner.sign(h.request(t, "PUT", "/ours/"+name, "x"))).StatusCode, 200, "a PUT")
		return name
	}
	for kind, grants := range grantsOf {
		key := h.key(t, access.NewKey{Grants: grants, Group: "g"})
		can := func(scope access.Scope, name string) bool { return allowed(grants, scope, name, false) }
		try := func(want bool, method, path, body string, fields ...string) response {
			t.Helper()
			res := send(t, key.sign(h.request(t, method, path, body, fields...)))
			if (res.StatusCode == http.StatusForbidden) == want || res.StatusCode >= 500 {
				t.Errorf("%s %s %v by a key for %s: %d %s, want it allowed: %t", method, path, fields, kind, res.StatusCode, res.body, want)
			}
			return res
		}
		for _, at := range []string{"team/", "else/"} {
			try(can(access.ScopeWrite, at), "PUT", "/ours/"+put(at), "y")
			try(can(access.ScopeCreate, at), "PUT", "/ours/"+at+"folder"+strings.ReplaceAll(kind, " ", "")+"/", "")
			res := h.post(t, key, key, at+fmt.Sprint("posted", n))
			testenv.Equal(t, res.StatusCode == 204, can(access.ScopeCreate, at), "a form at %s by a key for %s: %d", at, kind, res.StatusCode)
			for _, from := range []string{"team/", "else/"} {
				source := []string{"X-Amz-Copy-Source", "/ours/" + put(from)}
				try(can(access.ScopeCreate, at) && can(access.ScopeRead, from), "PUT", fmt.Sprint("/ours/", at, "copy", n), "", source...)
				fresh := fmt.Sprint("/ours/", at, "upload", n)
				id := decodedAs[struct {
					UploadID string `xml:"UploadId"`
				}](t, send(t, owner.sign(h.request(t, "POST", fresh+"?uploads", ""))).body).UploadID
				try(can(access.ScopeCreate, at) && can(access.ScopeRead, from), "PUT", fresh+"?partNumber=1&uploadId="+id, "", source...)
			}
		}
		ours, elses := put("team/"), put("else/")
		res := try(allowed(grants, access.ScopeWrite, "", true), "POST", "/ours?delete", "<Delete><Object><Key>"+ours+"</Key></Object><Object><Key>"+elses+"</Key></Object></Delete>")
		for _, name := range []string{ours, elses} {
			gone := send(t, owner.sign(h.request(t, "HEAD", "/ours/"+name, ""))).StatusCode == 404
			testenv.Equal(t, gone, can(access.ScopeWrite, name), "whether a key for %s deletes %s", kind, name)
			if res.StatusCode == 200 && !gone && !strings.Contains(res.body, "<Key>"+name+"</Key><Code>AccessDenied</Code>") {
				t.Errorf("deletions by a key for %s: %s", kind, res.body)
			}
		}
		buckets := send(t, key.sign(h.request(t, "GET", "/", ""))).body
		some := allowed(grants, access.ScopeRead, "", true) || allowed(grants, access.ScopeCreate, "", true)
		testenv.Equal(t, strings.Contains(buckets, "<Name>ours</Name>"), some, "whether a key for %s sees the bucket", kind)
		try(allowed(grants, access.ScopeWrite, "", true), "PUT", "/ours", "") // as the first object would
		try(can(access.ScopeWrite, ""), "DELETE", "/ours", "")                // which has objects
	}
}
