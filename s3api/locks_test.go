package s3api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"sluice/access"
	"sluice/access/keys"
	"sluice/s3api/internal/document"
	"sluice/test/testenv"
)

// Documents about locks.
const (
	legalHold    = "<LegalHold><Status>ON</Status></LegalHold>"
	noLegalHold  = "<LegalHold><Status>OFF</Status></LegalHold>"
	defaultLocks = "<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled><Rule><DefaultRetention><Mode>GOVERNANCE</Mode><Days>1</Days></DefaultRetention></Rule></ObjectLockConfiguration>"
)

// retained returns a retention that ends in a number of hours.
func retained(mode string, hours int) string {
	return "<Retention><Mode>" + mode + "</Mode><RetainUntilDate>" + inHours(hours) + "</RetainUntilDate></Retention>"
}

func inHours(hours int) string {
	return time.Now().Add(time.Duration(hours) * time.Hour).UTC().Format(time.RFC3339)
}

// lockedFields are the fields that lock an object for a number of hours.
func lockedFields(mode string, hours int) []string {
	return []string{fieldLockMode, mode, fieldLockUntil, inHours(hours)}
}

// TestLocksOfAnObject follows a version through retentions and legal holds, by the names and
// statuses of "How S3 Object Lock works" (Amazon S3 User Guide).
// Invariant 217.
func TestLocksOfAnObject(t *testing.T) {
	s := newService(t)
	s.want(t, 200, "PUT", "/bucket", "", fieldBucketLocks, "true")
	testenv.Equal(t, strings.Contains(s.want(t, 200, "GET", "/bucket?versioning", "").body, "Enabled"), true, "versioning")
	s.refused(t, 409, "InvalidBucketState", "PUT", "/bucket?versioning", "<VersioningConfiguration><Status>Suspended</Status></VersioningConfiguration>")
	for _, key := range []string{"a", "dir/"} {
		id := s.put(t, key, "one")
		path, named := "/bucket/"+key, "/bucket/"+key+"?versionId="+id
		bypass := []string{fieldBypass, "true"}
		denied := func(method, path, body string, fields ...string) {
			t.Helper()
			res := s.refused(t, 403, "AccessDenied", method, path, body, fields...)
			if !strings.Contains(res.body, "until 20") && !strings.Contains(res.body, "legal hold") {
				t.Errorf("the refusal does not say why: %s", res.body)
			}
		}
		s.refused(t, 404, "NoSuchObjectLockConfiguration", "GET", path+"?retention", "")
		s.want(t, 200, "PUT", path+"?retention", retained("GOVERNANCE", 2))
		until := decodedAs[document.Retention](t, s.want(t, 200, "GET", path+"?retention", "").body)
		h := s.want(t, 200, "HEAD", named, "").Header
		testenv.Equal(t, h.Get(fieldLockMode)+h.Get(fieldLockUntil), "GOVERNANCE"+until.Until, "the header of a locked version")
		denied("DELETE", named, "")
		denied("PUT", path+"?retention", retained("GOVERNANCE", 1))
		denied("PUT", path+"?retention", "<Retention/>")
		denied("PUT", path+"?retention", retained("COMPLIANCE", 3))
		s.want(t, 200, "PUT", path+"?retention", retained("GOVERNANCE", 3))
		s.want(t, 200, "PUT", path+"?retention", retained("GOVERNANCE", 1), bypass...)
		s.want(t, 200, "PUT", path+"?retention", "<Retention/>", bypass...)
		s.want(t, 200, "PUT", named+"&legal-hold", legalHold)
		testenv.Equal(t, s.want(t, 200, "GET", path, "").Header.Get(fieldLegalHold), "ON", "the header of a version with a legal hold")
		denied("DELETE", named, "", bypass...)
		for _, path := range []string{path, named} {
			refused := s.refused(t, 400, "InvalidArgument", "DELETE", path, "", fieldBypass, "yes")
			testenv.Equal(t, strings.Contains(refused.body, strings.ToLower(fieldBypass)), true, "the refusal's field: %s", refused.body)
		}

		// A replacement and a mark leave the version where it is.
		mark := s.want(t, 204, "DELETE", path, "").Header.Get("X-Amz-Version-Id")
		s.refused(t, 404, "NoSuchKey", "PUT", path+"?retention", retained("GOVERNANCE", 1))
		s.refused(t, 405, "MethodNotAllowed", "PUT", path+"?legal-hold&versionId="+mark, legalHold)
		s.refused(t, 405, "MethodNotAllowed", "GET", path+"?retention&versionId="+mark, "")
		s.want(t, 204, "DELETE", path+"?versionId="+mark, "")
		newer := s.put(t, key, "two")
		testenv.Equal(t, strings.Contains(s.want(t, 200, "GET", path+"?legal-hold", "").body, "OFF"), true, "the hold of a new version")
		s.want(t, 204, "DELETE", path+"?versionId="+newer, "")
		res := s.want(t, 200, "POST", "/bucket?delete", "<Delete><Object><Key>"+key+"</Key><VersionId>"+id+"</VersionId></Object></Delete>", bypass...)
		testenv.Equal(t, strings.Contains(res.body, "<VersionId>"+id+"</VersionId><Code>AccessDenied</Code>"), true, "a deletion among many: %s", res.body)
		s.want(t, 200, "PUT", named+"&legal-hold", noLegalHold)

		s.want(t, 200, "PUT", path+"?retention", retained("COMPLIANCE", 1))
		for _, body := range []string{retained("GOVERNANCE", 2), "<Retention/>", strings.Replace(retained("COMPLIANCE", 1), inHours(1), inHours(0)[:17]+"59Z", 1)} {
			denied("PUT", path+"?retention", body, bypass...)
		}
		denied("DELETE", named, "", bypass...)
		s.want(t, 200, "PUT", named+"&retention", retained("COMPLIANCE", 2))
		testenv.Equal(t, s.want(t, 200, "GET", path, "").body, "one", "the locked version")
	}
	s.refused(t, 409, "BucketNotEmpty", "DELETE", "/bucket", "")
}

