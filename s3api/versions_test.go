package s3api

import (
	"encoding/xml"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"sluice/access"
	"sluice/access/keys"
	"sluice/test/testenv"
)

// sentVersions is a page of ListObjectVersions.
type sentVersions struct {
	IsTruncated         bool
	NextKeyMarker       string
	NextVersionIDMarker string `xml:"NextVersionIdMarker"`
	CommonPrefixes      []struct{ Prefix string }
	All                 []sentVersion `xml:",any"`
}

// sentVersion is a version or a mark.
type sentVersion struct {
	XMLName   xml.Name
	Key, ETag string
	VersionID string `xml:"VersionId"`
	IsLatest  bool
	Owner     *struct{ ID string }
}

// versions returns a page's versions and marks, in its order.
func (p *sentVersions) versions() []sentVersion {
	return slices.DeleteFunc(p.All, func(v sentVersion) bool { return v.XMLName.Local != "Version" && v.XMLName.Local != "DeleteMarker" })
}

// keep sets a bucket's versioning.
func (s *service) keep(t testing.TB, status string) {
	t.Helper()
	s.want(t, 200, "PUT", "/bucket", "")
	s.want(t, 200, "PUT", "/bucket?versioning", "<VersioningConfiguration><Status>"+status+"</Status></VersioningConfiguration>")
	got := s.want(t, 200, "GET", "/bucket?versioning", "").body
	testenv.Equal(t, strings.Contains(got, "<Status>"+status+"</Status>"), true, "the versioning is %s", got)
}

// kept returns all versions of a bucket with their contents, which are among these: "*" stands
// behind the latest one, and "?" behind the one with the id "null".
func (s *service) kept(t *testing.T, contents ...string) string {
	t.Helper()
	var list []string
	page := decodedAs[sentVersions](t, s.want(t, 200, "GET", "/bucket?versions", "").body)
	for _, v := range page.versions() {
		text := v.Key + "="
		if v.XMLName.Local == "DeleteMarker" {
			text += "mark"
		}
		for _, content := range contents {
			if v.ETag == etagOf(content) {
				text += content
			}
		}
		testenv.Equal(t, v.Owner != nil && v.Owner.ID == "bucket", true, "the owner of %s", text)
		list = append(list, text+map[bool]string{true: "*"}[v.IsLatest]+map[bool]string{true: "?"}[v.VersionID == "null"])
	}
	return strings.Join(list, " ")
}

// put stores an object, and returns its version.
func (s *service) put(t *testing.T, key, content string) string {
	t.Helper()
	return s.want(t, 200, "PUT", "/bucket/"+key, content).Header.Get("X-Amz-Version-Id")
}

// TestVersionsOfAnObject follows an object through all states of its bucket, in the words of "How
// S3 Versioning works" (Amazon S3 User Guide). A folder's marker has versions too.
// Invariant 208.
func TestVersionsOfAnObject(t *testing.T) {
	for _, key := range []string{"a", "dir/"} {
		t.Run(key, func(t *testing.T) {
			s := newService(t)
			path := "/bucket/" + key
			kept := func(want string) {
				t.Helper()
				want = strings.ReplaceAll(" "+want, " ", " "+key+"=")[1:]
				testenv.Equal(t, s.kept(t, "one", "two", "three"), want, "the versions")
			}
			removed := func(query, id string, mark bool) string {
				t.Helper()
				h := s.want(t, 204, "DELETE", path+query, "").Header
				got := h.Get("X-Amz-Version-Id")
				testenv.Equal(t, h.Get("X-Amz-Delete-Marker") == "true", mark, "DELETE %s sets or deletes a mark", query)
				testenv.Equal(t, id == "" && len(got) == 32 || got == id, true, "DELETE %s returns the id %s", query, got)
				return got
			}
			s.want(t, 404, "GET", path, "") // now it is remembered that the bucket keeps no versions
			testenv.Equal(t, s.put(t, key, "one"), "", "an id without versions")
			s.keep(t, "Enabled")
			two := s.put(t, key, "two")
			kept("two* one?")
			res := s.want(t, 200, "GET", path, "")
			testenv.Equal(t, res.body+res.Header.Get("X-Amz-Version-Id"), "two"+two, "the current version")
			res = s.want(t, 206, "GET", path+"?versionId=null", "", "Range", "bytes=1-")
			testenv.Equal(t, res.body+" "+res.Header.Get("X-Amz-Version-Id"), "ne null", "a range of the first version")

			mark := removed("", "", true)
			for _, method := range []string{"GET", "HEAD"} {
				h := s.want(t, 404, method, path, "").Header
				testenv.Equal(t, h.Get("X-Amz-Delete-Marker")+h.Get("X-Amz-Version-Id"), "true"+mark, "the header of what was deleted")
				h = s.want(t, 405, method, path+"?versionId="+mark, "").Header
				testenv.Equal(t, h.Get("Allow")+h.Get("X-Amz-Delete-Marker"), "DELETEtrue", "the header of a mark")
				testenv.Must(http.ParseTime(h.Get("Last-Modified")))(t)
			}
			kept("mark* two one?")
			testenv.Equal(t, decodedAs[sentPage](t, s.want(t, 200, "GET", "/bucket?list-type=2", "").body).KeyCount, 0, "objects")
			s.refused(t, 409, "BucketNotEmpty", "DELETE", "/bucket", "")
			removed("?versionId="+mark, mark, true)
			testenv.Equal(t, s.want(t, 200, "GET", path, "").Header.Get("X-Amz-Version-Id"), two, "the version that is current again")

			s.keep(t, "Suspended")
			testenv.Equal(t, s.put(t, key, "three"), "", "an id while versioning is suspended")
			kept("three*? two")
			for range 2 {
				removed("", "null", true)
				kept("mark*? two")
			}
			removed("?versionId=null", "null", true)
			kept("two*")
			removed("?versionId="+two, two, false)
			removed("?versionId="+two, two, false)
			s.want(t, 204, "DELETE", "/bucket", "")
		})
	}
}

