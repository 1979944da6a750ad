package s3api

import (
	"testing"

	"sluice/internal/testenv"
)

// TestCopyKeepsHeaders: a copy has all that its source's writer has said, unless it is replaced.
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
}

func TestCopyRefuses(t *testing.T) {
	s := newService(t)
	s.want(t, 200, "PUT", "/bucket/a", "x")
	s.refused(t, 404, "NoSuchKey", "PUT", "/bucket/b", "", "X-Amz-Copy-Source", "/bucket/none")
	s.refused(t, 400, "InvalidRequest", "PUT", "/bucket/a", "", "X-Amz-Copy-Source", "/bucket/a")
	for _, source := range []string{"a", "/bucket", "/bucket/%zz", "/bucket/"} {
		s.refused(t, 400, "InvalidArgument", "PUT", "/bucket/b", "", "X-Amz-Copy-Source", source)
	}
	s.refused(t, 501, "NotImplemented", "PUT", "/bucket/b", "", "X-Amz-Copy-Source", "/bucket/a?versionId=1")
	s.refused(t, 400, "InvalidArgument", "PUT", "/bucket/b", "", "X-Amz-Copy-Source", "/bucket/a", "X-Amz-Metadata-Directive", "MERGE")
	s.refused(t, 412, "PreconditionFailed", "PUT", "/bucket/b", "", "X-Amz-Copy-Source", "/bucket/a", "X-Amz-Copy-Source-If-None-Match", etagOf("x"))
	s.want(t, 404, "HEAD", "/bucket/b", "")
	s.want(t, 200, "PUT", "/bucket/b", "", "X-Amz-Copy-Source", "/bucket/a?versionId=null", "X-Amz-Copy-Source-If-Match", etagOf("x"))
	s.refused(t, 412, "PreconditionFailed", "PUT", "/bucket/b", "", "X-Amz-Copy-Source", "/bucket/a", "If-None-Match", "*")
}
