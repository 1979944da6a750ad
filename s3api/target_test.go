package s3api

import (
	"net/http/httptest"
	"strings"
	"testing"

	"sluice/access"
	"sluice/test/testenv"
)

func TestTargets(t *testing.T) {
	hosted := newHosts([]string{"s3.example.org", "eu.s3.example.org"}, "", false)
	for _, test := range []struct {
		host, path string
		want       target
	}{
		{"127.0.0.1:9000", "/", target{}},
		{"127.0.0.1:9000", "/bucket", target{bucketLevel, "bucket", ""}},
		{"127.0.0.1:9000", "/bucket/", target{bucketLevel, "bucket", ""}},
		{"127.0.0.1:9000", "/bucket/a/b", target{objectLevel, "bucket", "a/b"}},
		{"127.0.0.1:9000", "/bucket/a%2Fb%20c%25", target{objectLevel, "bucket", "a/b c%"}},
		{"127.0.0.1:9000", "/bucket/a+b", target{objectLevel, "bucket", "a+b"}},
		{"127.0.0.1:9000", "/bucket//a//b/", target{objectLevel, "bucket", "/a//b/"}},
		{"127.0.0.1:9000", "/bucket/../c", target{objectLevel, "bucket", "../c"}},
		{"127.0.0.1:9000", "/%62ucket/%C3%A9", target{objectLevel, "bucket", "é"}},
		{"s3.example.org", "/bucket/a", target{objectLevel, "bucket", "a"}},
		{"bucket.s3.example.org", "/a", target{objectLevel, "bucket", "a"}},
		{"bucket.s3.example.org:9000", "/a/b", target{objectLevel, "bucket", "a/b"}},
		{"Bucket.S3.example.org.", "/", target{bucketLevel, "bucket", ""}},
		{"a.b.s3.example.org", "/c", target{objectLevel, "a.b", "c"}},
		{"bucket.eu.s3.example.org", "/a", target{objectLevel, "bucket", "a"}},
		{"eu.s3.example.org", "/bucket/a", target{objectLevel, "bucket", "a"}},
		{"localhost:9000", "/bucket/a", target{objectLevel, "bucket", "a"}},
		{"[::1]:9000", "/bucket/a", target{objectLevel, "bucket", "a"}},
	} {
		r := httptest.NewRequest("GET", "http://"+test.host+test.path, nil)
		got := testenv.Must(parseTarget(r, hosted))(t)
		testenv.Equal(t, got, test.want, "%s%s", test.host, test.path)
	}
	for _, path := range []string{"//a", "//"} {
		r := httptest.NewRequest("GET", "http://localhost"+path, nil)
		if got, err := parseTarget(r, hosted); err == nil && got.level != serviceLevel {
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
		{"a%1Fb", "InvalidArgument"},
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

// TestUnknownHosts checks that no request acts on the bucket that its path names if its host may
// name a different one. Invariant 187.
func TestUnknownHosts(t *testing.T) {
	set, unset := newHosts([]string{"s3.example.org"}, "blobs.example.org", false), newHosts(nil, "blobs.example.org", false)
	for _, test := range []struct {
		hosts   hosts
		host    string
		refused bool
	}{
		{set, "photos.s3.example.com", true}, {set, "xs3.example.org", true}, {set, "example.org", true}, {set, "h:9000", true},
		{set, ".s3.example.org", true}, {set, "blobs.example.org", true}, {set, "photos.localhost", true},
		{unset, "photos.s3.example.org", true}, {unset, "a.b.s3-eu-west-1.example.org:443", true}, {unset, "Photos.Blobs.example.org", true},
		{unset, "photos.localhost", true}, {unset, "s3.example.org", false}, {unset, "blobs.example.org:9000", false}, {unset, "h", false},
		{unset, "10.0.0.1:9000", false}, {unset, "localhost", false}, {set, "10.0.0.1", false}, {set, "", false},
	} {
		r := httptest.NewRequest("PUT", "/2026/a.jpg", nil)
		r.Host = test.host
		if got, err := parseTarget(r, test.hosts); (err != nil) != test.refused || err == nil && got.bucket != "2026" {
			t.Errorf("%s, domains %v: %+v, %v", test.host, test.hosts.domains, got, err)
		}
	}
	h := startHosted(t, access.ReadsPublic, func(c *Config) { c.Domains = []string{"s3.example.org"} })
	writer := h.key(t, access.NewKey{Scopes: []access.Scope{access.ScopeWrite}})
	put := h.request(t, "PUT", "/2026/a.jpg", "x")
	put.Host = "photos.s3.example.com"
	wantError(t, send(t, writer.sign(put)), 403, "AccessForbidden")
	h.refused(t, 404, "NoSuchBucket", "GET", "/2026/a.jpg", "")
}

// TestBucketsAreHosts: with a domain, a local instance accepts a bucket's host, and no other.
// Without one, localhost is the domain.
func TestBucketsAreHosts(t *testing.T) {
	s := start(t, setup{config: func(c *Config) { c.Domains = []string{"s3.test"} }})
	for _, host := range []string{"bucket.s3.test", "bucket.localhost:9000"} {
		put := httptest.NewRequest("PUT", "http://"+host+"/a/b", strings.NewReader(host))
		testenv.Equal(t, s.direct(put).StatusCode, 200, "a PUT to a bucket's host")
		testenv.Equal(t, s.want(t, 200, "GET", "/bucket/a/b", "").body, host, "the blob in the path style")
	}
	for _, host := range []string{"bucket.s3.example.org", "bucket.test", "localhost.test", ".localhost"} {
		foreign := httptest.NewRequest("GET", "http://h/a/b", nil)
		foreign.Host = host
		testenv.Equal(t, s.direct(foreign).StatusCode, 403, "a GET to the host %q", host)
	}
}