// TestOperationsOnVersions sends each operation that can name a version one of each kind.
func TestOperationsOnVersions(t *testing.T) {
	s := newService(t)
	s.keep(t, "Enabled")
	tags := "<Tagging><TagSet><Tag><Key>k</Key><Value>v</Value></Tag></TagSet></Tagging>"
	upload := decodedAs[struct {
		UploadID string `xml:"UploadId"`
	}](t, s.want(t, 200, "POST", "/bucket/parts?uploads", "").body).UploadID
	for _, o := range []struct {
		method, path, body string
		mark               int // the status for a mark's version
		fields             []string
	}{
		{"GET", "/bucket/a?", "", 405, nil},
		{"HEAD", "/bucket/a?", "", 405, nil},
		{"GET", "/bucket/a?partNumber=1&", "", 405, nil},
		{"GET", "/bucket/a?acl&", "", 405, nil},
		{"PUT", "/bucket/a?acl&", "", 405, []string{"X-Amz-Acl", "private"}},
		{"GET", "/bucket/a?attributes&", "", 405, []string{"X-Amz-Object-Attributes", "ETag"}},
		{"PUT", "/bucket/a?tagging&", tags, 405, nil},
		{"GET", "/bucket/a?tagging&", "", 405, nil},
		{"DELETE", "/bucket/a?tagging&", "", 405, nil},
		{"PUT", "/bucket/b", "", 400, []string{"X-Amz-Copy-Source", "/bucket/a?"}},
		{"PUT", "/bucket/a", "", 400, []string{"X-Amz-Copy-Source", "/bucket/a?"}},
		{"PUT", "/bucket/parts?partNumber=1&uploadId=" + upload, "", 400, []string{"X-Amz-Copy-Source", "/bucket/a?"}},
		{"DELETE", "/bucket/a?", "", 204, nil},
	} {
		old := s.put(t, "a", "old")
		newer := s.put(t, "a", "newer")
		mark := s.want(t, 204, "DELETE", "/bucket/a", "").Header.Get("X-Amz-Version-Id")
		unknown := old[:31] + map[bool]string{true: "1", false: "0"}[old[31] == '0']
		named, field := "versionId=", "X-Amz-Version-Id"
		ask := func(id string) response {
			fields := slices.Clone(o.fields)
			if len(fields) > 0 && fields[0] == "X-Amz-Copy-Source" {
				fields[1], field = fields[1]+named+id, "X-Amz-Copy-Source-Version-Id"
				return s.do(t, o.method, o.path, o.body, fields...)
			}
			return s.do(t, o.method, o.path+named+id, o.body, fields...)
		}
		missing := 404
		if o.mark == 204 { // a deletion can be repeated
			missing = 204
		}
		for _, test := range []struct {
			id     string
			status int
		}{{"x", 400}, {old + "0", 400}, {strings.ToUpper(old), 400}, {unknown, missing}, {mark, o.mark}, {old, 0}, {newer, 0}} {
			res := ask(test.id)
			if test.status != 0 && res.StatusCode != test.status || test.status == 0 && res.StatusCode/100 != 2 {
				t.Errorf("%s %s %v of %s: %d %s, want %d", o.method, o.path, o.fields, test.id, res.StatusCode, res.body, test.status)
			}
			code := map[int]string{400: "InvalidArgument", 404: "NoSuchVersion", 405: "MethodNotAllowed"}[res.StatusCode]
			if test.id == mark && code == "InvalidArgument" {
				code = "InvalidRequest"
			}
			if code != "" && o.method != "HEAD" {
				wantError(t, res, res.StatusCode, code)
			}
			if got := res.Header.Get(field); res.StatusCode/100 == 2 && got != test.id {
				t.Errorf("%s %s of %s: %s is %q", o.method, o.path, test.id, field, got)
			}
		}
		s.refused(t, 404, "NoSuchBucket", "GET", "/none/a?versionId="+old, "")
	}
	// A restored version and a copy are versions of their own.
	one := s.put(t, "c", "one")
	s.put(t, "c", "two")
	res := s.want(t, 200, "PUT", "/bucket/c", "", "X-Amz-Copy-Source", "/bucket/c?versionId="+one)
	restored := res.Header.Get("X-Amz-Version-Id")
	res = s.want(t, 200, "GET", "/bucket/c", "")
	testenv.Equal(t, res.body+res.Header.Get("X-Amz-Version-Id"), "one"+restored, "the restored version")
	testenv.Equal(t, restored != one && len(restored) == 32, true, "the id of a restored version is %s", restored)
	// Tags belong to one version, and make no other.
	s.want(t, 200, "PUT", "/bucket/c?tagging&versionId="+one, tags)
	for id, want := range map[string]bool{one: true, restored: false} {
		got := s.want(t, 200, "GET", "/bucket/c?tagging&versionId="+id, "")
		testenv.Equal(t, strings.Contains(got.body, "<Key>k</Key>"), want, "the tags of %s: %s", id, got.body)
	}
	testenv.Equal(t, strings.Count(s.kept(t), "c="), 3, "versions")
	s.want(t, 200, "PUT", "/bucket/parts?partNumber=1&uploadId="+upload, "", "X-Amz-Copy-Source", "/bucket/c?versionId="+one)
	done := s.want(t, 200, "POST", "/bucket/parts?uploadId="+upload, "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>"+etagOf("one")+"</ETag></Part></CompleteMultipartUpload>")
	res = s.want(t, 200, "GET", "/bucket/parts?versionId="+done.Header.Get("X-Amz-Version-Id"), "")
	testenv.Equal(t, res.body, "one", "the upload's object")
	body, mediaType := form(t, "key", "posted", "file", "x")
	posted := s.want(t, 204, "POST", "/bucket", body, "Content-Type", mediaType).Header.Get("X-Amz-Version-Id")
	s.want(t, 200, "GET", "/bucket/posted?versionId="+posted, "")
}