// TestLocksOfWrites: each operation that stores an object locks it as its fields state, or else as
// the bucket's setting has it.
// Invariant 217.
func TestLocksOfWrites(t *testing.T) {
	s := newService(t)
	s.keep(t, "Enabled")
	s.refused(t, 404, "ObjectLockConfigurationNotFoundError", "GET", "/bucket?object-lock", "")
	s.put(t, "source", "x")
	for _, path := range []string{"/bucket/source?retention", "/bucket/source?legal-hold"} {
		s.refused(t, 400, "InvalidRequest", "GET", path, "")
		s.refused(t, 404, "NoSuchKey", "GET", strings.Replace(path, "source", "none", 1), "")
	}
	s.refused(t, 400, "InvalidRequest", "PUT", "/bucket/source?legal-hold", legalHold)
	write := func(fields ...string) map[string]response {
		t.Helper()
		body, mediaType := form(t, append(append([]string{"key", "posted"}, fields...), "file", "x")...)
		all := map[string]response{
			"put":    s.do(t, "PUT", "/bucket/put", "x", fields...),
			"copied": s.do(t, "PUT", "/bucket/copied", "", append(fields, "X-Amz-Copy-Source", "/bucket/source")...),
			"named":  s.do(t, "PUT", "/bucket/named", "", append(fields, "X-Amz-Copy-Source", "/bucket/source", "X-Amz-Metadata-Directive", "REPLACE")...),
			"parts":  s.do(t, "POST", "/bucket/parts?uploads", "", fields...),
			"posted": s.do(t, "POST", "/bucket", body, "Content-Type", mediaType),
		}
		if all["parts"].StatusCode == 200 {
			id := decodedAs[struct {
				UploadID string `xml:"UploadId"`
			}](t, all["parts"].body).UploadID
			etag := s.part(t, "/bucket/parts", id, 1, "x")
			all["parts"] = s.do(t, "POST", "/bucket/parts?uploadId="+id, completion(named{1, etag}))
		}
		return all
	}
	refuse := func(status int, code string, fields ...string) {
		t.Helper()
		for name, res := range write(fields...) {
			if res.StatusCode != status || !strings.Contains(res.body, "<Code>"+code+"</Code>") {
				t.Errorf("%s %q: %d %s, want %d %s", name, fields, res.StatusCode, res.body, status, code)
			}
		}
	}
	refuse(400, "InvalidRequest", lockedFields("GOVERNANCE", 1)...)
	refuse(400, "InvalidRequest", fieldLegalHold, "ON")
	write(fieldLegalHold, "OFF")

	s.want(t, 200, "PUT", "/bucket?object-lock", defaultLocks)
	got := s.want(t, 200, "GET", "/bucket?object-lock", "").body
	testenv.Equal(t, strings.Contains(got, "<Mode>GOVERNANCE</Mode><Days>1</Days>"), true, "the default: %s", got)
	refuse(400, "InvalidArgument", fieldLockMode, "GOVERNANCE")
	refuse(400, "InvalidArgument", fieldLockUntil, inHours(1))
	refuse(400, "InvalidArgument", lockedFields("governance", 1)...)
	refuse(400, "InvalidArgument", lockedFields("GOVERNANCE", -1)...)
	refuse(400, "InvalidArgument", lockedFields("COMPLIANCE", 24*366*10)...) // beyond the operator's maximum
	refuse(400, "InvalidArgument", fieldLockMode, "GOVERNANCE", fieldLockUntil, "tomorrow")
	refuse(400, "InvalidArgument", fieldLegalHold, "on")
	shown := func(want string, fields ...string) {
		t.Helper()
		for name, res := range write(fields...) {
			testenv.Equal(t, res.StatusCode/100, 2, "%s: %s", name, res.body)
			h := s.want(t, 200, "HEAD", "/bucket/"+name, "").Header
			until := testenv.Must(time.Parse(time.RFC3339, h.Get(fieldLockUntil)))(t)
			got := fmt.Sprint(h.Get(fieldLockMode), " ", h.Get(fieldLegalHold), " ", time.Until(until).Round(time.Hour))
			testenv.Equal(t, got, want, "the lock of %s %q", name, fields)
		}
	}
	shown("GOVERNANCE  24h0m0s")
	shown("GOVERNANCE ON 24h0m0s", fieldLegalHold, "ON")
	shown("COMPLIANCE ON 2h0m0s", append(lockedFields("COMPLIANCE", 2), fieldLegalHold, "ON")...)
	h := s.want(t, 304, "GET", "/bucket/put", "", "If-None-Match", "*").Header
	testenv.Equal(t, h.Get(fieldLockMode), "COMPLIANCE", "the lock in a response without a body")
	testenv.Equal(t, s.refused(t, 412, "PreconditionFailed", "GET", "/bucket/put", "", "If-Match", "x").Header.Get(fieldLockMode), "", "the lock in an error's header")
}

