package s3api

import (
	"bytes"
	"fmt"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"
	"testing"

	"sluice/access"
	"sluice/access/keys"
	"sluice/blob"
	"sluice/metastore"
	"sluice/test/testenv"
)

// tagged returns a document with tags: keys, each with its value.
func tagged(pairs ...string) string {
	var text strings.Builder
	for pair := range slices.Chunk(pairs, 2) {
		text.WriteString("<Tag><Key>" + pair[0] + "</Key><Value>" + pair[1] + "</Value></Tag>")
	}
	return `<Tagging xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><TagSet>` + text.String() + "</TagSet></Tagging>"
}

// wantTags checks an object's tags, sorted by key, and how many GET and HEAD count.
func (s *service) wantTags(t *testing.T, path string, pairs ...string) {
	t.Helper()
	type document struct {
		Tags []struct{ Key, Value string } `xml:"TagSet>Tag"`
	}
	res := s.want(t, 200, "GET", path+"?tagging", "")
	var got []string
	for _, tag := range decodedAs[document](t, res.body).Tags {
		got = append(got, tag.Key, tag.Value)
	}
	if !slices.Equal(got, pairs) || !strings.Contains(res.body, "<TagSet>") {
		t.Errorf("%s has the tags %q, want %q: %s", path, got, pairs, res.body)
	}
	count := ""
	if len(pairs) > 0 {
		count = fmt.Sprint(len(pairs) / 2)
	}
	for _, method := range []string{"GET", "HEAD"} {
		testenv.Equal(t, s.want(t, 200, method, path, "").Header.Get("X-Amz-Tagging-Count"), count, "the count of %s", method)
	}
}

// TestTags: tags are stored by each operation that states them, and by those that replace them
// alone, which leave the object as it is.
// Invariant 188.
func TestTags(t *testing.T) {
	s := newService(t)
	s.want(t, 200, "PUT", "/bucket/a", "x", "X-Amz-Tagging", "foo=bar&bar&%C3%A4%20+=%2B%3D", "X-Amz-Meta-Color", "red", "X-Amz-Meta-Expiration-Seconds", "3600")
	s.wantTags(t, "/bucket/a", "bar", "", "foo", "bar", "ä  ", "+=")
	before := s.want(t, 200, "HEAD", "/bucket/a", "")
	s.want(t, 200, "PUT", "/bucket/a?tagging", tagged("key", "value", "Key", "a b"))
	s.wantTags(t, "/bucket/a", "Key", "a b", "key", "value")
	after := s.want(t, 200, "HEAD", "/bucket/a", "")
	for _, name := range []string{"Last-Modified", "Etag", "X-Amz-Meta-Color", "X-Amz-Expiration", "Content-Type"} {
		testenv.Equal(t, after.Header.Get(name), before.Header.Get(name), "%s", name)
	}
	if after.Header.Get("X-Amz-Tagging") != "" {
		t.Error("the tags are a header")
	}
	testenv.Equal(t, s.refused(t, 412, "PreconditionFailed", "GET", "/bucket/a", "", "If-Match", `"other"`).Header.Get("X-Amz-Tagging-Count"), "", "an error's count")

	s.want(t, 200, "PUT", "/bucket/copy", "", "X-Amz-Copy-Source", "/bucket/a", "X-Amz-Tagging", "not=used")
	s.wantTags(t, "/bucket/copy", "Key", "a b", "key", "value")
	s.want(t, 200, "PUT", "/bucket/copy", "", "X-Amz-Copy-Source", "/bucket/a", "X-Amz-Metadata-Directive", "REPLACE", "X-Amz-Meta-Size", "s", "X-Amz-Tagging", "not=used")
	s.wantTags(t, "/bucket/copy", "Key", "a b", "key", "value")
	copied := s.want(t, 200, "HEAD", "/bucket/copy", "").Header
	testenv.Equal(t, copied.Get("X-Amz-Meta-Size")+copied.Get("X-Amz-Meta-Color"), "s", "the copy's metadata")
	s.want(t, 200, "PUT", "/bucket/copy", "", "X-Amz-Copy-Source", "/bucket/a", "X-Amz-Tagging-Directive", "REPLACE", "X-Amz-Tagging", "new=tag")
	s.wantTags(t, "/bucket/copy", "new", "tag")
	testenv.Equal(t, s.want(t, 200, "HEAD", "/bucket/copy", "").Header.Get("X-Amz-Meta-Color"), "red", "the metadata of a copy with other tags")
	s.want(t, 200, "PUT", "/bucket/copy", "", "X-Amz-Copy-Source", "/bucket/a", "X-Amz-Tagging-Directive", "REPLACE", "X-Amz-Metadata-Directive", "REPLACE")
	s.wantTags(t, "/bucket/copy")
	s.refused(t, 400, "InvalidArgument", "PUT", "/bucket/copy", "", "X-Amz-Copy-Source", "/bucket/a", "X-Amz-Tagging-Directive", "MERGE")

	id := decodedAs[struct {
		UploadID string `xml:"UploadId"`
	}](t, s.want(t, 200, "POST", "/bucket/parts?uploads", "", "X-Amz-Tagging", "Hello=World").body).UploadID
	part := s.want(t, 200, "PUT", "/bucket/parts?partNumber=1&uploadId="+id, "x").Header.Get("Etag")
	s.want(t, 200, "POST", "/bucket/parts?uploadId="+id, "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>"+part+"</ETag></Part></CompleteMultipartUpload>")
	s.wantTags(t, "/bucket/parts", "Hello", "World")

	s.want(t, 204, "DELETE", "/bucket/a?tagging", "")
	s.wantTags(t, "/bucket/a")
	testenv.Equal(t, s.want(t, 200, "GET", "/bucket/a", "").body, "x", "an object without its tags")
	s.want(t, 200, "PUT", "/bucket/a?tagging", tagged("a", "b"))
	s.want(t, 200, "PUT", "/bucket/a?tagging", tagged())
	s.wantTags(t, "/bucket/a")
	s.want(t, 200, "PUT", "/bucket/parts", "new")
	s.wantTags(t, "/bucket/parts")
	for method, body := range map[string]string{"GET": "", "PUT": tagged("a", "b"), "DELETE": ""} {
		s.refused(t, 404, "NoSuchKey", method, "/bucket/none?tagging", body)
	}
}