// TestDeletionsOfVersions reports each version and mark that one request deletes or sets.
func TestDeletionsOfVersions(t *testing.T) {
	s := newService(t)
	s.keep(t, "Enabled")
	id := s.put(t, "a", "x")
	type deleted struct {
		Key       string
		VersionID string `xml:"VersionId"`
		Mark      bool   `xml:"DeleteMarker"`
		MarkID    string `xml:"DeleteMarkerVersionId"`
	}
	remove := func(objects string) []deleted {
		return decodedAs[struct{ Deleted []deleted }](t, s.want(t, 200, "POST", "/bucket?delete", "<Delete>"+objects+"</Delete>").body).Deleted
	}
	named := func(key, id string) string {
		return "<Object><Key>" + key + "</Key><VersionId>" + id + "</VersionId></Object>"
	}
	got := remove("<Object><Key>a</Key></Object><Object><Key>none</Key></Object>")
	for i, key := range []string{"a", "none"} {
		testenv.Equal(t, got[i].Mark && len(got[i].MarkID) == 32, true, "the mark of %s: %v", key, got[i])
	}
	mark, none := got[0].MarkID, got[1].MarkID
	for range 2 { // it can be repeated
		got = remove(named("a", id) + named("a", mark) + named("none", none))
		testenv.Equal(t, len(got), 3, "the report: %v", got)
	}
	testenv.Equal(t, s.kept(t), "", "versions that are left")
	s.put(t, "a", "x")
	mark = remove("<Object><Key>a</Key></Object>")[0].MarkID
	testenv.Equal(t, fmt.Sprint(remove(named("a", mark))), fmt.Sprint([]deleted{{"a", mark, true, mark}}), "a mark that is deleted")
}