// TestLocksAreRefused: settings that no bucket can have are refused, before anything is changed.
func TestLocksAreRefused(t *testing.T) {
	s := newService(t)
	s.want(t, 200, "PUT", "/bucket", "", fieldBucketLocks, "False")
	s.refused(t, 409, "InvalidBucketState", "PUT", "/bucket?object-lock", defaultLocks)
	s.keep(t, "Suspended")
	s.refused(t, 409, "InvalidBucketState", "PUT", "/bucket?object-lock", defaultLocks)
	s.refused(t, 400, "InvalidArgument", "PUT", "/other", "", fieldBucketLocks, "yes")
	s.refused(t, 404, "NoSuchBucket", "GET", "/other?versioning", "")
	s.want(t, 200, "PUT", "/bucket", "", fieldBucketLocks, "TRUE")
	for _, test := range []struct {
		path, body string
		status     int
		code       string
	}{
		{"/bucket?object-lock", strings.Replace(defaultLocks, "Days>1", "Days>0", 1), 400, "InvalidRetentionPeriod"},
		{"/bucket?object-lock", strings.Replace(defaultLocks, "Days>1", "Days>3651", 1), 400, "InvalidRetentionPeriod"},
		{"/bucket?object-lock", strings.Replace(defaultLocks, "GOV", "gov", 1), 400, "MalformedXML"},
		{"/bucket?object-lock", "", 400, "MalformedXML"},
		{"/none?object-lock", defaultLocks, 404, "NoSuchBucket"},
		{"/bucket/none?retention", retained("GOVERNANCE", 1), 404, "NoSuchKey"},
		{"/bucket/none?legal-hold", legalHold, 404, "NoSuchKey"},
		{"/bucket/none?retention", "", 400, "MalformedXML"},
		{"/bucket/none?retention", retained("ANY", 1), 400, "MalformedXML"},
		{"/bucket/none?retention&versionId=x", retained("GOVERNANCE", 1), 400, "InvalidArgument"},
		{"/bucket/none?retention&versionId=" + strings.Repeat("0", 32), retained("GOVERNANCE", 1), 404, "NoSuchVersion"},
		{"/bucket/none?legal-hold", "<LegalHold/>", 400, "MalformedXML"},
		{"/none/none?legal-hold", legalHold, 404, "NoSuchBucket"},
	} {
		s.refused(t, test.status, test.code, "PUT", test.path, test.body)
	}
	s.put(t, "a", "x")
	s.refused(t, 400, "InvalidArgument", "PUT", "/bucket/a?retention", retained("GOVERNANCE", -1))
	s.refused(t, 400, "InvalidArgument", "GET", "/bucket/a", "", fieldLockMode, "GOVERNANCE") // of writes alone
}