// TestTagsOfBuckets: a bucket keeps up to 50 tags while it exists, also one that was not created.
// Invariant 186.
func TestTagsOfBuckets(t *testing.T) {
	s := newService(t)
	var fifty []string
	for i := range 50 {
		fifty = append(fifty, fmt.Sprintf("key%02d", i), "value")
	}
	s.want(t, 200, "PUT", "/created", "")
	s.want(t, 200, "PUT", "/used/a", "x")
	testenv.OK(t, s.database.SetAlias(t.Context(), metastore.Alias{Name: "photos", Account: "aliased"}, nil))
	aliases := testenv.Must(blob.LoadAliases(t.Context(), s.database))(t)
	s = start(t, setup{database: s.database, config: func(c *Config) { c.Aliases = aliases }})
	for _, path := range []string{"/created", "/used", "/photos"} {
		s.refused(t, 404, "NoSuchTagSet", "GET", path+"?tagging", "")
		s.want(t, 204, "DELETE", path+"?tagging", "")
		s.want(t, 204, "PUT", path+"?tagging", tagged(fifty...))
		body := s.want(t, 200, "GET", path+"?tagging", "").body
		testenv.Equal(t, strings.Count(body, "<Value>value</Value>"), 50, "the tags of %s", path)
		s.refused(t, 400, "InvalidTag", "PUT", path+"?tagging", tagged(append(fifty, "more", "value")...))
		s.want(t, 204, "PUT", path+"?tagging", tagged("a", "b"))
		if body := s.want(t, 200, "GET", path+"?tagging", "").body; !strings.Contains(body, "<TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet>") {
			t.Errorf("%s has %s", path, body)
		}
	}
	testenv.Equal(t, decodedAs[sentPage](t, s.want(t, 200, "GET", "/created?list-type=2", "").body).KeyCount, 0, "objects of a bucket with tags")
	s.want(t, 204, "DELETE", "/created?tagging", "")
	s.refused(t, 404, "NoSuchTagSet", "GET", "/created?tagging", "")
	s.want(t, 204, "DELETE", "/used/a", "")
	s.want(t, 204, "DELETE", "/used", "")
	for method, body := range map[string]string{"GET": "", "PUT": tagged("a", "b"), "DELETE": ""} {
		s.refused(t, 404, "NoSuchBucket", method, "/used?tagging", body)
	}
	s.want(t, 200, "PUT", "/used", "")
	s.refused(t, 404, "NoSuchTagSet", "GET", "/used?tagging", "")
}