// TestQuotaOfMarks: a deletion is not refused without quota, but sets no mark where there is no
// object, so that no key stores marks without limit.
func TestQuotaOfMarks(t *testing.T) {
	h := startHosted(t, access.ReadsPublic, nil)
	scopes := []access.Scope{access.ScopeAdmin}
	limited := h.key(t, access.NewKey{Scopes: scopes, Accounts: []string{"ours"}, Group: "limited", Limits: keys.Limits{StoredBytes: 3500}})
	operator := h.key(t, access.NewKey{Scopes: scopes})
	signed := func(k signerOf, method, path, body string) response {
		return send(t, k.sign(h.request(t, method, path, body)))
	}
	testenv.Equal(t, signed(operator, "PUT", "/ours", "").StatusCode, 200, "the bucket")
	const enabled = "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"
	testenv.Equal(t, signed(operator, "PUT", "/ours?versioning", enabled).StatusCode, 200, "versioning")
	testenv.Equal(t, signed(limited, "PUT", "/ours/a", "x").StatusCode, 200, "a PUT")
	marks := 0
	for _, key := range []string{"none", "none", "none", "none", "a"} {
		res := signed(limited, "DELETE", "/ours/"+key, "")
		testenv.Equal(t, res.StatusCode, 204, "a DELETE of %s", key)
		if res.Header.Get("X-Amz-Delete-Marker") == "true" {
			marks++
		}
	}
	testenv.Equal(t, marks, 3, "marks: two that fit, and an object's")
}

// TestListsOfVersionsAreComplete walks through the pages of lists of random versions, and compares
// them with the versions.
// Invariant 208.
func TestListsOfVersionsAreComplete(t *testing.T) {
	s := newService(t)
	random := rand.New(rand.NewPCG(1, 2))
	keys := []string{"a", "a/", "a/b", "a/b/", "a/c", "ab", "b", "é/", "é/x"}
	versions := map[string][]string{} // of keys, the newest first
	for i := range 60 {
		if i == 20 {
			s.keep(t, "Enabled")
		}
		key := keys[random.IntN(len(keys))]
		id := s.put(t, url.PathEscape(key), fmt.Sprint(i))
		if id == "" {
			id = "null"
			versions[key] = nil
		}
		versions[key] = append([]string{id}, versions[key]...)
		if i > 20 && random.IntN(4) == 0 {
			id = s.want(t, 204, "DELETE", "/bucket/"+url.PathEscape(key), "").Header.Get("X-Amz-Version-Id")
			versions[key] = append([]string{id}, versions[key]...)
		}
	}
	choose := func(from ...string) string { return from[random.IntN(len(from))] }
	for range 60 {
		prefix, delimiter, after := choose("", "", "a", "a/", "é"), choose("", "/", "/", "b"), choose("", "a", "a/", "b", keys[random.IntN(len(keys))])
		behind := ""
		if list := versions[after]; len(list) > 0 && random.IntN(2) == 0 {
			behind = list[random.IntN(len(list))]
		}
		var want []string
		for _, key := range keys {
			rest, selected := strings.CutPrefix(key, prefix)
			list := versions[key]
			if key == after {
				list = list[1+slices.Index(list, behind):]
			}
			if !selected || key < after || key == after && behind == "" || len(list) == 0 {
				continue
			}
			if i := strings.Index(rest, delimiter); delimiter != "" && i >= 0 {
				if group := prefix + rest[:i+len(delimiter)]; group != after && !slices.Contains(want, group) {
					want = append(want, group)
				}
				continue
			}
			for _, id := range list {
				want = append(want, fmt.Sprint(key, " ", id, " ", id == versions[key][0]))
			}
		}
		slices.SortStableFunc(want, func(a, b string) int {
			a, _, _ = strings.Cut(a, " ")
			b, _, _ = strings.Cut(b, " ")
			return strings.Compare(a, b)
		})
		for _, limit := range []int{1, 2, 1000} {
			got := s.walkVersions(t, prefix, delimiter, after, behind, limit)
			if !slices.Equal(got, want) {
				t.Fatalf("prefix %q, delimiter %q, after %q %q, pages of %d:\n%q, want\n%q", prefix, delimiter, after, behind, limit, got, want)
			}
		}
	}
}

