package s3api

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"sluice/test/testenv"
)

// TestCopyKeepsHeaders: a copy has all that its source's writer has stated, unless it is replaced.
func TestCopyKeepsHeaders(t *testing.T) {
	s := newService(t)
	s.want(t, 200, "PUT", "/bucket/a%20b", "copied", "Content-Type", "text/plain", "Cache-Control", "max-age=5", "Content-Encoding", "gzip",
		"Expires", "Thu, 01 Dec 2033 16:00:00 GMT", "X-Amz-Meta-A", "b", "X-Amz-Meta-Expiration-Seconds", "3600")
	res := s.want(t, 200, "PUT", "/other/c", "", "X-Amz-Copy-Source", "/bucket/a%20b")
	testenv.Equal(t, decodedAs[struct{ ETag string }](t, res.body).ETag, etagOf("copied"), "the ETag")
	res = s.want(t, 200, "GET", "/other/c", "")
	testenv.Equal(t, res.body, "copied", "the copy")
	for name, want := range map[string]string{
		"Content-Type": "text/plain", "Cache-Control": "max-age=5", "Content-Encoding": "gzip", "Expires": "Thu, 01 Dec 2033 16:00:00 GMT",
		"X-Amz-Meta-A": "b", "X-Amz-Meta-Expiration-Seconds": "3600",
	} {
		testenv.Equal(t, res.Header.Get(name), want, "%s", name)
	}
	if res.Header.Get("X-Amz-Expiration") == "" {
		t.Error("the copy does not expire")
	}
	s.want(t, 200, "PUT", "/other/c", "", "X-Amz-Copy-Source", "other/c", "X-Amz-Metadata-Directive", "REPLACE", "Content-Type", "text/csv", "X-Amz-Meta-C", "d")
	res = s.want(t, 200, "HEAD", "/other/c", "")
	testenv.Equal(t, res.Header.Get("Content-Type")+res.Header.Get("X-Amz-Meta-C"), "text/csvd", "what was replaced")
	testenv.Equal(t, res.Header.Get("X-Amz-Meta-A")+res.Header.Get("X-Amz-Expiration"), "", "what is gone")
	// As rclone's settier.
	s.want(t, 200, "PUT", "/other/c", "", "X-Amz-Copy-Source", "other/c", "X-Amz-Storage-Class", "STANDARD_IA")
	testenv.Equal(t, s.want(t, 200, "HEAD", "/other/c", "").Header.Get("X-Amz-Meta-C"), "d", "the metadata beside another class")
}

func TestCopyRefuses(t *testing.T) {
	s := newService(t)
	s.want(t, 200, "PUT", "/bucket/a", "x")
	s.refused(t, 404, "NoSuchKey", "PUT", "/bucket/b", "", "X-Amz-Copy-Source", "/bucket/none")
	s.refused(t, 400, "InvalidRequest", "PUT", "/bucket/a", "", "X-Amz-Copy-Source", "/bucket/a")
	s.refused(t, 400, "InvalidArgument", "PUT", "/bucket/b", "", "X-Amz-Copy-Source", "/bucket/a?versionId=1")
	s.refused(t, 400, "InvalidArgument", "PUT", "/bucket/b", "", "X-Amz-Copy-Source", "/bucket/a", "X-Amz-Metadata-Directive", "MERGE")
	s.refused(t, 412, "PreconditionFailed", "PUT", "/bucket/b", "", "X-Amz-Copy-Source", "/bucket/a", "X-Amz-Copy-Source-If-None-Match", etagOf("x"))
	s.want(t, 404, "HEAD", "/bucket/b", "")
	s.want(t, 200, "PUT", "/bucket/b", "", "X-Amz-Copy-Source", "/bucket/a?versionId=null", "X-Amz-Copy-Source-If-Match", etagOf("x"))
	s.refused(t, 412, "PreconditionFailed", "PUT", "/bucket/b", "", "X-Amz-Copy-Source", "/bucket/a", "If-None-Match", "*")
}