// TestTagsOfForms: a form has a document with tags.
func TestTagsOfForms(t *testing.T) {
	s := newService(t)
	post := func(tagging string) response {
		var form bytes.Buffer
		w := multipart.NewWriter(&form)
		for _, field := range [][2]string{{"key", "form"}, {"tagging", tagging}, {"Content-Type", "text/plain"}, {"file", "content"}} {
			testenv.OK(t, w.WriteField(field[0], field[1]))
		}
		testenv.OK(t, w.Close())
		return s.do(t, "POST", "/bucket", form.String(), "Content-Type", w.FormDataContentType())
	}
	s.want(t, 200, "PUT", "/bucket", "")
	wantError(t, post("invalid"), 400, "MalformedXML")
	wantError(t, post(tagged("a", "b", "a", "c")), 400, "InvalidTag")
	s.refused(t, 404, "NoSuchKey", "GET", "/bucket/form", "")
	testenv.Equal(t, post(tagged("a", "b")).StatusCode, http.StatusNoContent, "a form with tags")
	s.wantTags(t, "/bucket/form", "a", "b")
}

// TestTagsThatAreRefused: the bounds and characters are Amazon's ("Tag" in the Amazon S3 API
// Reference), and nothing changes by a refusal.
func TestTagsThatAreRefused(t *testing.T) {
	s := newService(t)
	s.want(t, 200, "PUT", "/bucket/a", "x", "X-Amz-Tagging", "old=tag")
	key, value := strings.Repeat("k", 128), strings.Repeat("ä", 256)
	var ten []string
	for i := range 10 {
		ten = append(ten, fmt.Sprint(key[:127], i), value)
	}
	s.want(t, 200, "PUT", "/bucket/most", "x")
	s.want(t, 200, "PUT", "/bucket/most?tagging", tagged(ten...))
	s.wantTags(t, "/bucket/most", ten...)
	for _, pairs := range [][]string{
		append(ten, "k", "v"), {key + "k", "v"}, {"k", value + "v"}, {"k", "v", "k", "w"}, {"k&amp;", "v"}, {"k", "a*b"}, {"k#", "v"}, {"k", "v&#10;"},
	} {
		s.refused(t, 400, "InvalidTag", "PUT", "/bucket/a?tagging", tagged(pairs...))
	}
	for _, body := range []string{"", "<Tagging/>", "<Tagging><TagSet><Tag><Value>v</Value></Tag></TagSet></Tagging>", tagged("", "v"), "<Tagging><TagSet/><TagSet/></Tagging>"} {
		s.refused(t, 400, "MalformedXML", "PUT", "/bucket/a?tagging", body)
	}
	for stated, code := range map[string]string{
		"=": "InvalidArgument", "key%": "InvalidArgument", "k=v&k=w": "InvalidArgument", "k?=v": "InvalidTag", "k=v%21": "InvalidTag", key + "k=v": "InvalidTag",
		"k=%FF": "InvalidTag", "a&b&c&d&e&f&g&h&i&j&k": "InvalidTag",
	} {
		s.refused(t, 400, code, "PUT", "/bucket/a", "y", "X-Amz-Tagging", stated)
		s.refused(t, 400, code, "POST", "/bucket/a?uploads", "", "X-Amz-Tagging", stated)
		s.refused(t, 400, code, "PUT", "/bucket/a", "", "X-Amz-Tagging", stated, "X-Amz-Copy-Source", "/bucket/most")
	}
	testenv.Equal(t, s.want(t, 200, "GET", "/bucket/a", "").body, "x", "the object")
	s.wantTags(t, "/bucket/a", "old", "tag")
}

// TestQuotaOfTags: tags count towards the quota of who states them.
func TestQuotaOfTags(t *testing.T) {
	h := startHosted(t, access.ReadsPublic, nil)
	scopes := []access.Scope{access.ScopeRead, access.ScopeWrite}
	limited := h.key(t, access.NewKey{Scopes: scopes, Group: "limited", Limits: keys.Limits{StoredBytes: 1100}})
	other := h.key(t, access.NewKey{Scopes: scopes, Group: "other"})
	signed := func(k signerOf, method, path, body string) response {
		return send(t, k.sign(h.request(t, method, path, body)))
	}
	testenv.Equal(t, signed(other, "PUT", "/ours", "").StatusCode, 200, "the bucket")
	testenv.Equal(t, signed(limited, "PUT", "/ours/a", "x").StatusCode, 200, "a PUT")
	wantError(t, signed(limited, "PUT", "/ours/a?tagging", tagged("k", strings.Repeat("v", 200))), 403, "QuotaExceeded")
	h.wantTags(t, "/ours/a")
	testenv.Equal(t, signed(limited, "PUT", "/ours/a?tagging", tagged("k", "v")).StatusCode, 200, "tags that fit")
	testenv.Equal(t, signed(other, "PUT", "/ours/a?tagging", tagged("k", strings.Repeat("v", 200))).StatusCode, 200, "another group's tags")
	for group, want := range map[string]int64{"limited": 0, "other": 2} { // the bucket counts, too
		used := testenv.Must(h.database.Usage(t.Context(), group))(t)
		testenv.Equal(t, used.Objects, want, "objects of %s", group)
	}
}
