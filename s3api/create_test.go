package s3api

import (
	"net/http"
	"strings"
	"testing"

	"sluice/access"
	"sluice/test/testenv"
)

// TestKeysThatCreate tries every way to change an object with a key that may only create: what is
// new is stored, and nothing that exists is replaced or deleted.
// Invariant 192.
func TestKeysThatCreate(t *testing.T) {
	h := startHosted(t, access.ReadsPublic, nil)
	accounts := []string{"ours"}
	owner := h.key(t, access.NewKey{Scopes: []access.Scope{access.ScopeWrite}, Accounts: accounts})
	creator := h.key(t, access.NewKey{Scopes: []access.Scope{access.ScopeCreate}, Accounts: accounts})
	ask := func(by signerOf, method, path, body string, fields ...string) response {
		t.Helper()
		return send(t, by.sign(h.request(t, method, path, body, fields...)))
	}
	testenv.Equal(t, ask(owner, "PUT", "/ours/old", "old").StatusCode, 200, "the old object")
	begin := func(by signerOf, key string) string {
		t.Helper()
		return decodedAs[struct {
			UploadID string `xml:"UploadId"`
		}](t, ask(by, "POST", "/ours/"+key+"?uploads", "").body).UploadID
	}
	// parted returns the path of an upload with a part, and the body that completes it.
	parted := func(by signerOf, key string) (path, completion string) {
		t.Helper()
		path = "/ours/" + key + "?uploadId=" + begin(by, key)
		etag := ask(by, "PUT", path+"&partNumber=1", "new").Header.Get("ETag")
		return path, "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>" + etag + "</ETag></Part></CompleteMultipartUpload>"
	}
	uploaded, completion := parted(creator, "uploaded")
	over, overCompletion := parted(creator, "old")
	aborted, _ := parted(creator, "aborted")
	theirs, theirCompletion := parted(owner, "theirs")
	for _, test := range []struct {
		name, method, path, body string
		status                   int
		fields                   []string
	}{
		{"a new object", "PUT", "/ours/new", "new", 200, nil},
		{"the same again", "PUT", "/ours/new", "new", 403, nil},
		{"an old object", "PUT", "/ours/old", "new", 403, nil},
		{"another bucket", "PUT", "/other/new", "new", 403, nil},
		{"a folder", "PUT", "/ours/folder/", "", 200, nil},
		{"a deletion", "DELETE", "/ours/old", "", 403, nil},
		{"deletions", "POST", "/ours?delete", "<Delete><Object><Key>old</Key></Object></Delete>", 403, nil},
		{"a copy", "PUT", "/ours/copy", "", 200, []string{"X-Amz-Copy-Source", "/ours/old"}},
		{"a copy over an object", "PUT", "/ours/old", "", 403, []string{"X-Amz-Copy-Source", "/ours/new"}},
		{"a copy onto itself", "PUT", "/ours/old", "", 403, []string{"X-Amz-Copy-Source", "/ours/old", "X-Amz-Metadata-Directive", "REPLACE"}},
		{"tags", "PUT", "/ours/old?tagging", "<Tagging><TagSet/></Tagging>", 403, nil},
		{"no tags", "DELETE", "/ours/old?tagging", "", 403, nil},
		{"the bucket's tags", "PUT", "/ours?tagging", "<Tagging><TagSet/></Tagging>", 403, nil},
		{"the bucket's end", "DELETE", "/ours", "", 403, nil},
		{"all uploads", "GET", "/ours?uploads", "", 403, nil},
		{"the parts of an upload", "GET", uploaded, "", 200, nil},
		{"the completion of an upload", "POST", uploaded, completion, 200, nil},
		{"the same again after a lost reply", "POST", uploaded, completion, 200, nil},
		{"a completion over an object", "POST", over, overCompletion, 403, nil},
		{"the end of an upload", "DELETE", aborted, "", 204, nil},
		{"the parts of another group's upload", "GET", theirs, "", 403, nil},
		{"a part of another group's upload", "PUT", theirs + "&partNumber=2", "x", 403, nil},
		{"the completion of another group's upload", "POST", theirs, theirCompletion, 403, nil},
		{"the end of another group's upload", "DELETE", theirs, "", 403, nil},
	} {
		res := ask(creator, test.method, test.path, test.body, test.fields...)
		if res.StatusCode != test.status {
			t.Errorf("%s: %d %s, want %d", test.name, res.StatusCode, res.body, test.status)
		}
		if test.status == http.StatusForbidden && !strings.Contains(res.body, "<Code>AccessDenied</Code>") {
			t.Errorf("%s: %s", test.name, res.body)
		}
	}
	testenv.Equal(t, ask(signerOf{}, "GET", "/ours/old", "").body, "old", "the old object")
	testenv.Equal(t, ask(owner, "POST", theirs, theirCompletion).StatusCode, 200, "the other group's completion")

	// While versioning is suspended, a write replaces the version null of a deleted object.
	admin := h.key(t, access.NewKey{Scopes: []access.Scope{access.ScopeAdmin}, Accounts: accounts})
	for _, r := range [][3]string{
		{"PUT", "/ours/kept", "kept"}, {"PUT", "/ours?versioning", "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"},
		{"DELETE", "/ours/kept"}, {"PUT", "/ours?versioning", "<VersioningConfiguration><Status>Suspended</Status></VersioningConfiguration>"},
	} {
		testenv.Equal(t, ask(admin, r[0], r[1], r[2]).StatusCode/100, 2, "%s %s", r[0], r[1])
	}
	kept, keptCompletion := parted(creator, "kept")
	for _, res := range []response{
		ask(creator, "PUT", "/ours/kept", "new"), ask(creator, "PUT", "/ours/kept", "", "X-Amz-Copy-Source", "/ours/old"), ask(creator, "POST", kept, keptCompletion),
	} {
		testenv.Equal(t, res.StatusCode, 403, "a write that removes a version: %s", res.body)
	}
	testenv.Equal(t, ask(admin, "GET", "/ours/kept?versionId=null", "").body, "kept", "the version")
	testenv.Equal(t, ask(owner, "PUT", "/ours/kept", "new").StatusCode, 200, "an owner's write")
}
