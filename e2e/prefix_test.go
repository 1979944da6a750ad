package e2e

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"sluice/internal/testenv"
)

// directAndThroughNginx runs a test on a hosted service, with a key of every scope: directly, and
// through nginx with the documented configuration.
func directAndThroughNginx(t *testing.T, reads string, run func(s *server)) {
	for _, way := range []string{"straight", "nginx"} {
		t.Run(way, func(t *testing.T) {
			if way == "nginx" {
				testenv.Require(t, testenv.Nginx)
			}
			t.Parallel()
			s := startHosted(t, reads, "--trusted-proxies", "127.0.0.1").asAdmin()
			if way == "nginx" {
				s = s.behindNginx()
			}
			run(s)
		})
	}
}

// TestUnderPrefix checks that names, ranges, conditions and uploads work as without a prefix.
func TestUnderPrefix(t *testing.T) {
	t.Parallel()
	for name, run := range map[string]func(*testing.T, *server){
		"names": testNames, "opaque names": testNamesAreOpaque, "ranges": testRanges, "ranges of nothing": testRangesOfEmptyBlobs,
		"conditions of reads": testConditionsOfReads, "conditions of writes": testConditionsOfWrites,
		"parts": testPartsInAnyOrder, "aborted uploads": testAbortedUploads, "upload pages": testUploadPages,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			directAndThroughNginx(t, "public", func(s *server) { run(s.t.(*testing.T), s) })
		})
	}
}

// TestLongestName stores, reads, lists and deletes a blob under a name of 1,024 characters of 3
// bytes, which makes a URL of 9 KiB. The test also reads it with every byte escaped, and lists it
// with the whole name as prefix.
func TestLongestName(t *testing.T) {
	t.Parallel()
	directAndThroughNginx(t, "key", func(s *server) {
		name := strings.Repeat("日", 1024)
		target := blobTarget("bob", name)
		if len(target) < 9<<10 {
			s.t.Fatalf("the target has %d bytes", len(target))
		}
		s.must(204, "PUT", target, []byte("kept"))
		for _, spelling := range []string{target, "/v1/blobs/bob/" + escapeAll(name)} {
			if r := s.must(200, "GET", spelling, nil); string(r.body) != "kept" {
				s.t.Errorf("it is %v", r)
			}
		}
		var page listed
		s.must(200, "GET", "/v1/blobs/bob?prefix="+url.QueryEscape(name), nil).decode(s.t, &page)
		if len(page.Blobs) != 1 || page.Blobs[0].Name != name {
			s.t.Errorf("the listing with its whole name as prefix has %d blobs", len(page.Blobs))
		}
		s.must(204, "DELETE", target, nil)
	})
}

// TestListingsUnderPrefix lists an account page by page, with names that need escapes as the start
// of pages.
func TestListingsUnderPrefix(t *testing.T) {
	t.Parallel()
	directAndThroughNginx(t, "key", func(s *server) {
		names := []string{"a/b", "a//b", "a/../b", "a/é", "b/x?y#z", "b/100%", "b/a+b&c=d;e", "日/本", "//", "/x"}
		names = slices.DeleteFunc(names, func(name string) bool { return strings.HasSuffix(name, "/") })
		slices.Sort(names)
		for _, name := range names {
			s.must(204, "PUT", blobTarget("0x1", name), []byte(name))
		}
		for _, prefix := range []string{"", "a/", "a//", "b/", "日", "/"} {
			for _, delimiter := range []string{"", "/", "//", "%"} {
				want := entries(names, prefix, delimiter)
				for _, limit := range []int{1, 3, 1000} {
					if got := s.pages(prefix, delimiter, limit); !slices.Equal(got, want) {
						s.t.Errorf("prefix %q, delimiter %q, limit %d: got %q, want %q", prefix, delimiter, limit, got, want)
					}
				}
			}
		}
	})
}

