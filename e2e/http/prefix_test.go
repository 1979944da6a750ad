package http

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"sluice/e2e"
	"sluice/internal/testenv"
)

// directAndThroughNginx runs a test on a hosted service, with a key of every scope: directly, and
// through nginx with the documented configuration.
func directAndThroughNginx(t *testing.T, reads string, run func(s *e2e.Server)) {
	for _, way := range []string{"straight", "nginx"} {
		t.Run(way, func(t *testing.T) {
			if way == "nginx" {
				testenv.Require(t, testenv.Nginx)
			}
			t.Parallel()
			s := e2e.StartHosted(t, reads, "--trusted-proxies", "127.0.0.1").AsAdmin()
			if way == "nginx" {
				s = s.BehindNginx()
			}
			run(s)
		})
	}
}

// TestPublicClientUnderPrefix uploads and downloads with the public npm client, unmodified, with a
// key.
func TestPublicClientUnderPrefix(t *testing.T) {
	testenv.Require(t, testenv.NPM)
	t.Parallel()
	directAndThroughNginx(t, "key", func(s *e2e.Server) {
		t := s.T.(*testing.T)
		for version, cases := range map[string]int{"0.1.0": 25, "0.0.4": 21} {
			// The key is for one account, as a user's key is.
			user := s.As(s.NewKey("--scopes", "read,write", "--accounts", "0x1"))
			lines := e2e.RunClient(t, version, s.URL, user.Key)
			if len(lines) != cases {
				t.Errorf("the client %s ran %d cases, want %d", version, len(lines), cases)
			}
			for _, line := range lines {
				e2e.CheckTransfer(t, user, line)
			}
			s.Must(204, "DELETE", e2e.BlobTarget("0x1", "ranged"), nil)
		}
	})
}

// TestRefusedBeforeTheBody checks that the service refuses a client that may not write before it
// has sent any of its body, also for a part of 8 MiB.
func TestRefusedBeforeTheBody(t *testing.T) {
	t.Parallel()
	directAndThroughNginx(t, "public", func(s *e2e.Server) {
		bodies := []string{fmt.Sprintf("Content-Length: %d", 8<<20)}
		if !s.Proxied { // nginx sends 100 Continue itself
			for _, framing := range []string{bodies[0], "Content-Length: 10", "Transfer-Encoding: chunked"} {
				bodies = append(bodies, framing+"\r\nExpect: 100-continue")
			}
		}
		upload := s.Begin("bob", "name", 8<<20)
		reader := s.NewKey("--scopes", "read", "--all-accounts")
		stranger := s.NewKey("--scopes", "write", "--accounts", "alice")
		other := s.NewKey("--scopes", "write", "--accounts", "bob")
		for _, target := range []string{e2e.BlobTarget("bob", "name"), e2e.PartTarget(upload, 0)} {
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
					r := s.Raw("PUT", "PUT "+s.Base+target+" HTTP/1.1\r\nHost: blobs.example.org\r\n"+test.credential+body+"\r\n\r\n")
					e2e.CheckProblem(s.T, r, test.status, test.code)
				}
			}
		}
		// The service authorizes parts by their upload's account.
		r := s.Raw("PUT", "PUT "+s.Base+e2e.PartTarget(upload, 0)+" HTTP/1.1\r\nHost: blobs.example.org\r\nX-Api-Key: "+other+"\r\nContent-Length: 8388608\r\n\r\n")
		e2e.CheckProblem(s.T, r, 403, "account_forbidden")

		data := e2e.Content(1, 20<<20)
		s.Parts(upload, data, 8<<20)
		s.Must(200, "POST", "/v1/multipart-uploads/"+upload+"/complete", nil)
		if r := s.Must(200, "GET", e2e.BlobTarget("bob", "name"), nil); e2e.Digest(r.Body) != e2e.Digest(data) {
			s.T.Error("the blob is not what was sent")
		}
	})
}

// TestBaseURLAndBasePath checks that a service publishes its configured address, and responds only
// under its path.
func TestBaseURLAndBasePath(t *testing.T) {
	t.Parallel()
	directAndThroughNginx(t, "public", func(s *e2e.Server) {
		const address = "https://blobs.example.org" + e2e.HostedBase
		var facts struct{ Profile, URL, Reads string }
		s.Must(200, "GET", "/v1/info", nil).Decode(s.T, &facts)
		if facts.Profile != "hosted" || facts.URL != address || facts.Reads != "public" {
			s.T.Errorf("/v1/info is %+v", facts)
		}
		if r := s.Must(200, "GET", "/openapi.yaml", nil); !strings.Contains(string(r.Body), address) {
			s.T.Errorf("/openapi.yaml does not name %s", address)
		}
		s.Must(200, "GET", "/readyz", nil)
		at := *s
		at.Base = ""
		for _, target := range []string{"/sluice/", "/sluice/sluice/v1/info", "/sluice/v2/info", "/v1/info", "/sluice", "/sluicev1/info", "/sluice/../v1/info"} {
			if s.Proxied && (!strings.HasPrefix(target, "/sluice/") || strings.Contains(target, "..")) {
				continue // the response is nginx's
			}
			if r := at.Do("GET", target, nil); r.Status != 404 {
				s.T.Errorf("%s: %v, want 404", target, r)
			}
		}
	})
}

// TestMetadataBehindNginx reads the largest metadata through the documented nginx.
func TestMetadataBehindNginx(t *testing.T) {
	testenv.Require(t, testenv.Nginx)
	t.Parallel()
	s := e2e.StartHosted(t, "public").AsAdmin().BehindNginx()
	h, want := e2e.LargestMetadata()
	s.Must(204, "PUT", e2e.BlobTarget("0x1", "name"), []byte("content"), h...)
	for _, method := range []string{"GET", "HEAD"} {
		r := s.Must(200, method, e2e.BlobTarget("0x1", "name"), nil, "Origin", "https://app.example.org")
		if got := e2e.MetadataIn(r); !maps.Equal(got, want) {
			t.Errorf("%s: %v, want %v", method, got, want)
		}
	}
}
