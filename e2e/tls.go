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
	"testing"
	"time"

	"sluice/test/testenv"
)

// Certificates are folders with one certificate each for localhost and the names in deploy/, and a
// link to the one in use, as certbot and Kubernetes create them.
type Certificates struct {
	t       *testing.T
	root    string
	trusted *x509.CertPool
}

// NewCertificates returns folders with a first certificate, whose serial number is 1.
func NewCertificates(t *testing.T) *Certificates {
	t.Helper()
	c := &Certificates{t: t, root: t.TempDir(), trusted: x509.NewCertPool()}
	c.Use(1)
	return c
}

// Use points the link to a new certificate with this serial number.
func (c *Certificates) Use(serial int64) {
	c.t.Helper()
	dir, err := os.MkdirTemp(c.root, "version-")
	testenv.OK(c.t, err)
	c.Write(dir, serial)
	link := filepath.Join(c.root, "live")
	testenv.OK(c.t, errors.Join(os.Symlink(filepath.Base(dir), link+".new"), os.Rename(link+".new", link)))
}

// Write creates a certificate with this serial number and moves its files into a folder, the key
// first.
func (c *Certificates) Write(dir string, serial int64) {
	c.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	testenv.OK(c.t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{"localhost", "blobs.example.org", "s3.example.org", "*.s3.example.org"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		BasicConstraintsValid: true, IsCA: true, // for clients that trust only authorities
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	testenv.OK(c.t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	testenv.OK(c.t, err)
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})
	c.trusted.AppendCertsFromPEM(text)
	Replace(c.t, filepath.Join(dir, "key.pem"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
	Replace(c.t, filepath.Join(dir, "cert.pem"), text)
}

// Replace replaces a file atomically.
func Replace(t *testing.T, path string, content []byte) {
	t.Helper()
	testenv.OK(t, errors.Join(os.WriteFile(path+".new", content, 0o600), os.Rename(path+".new", path)))
}

// Cert returns the path of the certificate in use.
func (c *Certificates) Cert() string { return filepath.Join(c.root, "live", "cert.pem") }

// Key returns the path of its private key.
func (c *Certificates) Key() string { return filepath.Join(c.root, "live", "key.pem") }

// Flags returns the flags of serve for the certificate.
func (c *Certificates) Flags() []string {
	return []string{"--tls-cert", c.Cert(), "--tls-key", c.Key()}
}

// Client returns a client for this major version of HTTP over TLS, with separate connections.
func (c *Certificates) Client(major int) *http.Client {
	var protocols http.Protocols
	protocols.SetHTTP1(major == 1)
	protocols.SetHTTP2(major == 2)
	transport := &http.Transport{
		TLSClientConfig:    &tls.Config{RootCAs: c.trusted},
		Protocols:          &protocols,
		DisableCompression: true,
	}
	c.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, CheckRedirect: Client.CheckRedirect}
}
