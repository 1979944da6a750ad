package http

import (
	"maps"
	"testing"

	"sluice/e2e"
	"sluice/test/testenv"
)

// TestPublicClientUnderPrefix uploads and downloads with the public npm client, unmodified, with a
// key, through nginx with the documented configuration.
func TestPublicClientUnderPrefix(t *testing.T) {
	testenv.Require(t, testenv.NPM, testenv.Nginx)
	t.Parallel()
	s := e2e.StartHosted(t, "key", "--trusted-proxies", "127.0.0.1").AsAdmin().BehindNginx()
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
}

// TestRefusedBeforeTheBody checks that a client behind the documented nginx that may not write is
// refused before it has sent any of its body, even a part of 8 MiB.
func TestRefusedBeforeTheBody(t *testing.T) {
	testenv.Require(t, testenv.Nginx)
	t.Parallel()
	s := e2e.StartHosted(t, "public", "--trusted-proxies", "127.0.0.1").AsAdmin().BehindNginx()
	upload := s.Begin("bob", "name", 8<<20)
	reader := s.NewKey("--scopes", "read", "--all-accounts")
	stranger := s.NewKey("--scopes", "write", "--accounts", "alice")
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
			head := "PUT " + s.Base + target + " HTTP/1.1\r\nHost: blobs.example.org\r\nContent-Length: 8388608\r\n"
			e2e.CheckProblem(t, s.Raw("PUT", head+test.credential+"\r\n"), test.status, test.code)
		}
	}
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
