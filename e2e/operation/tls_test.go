package operation

import (
	"net/http"
	"path/filepath"
	"syscall"
	"testing"

	"sluice/e2e"
	"sluice/test/testenv"
)

// by returns the server as seen through this client.
func by(s *e2e.Server, client *http.Client) *e2e.Server {
	at := *s
	at.Client = client
	return &at
}

// TestTLS transfers blobs of more than one extent in both versions of HTTP, by PUT and in parts,
// and checks that the server refuses other protocols than TLS.
func TestTLS(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Certs: e2e.NewCertificates(t)})
	data := e2e.Content(1, 64<<20+17)
	target := e2e.BlobTarget("0x1", "name")
	etags := map[string]bool{}
	for major, proto := range map[int]string{1: "HTTP/1.1", 2: "HTTP/2.0"} {
		at := by(s, s.Options.Certs.Client(major))
		etags[at.Must(204, "PUT", target, data).Header.Get("ETag")] = true
		etags[at.Upload("0x1", "by parts", data, 5<<20).Header.Get("ETag")] = true
		for _, target := range []string{target, e2e.BlobTarget("0x1", "by parts")} {
			if r := at.Must(200, "GET", target, nil); r.Proto != proto || r.Length != int64(len(data)) || e2e.Digest(r.Body) != e2e.Digest(data) {
				t.Errorf("over %s, want %s: %d of %d bytes, or other bytes than sent", r.Proto, proto, len(r.Body), len(data))
			}
		}
		at.Must(204, "DELETE", target, nil)
	}
	if len(etags) != 1 {
		t.Errorf("the same bytes have the ETags %v", etags)
	}
	plain := by(s, e2e.Client)
	plain.Scheme = "http"
	plain.Must(400, "GET", "/livez", nil)
}

// TestTLSReload checks that new connections get the current certificate, whether a link was changed
// or files were replaced, and with or without a signal. Open connections continue.
func TestTLSReload(t *testing.T) {
	t.Parallel()
	certs := e2e.NewCertificates(t)
	s := e2e.Start(t, e2e.Options{Certs: certs})
	old := []*http.Client{certs.Client(1), certs.Client(2)}
	serve := func(serial int64) {
		t.Helper()
		s.Await("the new certificate is not served", func() bool { return serialOf(s, certs.Client(2)) == serial })
		if got := serialOf(s, certs.Client(1)); got != serial {
			t.Errorf("over HTTP/1.1 certificate %d is served, want %d", got, serial)
		}
		for _, client := range old {
			if got := serialOf(s, client); got != 1 {
				t.Errorf("an open connection has certificate %d, want 1", got)
			}
		}
	}
	serve(1)
	certs.Use(2)
	s.Signal(syscall.SIGHUP)
	serve(2)
	certs.Use(3)
	serve(3)
	certs.Write(filepath.Dir(certs.Cert()), 4)
	serve(4)
}

// TestPublicClientOverTLS uploads and downloads with the public client, which trusts the
// certificate through NODE_EXTRA_CA_CERTS.
func TestPublicClientOverTLS(t *testing.T) {
	testenv.Require(t, testenv.NPM)
	t.Parallel()
	certs := e2e.NewCertificates(t)
	s := e2e.Start(t, e2e.Options{Addr: "localhost:0", Certs: certs, Flags: []string{"--base-path", "/sluice"}})
	lines := e2e.ScriptIn[e2e.Transferred](t, []string{"NODE_EXTRA_CA_CERTS=" + certs.Cert()}, "transfer.mjs", "0.1.0", s.URL)
	if len(lines) != 25 {
		t.Errorf("the client ran %d cases, want 25", len(lines))
	}
	for _, line := range lines {
		e2e.CheckTransfer(t, s, line)
	}
}

// TestSIGHUPWithoutTLS checks that a terminal's end ends a server that has nothing to reload, and
// that nohup holds it.
func TestSIGHUPWithoutTLS(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{})
	s.Signal(syscall.SIGHUP)
	s.Exits(0)
	held := e2e.Start(t, e2e.Options{Wrapper: []string{"nohup"}})
	for range 3 {
		held.Signal(syscall.SIGHUP)
		held.Must(200, "GET", "/readyz", nil)
	}
	held.Signal(syscall.SIGTERM)
	held.Exits(0)
}

// TestSIGHUPOfAHostedInstance checks that the reload of a service that has nothing to reload does
// not end it.
func TestSIGHUPOfAHostedInstance(t *testing.T) {
	t.Parallel()
	s := e2e.StartHosted(t, "public")
	for range 3 {
		s.Signal(syscall.SIGHUP)
		s.Must(200, "GET", "/readyz", nil)
	}
	s.Signal(syscall.SIGTERM)
	s.Exits(0)
}

// serialOf returns the certificate's serial number, as a client receives it.
func serialOf(s *e2e.Server, client *http.Client) int64 {
	s.T.Helper()
	response, err := client.Get(s.URL + "/livez")
	testenv.OK(s.T, err)
	if r, err := e2e.Collect(response); err != nil || r.Status != 200 {
		s.T.Fatalf("livez: %v, %v", r, err)
	}
	return response.TLS.PeerCertificates[0].SerialNumber.Int64()
}
