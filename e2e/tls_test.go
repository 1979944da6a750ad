package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/internal/testenv"
)

// certificates are folders with one certificate for localhost each, and a link to the one in use,
// as certbot and Kubernetes create them.
type certificates struct {
	t       *testing.T
	root    string
	trusted *x509.CertPool
}

func newCertificates(t *testing.T) *certificates {
	t.Helper()
	c := &certificates{t: t, root: t.TempDir(), trusted: x509.NewCertPool()}
	c.use(1)
	return c
}

// use points the link to a new certificate with this serial number.
func (c *certificates) use(serial int64) {
	c.t.Helper()
	dir, err := os.MkdirTemp(c.root, "version-")
	if err != nil {
		c.t.Fatal(err)
	}
	c.write(dir, serial)
	link := filepath.Join(c.root, "live")
	if err := errors.Join(os.Symlink(filepath.Base(dir), link+".new"), os.Rename(link+".new", link)); err != nil {
		c.t.Fatal(err)
	}
}

// write creates a certificate with this serial number and moves its files into a folder, the key
// first.
func (c *certificates) write(dir string, serial int64) {
	c.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		c.t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		BasicConstraintsValid: true, IsCA: true, // for clients that trust only authorities
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		c.t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		c.t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})
	c.trusted.AppendCertsFromPEM(text)
	replace(c.t, filepath.Join(dir, "key.pem"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
	replace(c.t, filepath.Join(dir, "cert.pem"), text)
}

// replace replaces a file atomically.
func replace(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := errors.Join(os.WriteFile(path+".new", content, 0o600), os.Rename(path+".new", path)); err != nil {
		t.Fatal(err)
	}
}

func (c *certificates) cert() string { return filepath.Join(c.root, "live", "cert.pem") }
func (c *certificates) key() string  { return filepath.Join(c.root, "live", "key.pem") }

// flags returns the flags of serve for the certificate.
func (c *certificates) flags() []string {
	return []string{"--tls-cert", c.cert(), "--tls-key", c.key()}
}

// client returns a client for this major version of HTTP over TLS, with separate connections.
func (c *certificates) client(major int) *http.Client {
	var protocols http.Protocols
	protocols.SetHTTP1(major == 1)
	protocols.SetHTTP2(major == 2)
	transport := &http.Transport{
		TLSClientConfig:    &tls.Config{RootCAs: c.trusted},
		Protocols:          &protocols,
		DisableCompression: true,
	}
	c.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, CheckRedirect: client.CheckRedirect}
}

// by returns the server as seen through this client.
func (s *server) by(client *http.Client) *server {
	at := *s
	at.client = client
	return &at
}

// serial returns the certificate's serial number, as a client receives it.
func (s *server) serial(client *http.Client) int64 {
	s.t.Helper()
	response, err := client.Get(s.url + "/livez")
	if err != nil {
		s.t.Fatal(err)
	}
	if r, err := collect(response); err != nil || r.status != 200 {
		s.t.Fatalf("livez: %v, %v", r, err)
	}
	return response.TLS.PeerCertificates[0].SerialNumber.Int64()
}

// TestTLS transfers blobs of more than one extent in both versions of HTTP, by PUT and in parts,
// and checks that the server refuses other protocols than TLS.
func TestTLS(t *testing.T) {
	t.Parallel()
	s := start(t, options{certs: newCertificates(t)})
	data := content(1, 64<<20+17)
	target := blobTarget("0x1", "name")
	etags := map[string]bool{}
	for major, proto := range map[int]string{1: "HTTP/1.1", 2: "HTTP/2.0"} {
		at := s.by(s.options.certs.client(major))
		etags[at.must(204, "PUT", target, data).header.Get("ETag")] = true
		etags[at.upload("0x1", "by parts", data, 5<<20).header.Get("ETag")] = true
		for _, target := range []string{target, blobTarget("0x1", "by parts")} {
			if r := at.must(200, "GET", target, nil); r.proto != proto || r.length != int64(len(data)) || digest(r.body) != digest(data) {
				t.Errorf("over %s, want %s: %d of %d bytes, or other bytes than sent", r.proto, proto, len(r.body), len(data))
			}
		}
		at.must(204, "DELETE", target, nil)
	}
	if len(etags) != 1 {
		t.Errorf("the same bytes have the ETags %v", etags)
	}
	plain := s.by(client)
	plain.scheme = "http"
	plain.must(400, "GET", "/livez", nil)
}

