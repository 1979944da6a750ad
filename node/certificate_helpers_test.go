package node

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"sluice/test/testenv"
)

// pair is a self-signed certificate for localhost and its key, in PEM.
type pair struct{ cert, key []byte }

func newPair(t *testing.T, serial int64) pair {
	t.Helper()
	key := testenv.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial),
		DNSNames:     []string{"localhost"},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(time.Hour),
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	testenv.OK(t, err)
	private := testenv.Must(x509.MarshalPKCS8PrivateKey(key))(t)
	return pair{
		cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}),
		key:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
	}
}

// write writes the pair to a folder, each file atomically.
func (p pair) write(t *testing.T, dir string) (certFile, keyFile string) {
	t.Helper()
	certFile, keyFile = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	for name, data := range map[string][]byte{certFile: p.cert, keyFile: p.key} {
		testenv.OK(t, os.WriteFile(name+".new", data, 0o600))
		testenv.OK(t, os.Rename(name+".new", name))
	}
	return certFile, keyFile
}

// load writes the pair to a folder and loads it from there.
func (p pair) load(t *testing.T, dir string) *certificate {
	t.Helper()
	certFile, keyFile := p.write(t, dir)
	return mustLoad(t, certFile, keyFile)
}

func mustLoad(t *testing.T, certFile, keyFile string) *certificate {
	t.Helper()
	c := testenv.Must(loadCertificate(certFile, keyFile))(t)
	return c
}

func (c *certificate) serial() int64 { return c.current.Load().Leaf.SerialNumber.Int64() }

// watched runs watch in a synctest bubble. poll waits until the files were read.
func watched(t *testing.T, c *certificate, fn func(poll func(), reload chan<- os.Signal, log *logBuffer)) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		reload, log, ended := make(chan os.Signal), &logBuffer{}, make(chan struct{})
		go func() {
			defer close(ended)
			c.watch(ctx, reload, slog.New(slog.NewTextHandler(log, nil)))
		}()
		fn(func() {
			time.Sleep(certificatePoll)
			synctest.Wait()
		}, reload, log)
		stop()
		<-ended
	})
}