// walkVersions returns the versions and the groups on all pages of a list.
func (s *service) walkVersions(t *testing.T, prefix, delimiter, after, behind string, limit int) (list []string) {
	t.Helper()
	query := url.Values{"versions": {""}, "prefix": {prefix}, "delimiter": {delimiter}, "key-marker": {after}, "max-keys": {fmt.Sprint(limit)}}
	if behind != "" {
		query.Set("version-id-marker", behind)
	}
	for more := true; more; {
		page := decodedAs[sentVersions](t, s.want(t, 200, "GET", "/bucket?"+query.Encode(), "").body)
		var entries []string
		for _, v := range page.versions() {
			entries = append(entries, fmt.Sprint(v.Key, " ", v.VersionID, " ", v.IsLatest))
		}
		for _, group := range page.CommonPrefixes {
			at := slices.IndexFunc(entries, func(e string) bool { return e > group.Prefix })
			if at < 0 {
				at = len(entries)
			}
			entries = slices.Insert(entries, at, group.Prefix)
		}
		if len(entries) > limit || page.IsTruncated && len(entries) == 0 {
			t.Fatalf("a page has %d entries, want at most %d", len(entries), limit)
		}
		list, more = append(list, entries...), page.IsTruncated
		query.Set("key-marker", page.NextKeyMarker)
		if query.Del("version-id-marker"); page.NextVersionIDMarker != "" {
			query.Set("version-id-marker", page.NextVersionIDMarker)
		}
	}
	return list
}