// TestRightsToLocks sends each operation on locks by each kind of key: retain sets them, bypass
// shortens governance, and both are in admin.
// Invariant 217.
func TestRightsToLocks(t *testing.T) {
	h := startHosted(t, access.ReadsKey, nil)
	key := func(grants ...keys.Grant) signerOf { return h.key(t, access.NewKey{Grants: grants, Group: "g"}) }
	scoped := func(scopes ...string) keys.Grant {
		return keys.Grant{Scopes: scopes, Accounts: []string{"ours"}, Prefix: "dir/"}
	}
	admin := key(keys.Grant{Scopes: []string{"admin"}, Accounts: []string{"ours"}})
	ask := func(by signerOf, method, path, body string, fields ...string) response {
		return send(t, by.sign(h.request(t, method, path, body, fields...)))
	}
	testenv.Equal(t, ask(admin, "PUT", "/ours", "", fieldBucketLocks, "true").StatusCode, 200, "the bucket")
	for _, caller := range []struct {
		name                                    string
		signer                                  signerOf
		read, write, retains, bypasses, deletes bool
	}{
		{"nobody", signerOf{}, false, false, false, false, false},
		{"a reader", key(scoped("read")), true, false, false, false, false},
		{"a writer", key(scoped("read", "write")), true, true, false, false, false},
		{"a retainer", key(scoped("retain")), false, false, true, false, false},
		{"a backup", key(scoped("read", "write", "retain")), true, true, true, false, false},
		{"an officer", key(scoped("retain", "bypass")), false, false, true, true, false},
		{"a stranger", key(keys.Grant{Scopes: []string{"admin"}, Accounts: []string{"other"}}), false, false, false, false, false},
		{"another prefix's administrator", key(keys.Grant{Scopes: []string{"admin"}, Accounts: []string{"ours"}, Prefix: "else/"}), false, false, false, false, false},
		{"the prefix's administrator", key(scoped("admin")), true, true, true, true, true},
		{"an administrator", admin, true, true, true, true, true},
	} {
		whole := caller.name == "an administrator"
		id := ask(admin, "PUT", "/ours/dir/a", "x", lockedFields("GOVERNANCE", 2)...).Header.Get("X-Amz-Version-Id")
		bypass := []string{fieldBypass, "true"}
		for _, o := range []struct {
			method, path, body string
			fields             []string
			allowed            bool
		}{
			{"GET", "/ours/dir/a?retention", "", nil, caller.read},
			{"GET", "/ours/dir/a?legal-hold", "", nil, caller.read},
			{"GET", "/ours?object-lock", "", nil, caller.read || strings.HasPrefix(caller.name, "another prefix")},
			{"PUT", "/ours?object-lock", defaultLocks, nil, whole},
			{"PUT", "/ours", "", []string{fieldBucketLocks, "true"}, whole},
			{"PUT", "/ours/dir/b", "x", lockedFields("GOVERNANCE", 1), caller.write && caller.retains},
			{"PUT", "/ours/dir/b", "x", []string{fieldLegalHold, "ON"}, caller.write && caller.retains},
			{"POST", "/ours/dir/b?uploads", "", lockedFields("GOVERNANCE", 1), caller.write && caller.retains},
			{"PUT", "/ours/dir/c", "", append(lockedFields("GOVERNANCE", 1), "X-Amz-Copy-Source", "/ours/dir/a"), caller.read && caller.write && caller.retains},
			{"PUT", "/ours/dir/b", "x", nil, caller.write}, // with the default
			{"PUT", "/ours/dir/a?retention", retained("GOVERNANCE", 3), nil, caller.retains},
			{"PUT", "/ours/dir/a?retention", retained("GOVERNANCE", 3), bypass, caller.retains}, // it needs none
			{"PUT", "/ours/dir/a?legal-hold", legalHold, nil, caller.retains},
			{"PUT", "/ours/dir/a?legal-hold&versionId=" + id, noLegalHold, nil, caller.retains},
			{"PUT", "/ours/dir/a?retention", retained("GOVERNANCE", 2), nil, false},
			{"PUT", "/ours/dir/a?retention", retained("GOVERNANCE", 1), bypass, caller.bypasses},
			{"DELETE", "/ours/dir/a?versionId=" + id, "", nil, false},
			{"DELETE", "/ours/dir/a?versionId=" + id, "", bypass, caller.deletes},
		} {
			res := ask(caller.signer, o.method, o.path, o.body, o.fields...)
			if (res.StatusCode == http.StatusForbidden) == o.allowed || res.StatusCode >= 500 {
				t.Errorf("%s %s %v by %s: %d %s, want it allowed: %t", o.method, o.path, o.fields, caller.name, res.StatusCode, res.body, o.allowed)
			}
		}
	}
}
