package s3_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/bytestore"
	"sluice/bytestore/bytetest"
	"sluice/bytestore/s3"
	"sluice/test/testenv"
)

// authority creates a certificate authority and a certificate for s3.test, its subdomains and
// 127.0.0.1, and returns their files.
func authority(t *testing.T) (caFile, certFile, keyFile string) {
	t.Helper()
	dir := t.TempDir()
	caFile, certFile, keyFile = filepath.Join(dir, "ca.pem"), filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "s3.test"}, NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{"s3.test", "*.s3.test"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	caKey, leafKey := newECKey(t), newECKey(t)
	writeCertificate(t, caFile, ca, ca, caKey, caKey)
	writeCertificate(t, certFile, leaf, ca, leafKey, caKey)
	der := testenv.Must(x509.MarshalPKCS8PrivateKey(leafKey))(t)
	writePEM(t, keyFile, "PRIVATE KEY", der)
	return caFile, certFile, keyFile
}

func newECKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key := testenv.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	return key
}

func writeCertificate(t *testing.T, file string, c, parent *x509.Certificate, key, parentKey *ecdsa.PrivateKey) {
	t.Helper()
	der := testenv.Must(x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, parentKey))(t)
	writePEM(t, file, "CERTIFICATE", der)
}

func writePEM(t *testing.T, file, kind string, der []byte) {
	t.Helper()
	testenv.OK(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
}

// dialing sends all connections to addr, whatever the host name, and records the requests' hosts.
func dialing(addr string, w *wire) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		t := next.(*http.Transport)
		t.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, addr)
		}
		t.DialTLSContext = nil
		w.next = t
		return w
	}
}

// TestVirtualHostOverTLS runs the whole suite with the bucket in the host name and a certificate
// from an authority that only the configuration names.
func TestVirtualHostOverTLS(t *testing.T) {
	caFile, certFile, keyFile := authority(t)
	server := testenv.S3(t, testenv.S3Options{CertFile: certFile, KeyFile: keyFile, VirtualDomain: "s3.test"})
	_, port, err := net.SplitHostPort(server.Addr)
	testenv.OK(t, err)
	bytetest.Run(t, func(tb testing.TB) bytetest.Harness {
		c := parse(tb, "s3://%s/tests/%d?endpoint=https://s3.test:%s&path-style=off&ca=%s", server.Bucket, prefixes.Add(1), port, caFile)
		return bytetest.Harness{Open: func() (bytestore.Store, error) {
			w := &wire{}
			w.handle(func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
				if want := server.Bucket + ".s3.test:" + port; r.URL.Host != want {
					tb.Errorf("a request to %s, want %s", r.URL.Host, want)
				}
				return next.RoundTrip(r)
			})
			return mustOpen(tb, c, s3.Options{Transport: dialing(server.Addr, w)}), nil
		}}
	})
}

func parse(tb testing.TB, format string, args ...any) s3.Config {
	tb.Helper()
	c := testenv.Must(s3.ParseDSN(fmt.Sprintf(format, args...)))(tb)
	return c
}

func TestAuthorities(t *testing.T) {
	caFile, certFile, keyFile := authority(t)
	otherCA, _, _ := authority(t)
	noPEM := filepath.Join(t.TempDir(), "no.pem")
	testenv.OK(t, os.WriteFile(noPEM, []byte("not a certificate"), 0o600))
	server := testenv.S3(t, testenv.S3Options{CertFile: certFile, KeyFile: keyFile})
	address := "s3://" + server.Bucket + "/tls?endpoint=https://" + server.Addr

	s := mustOpen(t, parse(t, "%s&ca=%s&path-style=on", address, caFile), s3.Options{})
	wantObject(t, s, mustPut(t, s, content(1, 5*mib)), content(1, 5*mib))

	for ca, want := range map[string]string{"": "certificate", "&ca=" + otherCA: "certificate", "&ca=" + noPEM: "no PEM certificate", "&ca=/nonexistent": "no such file"} {
		_, err := s3.Open(t.Context(), parse(t, "%s%s", address, ca), s3.Options{Staging: t.TempDir()})
		if err == nil || !strings.Contains(err.Error(), want) || errors.Is(err, bytestore.ErrOverloaded) {
			t.Errorf("with %q: %v, want an error about %q", ca, err, want)
		}
	}
}