// TestRightsToVersions sends each operation on versions by each kind of caller, in places of each
// kind. What is not current needs read, even where reads are public, and only an administrator
// deletes it or changes what is kept.
// Invariant 207.
func TestRightsToVersions(t *testing.T) {
	for _, reads := range []access.Reads{access.ReadsPublic, access.ReadsKey} {
		h := startHosted(t, reads, nil)
		key := func(account string, scopes ...access.Scope) signerOf {
			return h.key(t, access.NewKey{Scopes: scopes, Accounts: []string{account}})
		}
		admin := key("ours", access.ScopeAdmin)
		ask := func(by signerOf, method, path, body string, fields ...string) response {
			return send(t, by.sign(h.request(t, method, path, body, fields...)))
		}
		public := reads == access.ReadsPublic
		const enabled = "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"
		testenv.Equal(t, ask(admin, "PUT", "/ours", "").StatusCode, 200, "the bucket")
		for _, caller := range []struct {
			name                string
			signer              signerOf
			read, write, admins bool
		}{
			{"nobody", signerOf{}, false, false, false},
			{"a stranger", key("other", access.ScopeAdmin), false, false, false},
			{"a reader", key("ours", access.ScopeRead), true, false, false},
			{"a creator", key("ours", access.ScopeRead, access.ScopeCreate), true, false, false},
			{"a writer", key("ours", access.ScopeWrite), false, true, false},
			{"a user", key("ours", access.ScopeRead, access.ScopeWrite), true, true, false},
			{"a prefix's administrator", h.key(t, access.NewKey{Scopes: []access.Scope{access.ScopeAdmin}, Accounts: []string{"ours"}, Prefix: "dir/"}), true, true, true},
			{"an administrator", admin, true, true, true},
		} {
			whole := caller.name == "an administrator"
			testenv.Equal(t, ask(admin, "PUT", "/ours?versioning", enabled).StatusCode, 200, "Enabled")
			old := ask(admin, "PUT", "/ours/dir/a", "old").Header.Get("X-Amz-Version-Id")
			current := ask(admin, "PUT", "/ours/dir/a", "current").Header.Get("X-Amz-Version-Id")
			from := []string{"X-Amz-Copy-Source", "/ours/dir/a?versionId="}
			for _, o := range []struct {
				method, path, body string
				fields             []string
				allowed            bool
			}{
				{"GET", "/ours/dir/a?versionId=" + old, "", nil, caller.read},
				{"HEAD", "/ours/dir/a?versionId=" + old, "", nil, caller.read},
				{"GET", "/ours/dir/a?versionId=" + current, "", nil, caller.read || public},
				{"GET", "/ours/dir/a?tagging&versionId=" + old, "", nil, caller.read},
				{"GET", "/ours/dir/a?acl&versionId=" + old, "", nil, caller.read},
				{"GET", "/ours/dir/a?attributes&versionId=" + old, "", []string{"X-Amz-Object-Attributes", "ETag"}, caller.read},
				{"GET", "/ours/dir/a?versionId=" + strings.Repeat("0", 32), "", nil, caller.read},
				{"GET", "/ours?versions&prefix=dir/", "", nil, caller.read},
				{"GET", "/ours?versioning", "", nil, caller.read || public},
				{"PUT", "/ours/dir/b", "", []string{from[0], from[1] + old}, caller.read && caller.write || caller.name == "a creator"},
				{"PUT", "/ours/dir/c", "", []string{from[0], from[1] + current}, (caller.read || public) && caller.write || caller.name == "a creator"},
				{"PUT", "/ours/dir/a?tagging&versionId=" + old, "<Tagging><TagSet/></Tagging>", nil, caller.write},
				{"DELETE", "/ours/dir/a?versionId=" + old, "", nil, caller.admins},
				{"DELETE", "/ours/dir/a?versionId=null", "", nil, caller.admins},
				{"DELETE", "/ours/dir/a", "", nil, caller.write},
				{"PUT", "/ours?versioning", "<VersioningConfiguration><Status>Suspended</Status></VersioningConfiguration>", nil, whole},
			} {
				res := ask(caller.signer, o.method, o.path, o.body, o.fields...)
				if (res.StatusCode == 403) == o.allowed || res.StatusCode >= 500 {
					t.Errorf("%s %s %v by %s, reads %s: %d %s, want it allowed: %t", o.method, o.path, o.fields, caller.name, reads, res.StatusCode, res.body, o.allowed)
				}
			}
			// Each version among many needs the same right.
			ask(admin, "PUT", "/ours?versioning", enabled)
			old = ask(admin, "PUT", "/ours/dir/a", "old").Header.Get("X-Amz-Version-Id")
			mark := ask(admin, "DELETE", "/ours/dir/a", "").Header.Get("X-Amz-Version-Id")
			ask(caller.signer, "POST", "/ours?delete", "<Delete><Object><Key>dir/a</Key><VersionId>"+old+"</VersionId></Object></Delete>")
			testenv.Equal(t, ask(admin, "HEAD", "/ours/dir/a?versionId="+old, "").StatusCode == 404, caller.admins, "%s deletes a version among many", caller.name)
			shown := ask(caller.signer, "GET", "/ours/dir/a", "").Header.Get("X-Amz-Delete-Marker") == "true"
			testenv.Equal(t, shown, caller.read, "%s sees the mark %s", caller.name, mark)
		}
	}
}

// TestVersioningIsRefused: settings that do not exist, and fields of a deletion with a second
// factor, are refused by name.
func TestVersioningIsRefused(t *testing.T) {
	s := newService(t)
	s.put(t, "a", "x")
	for inner, want := range map[string]string{
		"<Status>Enabled</Status><MfaDelete>Enabled</MfaDelete>": "501 NotImplemented",
		"<Status>enabled</Status>":                               "400 MalformedXML",
		"<Status>Enabled</Status><Status>Suspended</Status>":     "400 MalformedXML",
		"<Status>Enabled</Status><MfaDelete>maybe</MfaDelete>":   "400 MalformedXML",
		"<Status>Enabled</Status><ExcludedPrefixes/>":            "400 MalformedXML", // MinIO's
		"": "400 IllegalVersioningConfigurationException",
	} {
		res := s.do(t, "PUT", "/bucket?versioning", "<VersioningConfiguration>"+inner+"</VersioningConfiguration>")
		testenv.Equal(t, fmt.Sprint(res.StatusCode, " ", decodedAs[sentError](t, res.body).Code), want, "%s", inner)
	}
	s.refused(t, 404, "NoSuchBucket", "PUT", "/none?versioning", "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>")
	s.refused(t, 400, "InvalidRequest", "DELETE", "/bucket/a", "", "X-Amz-Mfa", "1 123456")
	s.want(t, 200, "PUT", "/bucket?versioning", "<VersioningConfiguration><Status>Enabled</Status><MfaDelete>Disabled</MfaDelete></VersioningConfiguration>")
	s.keep(t, "Suspended")
}