// TestPublicClientUnderPrefix uploads and downloads with the public npm client, unmodified, with a
// key.
func TestPublicClientUnderPrefix(t *testing.T) {
	testenv.Require(t, testenv.NPM)
	t.Parallel()
	directAndThroughNginx(t, "key", func(s *server) {
		t := s.t.(*testing.T)
		for version, cases := range map[string]int{"0.1.0": 25, "0.0.4": 21} {
			// The key is for one account, as a user's key is.
			user := s.as(s.newKey("--scopes", "read,write", "--accounts", "0x1"))
			lines := runClient(t, version, s.url, user.key)
			if len(lines) != cases {
				t.Errorf("the client %s ran %d cases, want %d", version, len(lines), cases)
			}
			for _, line := range lines {
				checkTransfer(t, user, line)
			}
			s.must(204, "DELETE", blobTarget("0x1", "ranged"), nil)
		}
	})
}

// TestRefusedBeforeTheBody checks that the service refuses a client that may not write before it
// has sent any of its body, also for a part of 8 MiB.
func TestRefusedBeforeTheBody(t *testing.T) {
	t.Parallel()
	directAndThroughNginx(t, "public", func(s *server) {
		bodies := []string{fmt.Sprintf("Content-Length: %d", 8<<20)}
		if !s.proxied { // nginx sends 100 Continue itself
			for _, framing := range []string{bodies[0], "Content-Length: 10", "Transfer-Encoding: chunked"} {
				bodies = append(bodies, framing+"\r\nExpect: 100-continue")
			}
		}
		upload := s.begin("bob", "name", 8<<20)
		reader := s.newKey("--scopes", "read", "--all-accounts")
		stranger := s.newKey("--scopes", "write", "--accounts", "alice")
		other := s.newKey("--scopes", "write", "--accounts", "bob")
		for _, target := range []string{blobTarget("bob", "name"), partTarget(upload, 0)} {
			for _, test := range []struct {
				credential string
				status     int
				code       string
			}{
				{"", 401, "credential_required"},
				{"Authorization: Bearer nonsense\r\n", 401, "credential_unknown"},
				{"Authorization: Bearer " + reader + "\r\n", 403, "scope_missing"},
				{"Authorization: Bearer " + stranger + "\r\n", 403, "account_forbidden"},
			} {
				for _, body := range bodies {
					r := s.raw("PUT", "PUT "+s.base+target+" HTTP/1.1\r\nHost: blobs.example.org\r\n"+test.credential+body+"\r\n\r\n")
					checkProblem(s.t, r, test.status, test.code)
				}
			}
		}
		// The service authorizes parts by their upload's account.
		r := s.raw("PUT", "PUT "+s.base+partTarget(upload, 0)+" HTTP/1.1\r\nHost: blobs.example.org\r\nX-Api-Key: "+other+"\r\nContent-Length: 8388608\r\n\r\n")
		checkProblem(s.t, r, 403, "account_forbidden")

		data := content(1, 20<<20)
		s.parts(upload, data, 8<<20)
		s.must(200, "POST", "/v1/multipart-uploads/"+upload+"/complete", nil)
		if r := s.must(200, "GET", blobTarget("bob", "name"), nil); digest(r.body) != digest(data) {
			s.t.Error("the blob is not what was sent")
		}
	})
}

// TestBaseURLAndBasePath checks that a service publishes its configured address, and responds only
// under its path.
func TestBaseURLAndBasePath(t *testing.T) {
	t.Parallel()
	directAndThroughNginx(t, "public", func(s *server) {
		const address = "https://blobs.example.org" + hostedBase
		var facts struct{ Profile, URL, Reads string }
		s.must(200, "GET", "/v1/info", nil).decode(s.t, &facts)
		if facts.Profile != "hosted" || facts.URL != address || facts.Reads != "public" {
			s.t.Errorf("/v1/info is %+v", facts)
		}
		if r := s.must(200, "GET", "/openapi.yaml", nil); !strings.Contains(string(r.body), address) {
			s.t.Errorf("/openapi.yaml does not name %s", address)
		}
		s.must(200, "GET", "/readyz", nil)
		at := *s
		at.base = ""
		for _, target := range []string{"/sluice/", "/sluice/sluice/v1/info", "/sluice/v2/info", "/v1/info", "/sluice", "/sluicev1/info", "/sluice/../v1/info"} {
			if s.proxied && (!strings.HasPrefix(target, "/sluice/") || strings.Contains(target, "..")) {
				continue // the response is nginx's
			}
			if r := at.do("GET", target, nil); r.status != 404 {
				s.t.Errorf("%s: %v, want 404", target, r)
			}
		}
	})
}