// TestCopySources: clients escape a source as a whole (s5cmd), by segments, as in a form, or not at
// all. It names the same object for all of them, as with Amazon, which decodes the value once ("the
// value must be URL-encoded", CopyObject in the Amazon S3 API Reference).
func TestCopySources(t *testing.T) {
	for _, test := range []struct{ source, bucket, key string }{
		{"team/dir/a", "team", "dir/a"},
		{"/team/dir/a", "team", "dir/a"},
		{"team%2Fdir%2Fa", "team", "dir/a"},
		{"%2Fteam%2Fdir%2Fa", "team", "dir/a"},
		{"/team%2fdir%2fa", "team", "dir/a"},
		{"team/dir%2Fa", "team", "dir/a"},
		{"%74eam/%64ir/a", "team", "dir/a"},
		{"team/a b", "team", "a b"},
		{"team/a+b", "team", "a b"},
		{"team/a%20b", "team", "a b"},
		{"team%2Fa+b", "team", "a b"},
		{"team/a%2Bb", "team", "a+b"},
		{"team/a%252Bb", "team", "a%2Bb"},
		{"team/a%3Fb", "team", "a?b"},
		{"team/a%3FversionId%3Dx", "team", "a?versionId=x"},
		{"team%2Fa%3Fb", "team", "a?b"},
		{"team/a%3Fb?versionId=null", "team", "a?b"},
		{"team/a?versionId=null", "team", "a"},
		{"team%2Fa?versionId=null", "team", "a"},
		{"team/a?versionId=", "team", "a"},
		{"team/a?", "team", "a"},
		{"team/\u00e9", "team", "\u00e9"},
		{"team/%C3%A9", "team", "\u00e9"},
		{"team/a%23b", "team", "a#b"},
		{"team/a#b", "team", "a#b"},
		{"team//a", "team", "/a"},
		{"/team//a", "team", "/a"},
		{"team%2F%2Fa", "team", "/a"},
		{"team/a/../b", "team", "a/../b"},
		{"team/dir/", "team", "dir/"},
		{"arn:aws:s3:us-east-1:123456789012:accesspoint/p/object/a", "arn:aws:s3:us-east-1:123456789012:accesspoint", "p/object/a"},
	} {
		bucket, key, _, err := splitCopySource(test.source)
		testenv.Equal(t, fmt.Sprintf("%q %q %v", bucket, key, err), fmt.Sprintf("%q %q <nil>", test.bucket, test.key), "%s", test.source)
	}
	s := newService(t)
	for _, source := range []string{"a", "/bucket", "/bucket/", "//bucket/a", "bucket%2F", "bucket%252Fa", "/bucket/%zz", "bucket/a%", "/bucket/a?b", "/bucket/a?x=1&versionId=null"} {
		s.refused(t, 400, "InvalidArgument", "PUT", "/bucket/b", "", "X-Amz-Copy-Source", source)
	}
	s.refused(t, 400, "InvalidBucketName", "PUT", "/bucket/b", "", "X-Amz-Copy-Source", "arn:aws:s3:us-east-1:123456789012:accesspoint/p/object/a")
	s.want(t, 200, "PUT", "/bucket/a%20b%3Fc", "escaped")
	s.want(t, 200, "PUT", "/bucket/b", "", "X-Amz-Copy-Source", "bucket%2Fa+b%3Fc")
	testenv.Equal(t, s.want(t, 200, "GET", "/bucket/b", "").body, "escaped", "the copy")
}

// FuzzCopySources: an escaped source is the object that was escaped.
func FuzzCopySources(f *testing.F) {
	for _, key := range []string{"a", "a b", "a+b", "a?b", "/a", "a%2Fb", "é", "?versionId=null"} {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		_, _, _, _ = splitCopySource(key) // it must not panic
		if key == "" {
			return
		}
		for _, source := range []string{url.QueryEscape("team/" + key), "/team/" + strings.ReplaceAll(url.QueryEscape(key), "+", "%20")} {
			bucket, got, _, err := splitCopySource(source)
			testenv.Equal(t, fmt.Sprint(bucket, "/", got, err), fmt.Sprint("team/", key, nil), "%s", source)
		}
	})
}
