package s3api

import (
	"net/http/httptest"
	"strings"
	"testing"

	"sluice/internal/testenv"
)

func TestTargets(t *testing.T) {
	const domain = "s3.example.org"
	for _, test := range []struct {
		host, path string
		want       target
	}{
		{"h", "/", target{}},
		{"h", "/bucket", target{bucketLevel, "bucket", ""}},
		{"h", "/bucket/", target{bucketLevel, "bucket", ""}},
		{"h", "/bucket/a/b", target{objectLevel, "bucket", "a/b"}},
		{"h", "/bucket/a%2Fb%20c%25", target{objectLevel, "bucket", "a/b c%"}},
		{"h", "/bucket/a+b", target{objectLevel, "bucket", "a+b"}},
		{"h", "/bucket//a//b/", target{objectLevel, "bucket", "/a//b/"}},
		{"h", "/bucket/../c", target{objectLevel, "bucket", "../c"}},
		{"h", "/%62ucket/%C3%A9", target{objectLevel, "bucket", "é"}},
		{"s3.example.org", "/bucket/a", target{objectLevel, "bucket", "a"}},
		{"bucket.s3.example.org", "/a", target{objectLevel, "bucket", "a"}},
		{"bucket.s3.example.org:9000", "/a/b", target{objectLevel, "bucket", "a/b"}},
		{"Bucket.S3.example.org.", "/", target{bucketLevel, "bucket", ""}},
		{"a.b.s3.example.org", "/c", target{objectLevel, "a.b", "c"}},
		{"bucket.s3.example.com", "/a/b", target{objectLevel, "a", "b"}},
		{"xs3.example.org", "/a/b", target{objectLevel, "a", "b"}},
	} {
		r := httptest.NewRequest("GET", "http://"+test.host+test.path, nil)
		got := testenv.Must(parseTarget(r, domain))(t)
		testenv.Equal(t, got, test.want, "%s%s", test.host, test.path)
	}
	for _, path := range []string{"//a", "//"} {
		r := httptest.NewRequest("GET", "http://h"+path, nil)
		if got, err := parseTarget(r, ""); err == nil && got.level != serviceLevel {
			t.Errorf("%s: %+v, want an error", path, got)
		}
	}
}

func TestDomains(t *testing.T) {
	for _, domain := range []string{"s3.localhost", "s3.example.org", "localhost"} {
		testenv.Check(t, CheckDomain(domain))
	}
	for _, domain := range []string{"", "S3.example.org", ".example.org", "example.org.", "127.0.0.1", "::1", "h:9000", "http://h", "a b", "*.h"} {
		if CheckDomain(domain) == nil {
			t.Errorf("%q is accepted", domain)
		}
	}
}

// TestKeysThatNoBlobCanHave: they are refused with the reason, before anything is stored.
func TestKeysThatNoBlobCanHave(t *testing.T) {
	s := newService(t)
	for _, test := range []struct{ key, code string }{
		{"a%00b", "InvalidArgument"},
		{"a%0Ab", "InvalidArgument"},
		{"a%7Fb", "InvalidArgument"},
		{"a%FFb", "InvalidArgument"},
		{strings.Repeat("k", 1025), "KeyTooLongError"},
		{strings.Repeat("%C3%A9", 1025), "KeyTooLongError"},
	} {
		s.refused(t, 400, test.code, "PUT", "/bucket/"+test.key, "x")
		s.refused(t, 400, test.code, "GET", "/bucket/"+test.key, "")
		s.refused(t, 400, test.code, "DELETE", "/bucket/"+test.key, "")
	}
	s.refused(t, 400, "InvalidBucketName", "PUT", "/Bucket-_!/a", "x")
	s.refused(t, 400, "InvalidURI", "PUT", "/bucket/a?%zz", "x")
	s.refused(t, 400, "InvalidArgument", "GET", "/bucket/a?response-expires=a&response-expires=b", "")
	s.want(t, 200, "PUT", "/bucket", "")
	if got := s.want(t, 200, "GET", "/bucket", "").body; strings.Contains(got, "<Contents>") {
		t.Errorf("something was stored: %s", got)
	}
}

// TestBucketsAreHosts: with a domain, a local instance accepts a bucket's host, and no other.
func TestBucketsAreHosts(t *testing.T) {
	s := start(t, setup{config: func(c *Config) { c.Domain = "s3.localhost" }})
	put := httptest.NewRequest("PUT", "http://bucket.s3.localhost/a/b", strings.NewReader("hosted"))
	testenv.Equal(t, s.direct(put).StatusCode, 200, "a PUT to a bucket's host")
	testenv.Equal(t, s.want(t, 200, "GET", "/bucket/a/b", "").body, "hosted", "the blob in the path style")
	foreign := httptest.NewRequest("GET", "http://bucket.s3.example.org/a/b", nil)
	testenv.Equal(t, s.direct(foreign).StatusCode, 403, "a GET to a foreign host")
}