// TestTLSReload checks that new connections get the current certificate, whether a link was changed
// or files were replaced, and with or without a signal. Open connections continue.
func TestTLSReload(t *testing.T) {
	t.Parallel()
	certs := newCertificates(t)
	s := start(t, options{certs: certs})
	old := []*http.Client{certs.client(1), certs.client(2)}
	serve := func(serial int64) {
		t.Helper()
		s.await("the new certificate is not served", func() bool { return s.serial(certs.client(2)) == serial })
		if got := s.serial(certs.client(1)); got != serial {
			t.Errorf("over HTTP/1.1 certificate %d is served, want %d", got, serial)
		}
		for _, client := range old {
			if got := s.serial(client); got != 1 {
				t.Errorf("an open connection has certificate %d, want 1", got)
			}
		}
	}
	serve(1)
	certs.use(2)
	s.signal(syscall.SIGHUP)
	serve(2)
	certs.use(3)
	serve(3)
	certs.write(filepath.Dir(certs.cert()), 4)
	serve(4)
}

// TestUnusableReload checks that the server logs a new pair that it cannot use, and keeps the
// previous one in use until a usable pair exists.
func TestUnusableReload(t *testing.T) {
	t.Parallel()
	certs := newCertificates(t)
	s := start(t, options{certs: certs})
	open := certs.client(2)
	s.serial(open)
	good := map[string][]byte{certs.cert(): nil, certs.key(): nil}
	for path := range good {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		good[path] = content
	}
	refuse := func(path string, content []byte, cause string) {
		t.Helper()
		replace(t, path, content)
		s.signal(syscall.SIGHUP)
		said := ""
		s.await("the log does not report the unusable certificate", func() bool {
			for line := range strings.Lines(s.log.String()) {
				if strings.Contains(line, `msg="cannot reload the TLS certificate: the current one stays in use"`) {
					said = line
				}
			}
			return strings.Contains(said, cause)
		})
		if !strings.Contains(said, "level=ERROR") || !strings.Contains(said, certs.cert()) || !strings.Contains(said, certs.key()) {
			t.Errorf("the log contains %s, want an error with both files", said)
		}
		for _, client := range []*http.Client{open, certs.client(1), certs.client(2)} {
			if got := s.serial(client); got != 1 {
				t.Errorf("certificate %d is served, want 1", got)
			}
		}
	}
	refuse(certs.key(), []byte("no PEM"), "in key input")
	refuse(certs.cert(), good[certs.cert()][:100], "in certificate input")
	replace(t, certs.key(), good[certs.key()])
	other, err := os.ReadFile(newCertificates(t).cert())
	if err != nil {
		t.Fatal(err)
	}
	refuse(certs.cert(), other, "private key does not match")
	certs.use(2)
	s.signal(syscall.SIGHUP)
	s.await("a usable certificate is not served", func() bool { return s.serial(certs.client(2)) == 2 })
}

// TestPublicClientOverTLS uploads and downloads with the public client, which trusts the
// certificate through NODE_EXTRA_CA_CERTS.
func TestPublicClientOverTLS(t *testing.T) {
	testenv.Require(t, testenv.NPM)
	t.Parallel()
	certs := newCertificates(t)
	s := start(t, options{addr: "localhost:0", certs: certs, flags: []string{"--base-path", "/sluice"}})
	lines := scriptIn[transferred](t, []string{"NODE_EXTRA_CA_CERTS=" + certs.cert()}, "transfer.mjs", "0.1.0", s.url)
	if len(lines) != 25 {
		t.Errorf("the client ran %d cases, want 25", len(lines))
	}
	for _, line := range lines {
		checkTransfer(t, s, line)
	}
}

// TestUnusableCertificates checks that a server does not start without a usable certificate.
func TestUnusableCertificates(t *testing.T) {
	t.Parallel()
	flags := newCertificates(t).flags()
	data := filepath.Join(t.TempDir(), "data")
	serve := func(flags ...string) result {
		return sluiceRuns(t, append([]string{"serve", "--addr", "127.0.0.1:0", "--data", data}, flags...)...)
	}
	checkWrongUsage(t, serve(flags[:2]...), "--tls-key")
	checkWrongUsage(t, serve(flags[2:]...), "--tls-cert")
	checkFailedStart(t, serve("--tls-cert", flags[3], "--tls-key", flags[1]), flags[1], flags[3])
	checkFailedStart(t, serve("--tls-cert", flags[1], "--tls-key", filepath.Join(data, "none")), "none")
	if _, err := os.Stat(data); err == nil {
		t.Error("a failed start created a data folder")
	}
}

// TestSIGHUPWithoutTLS checks that without TLS SIGHUP has no effect.
func TestSIGHUPWithoutTLS(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	for range 3 {
		s.signal(syscall.SIGHUP)
		s.must(200, "GET", "/readyz", nil)
	}
	s.signal(syscall.SIGTERM)
	if code := s.wait(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
}
