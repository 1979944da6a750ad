package node

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"
)

// certificatePoll is the interval at which the certificate's files are read.
const certificatePoll = 5 * time.Second

// certificate is the TLS certificate that is served. It follows its files: new
// connections use the new certificate, open connections keep theirs.
type certificate struct {
	certFile, keyFile string
	current           atomic.Pointer[tls.Certificate]

	// The files as last loaded. Only watch uses these fields once the node runs.
	cert, key []byte
	failed    string // the last error, which is logged once
}

// loadCertificate reads a certificate chain and its private key, both in PEM.
func loadCertificate(certFile, keyFile string) (*certificate, error) {
	c := &certificate{certFile: certFile, keyFile: keyFile}
	if _, err := c.load(); err != nil {
		return nil, err
	}
	return c, nil
}

// load reads the files, and reports whether they contain another certificate, which
// is used from now on. After an error the current certificate stays in use.
//
// The files are compared as a whole. They are small, and a comparison of times
// would miss a symbolic link that was replaced and a clock that was set.
func (c *certificate) load() (changed bool, err error) {
	cert, certErr := os.ReadFile(c.certFile)
	key, keyErr := os.ReadFile(c.keyFile)
	if err := errors.Join(certErr, keyErr); err != nil {
		return false, fmt.Errorf("cannot read the TLS certificate: %w", err)
	}
	if c.current.Load() != nil && bytes.Equal(cert, c.cert) && bytes.Equal(key, c.key) {
		return false, nil
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return false, fmt.Errorf("the TLS certificate in %s with the key in %s cannot be used: %w", c.certFile, c.keyFile, err)
	}
	c.cert, c.key = cert, key
	c.current.Store(&pair)
	return true, nil
}

func (c *certificate) config() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.current.Load(), nil },
	}
}

// watch reloads the certificate when its files change, and immediately when it
// receives from reload. It returns when ctx ends.
func (c *certificate) watch(ctx context.Context, reload <-chan os.Signal, log *slog.Logger) {
	tick := time.NewTicker(certificatePoll)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			c.reload(log)
		case <-reload:
			log.Info("reloading the TLS certificate")
			c.failed = "" // log the same error again
			c.reload(log)
		}
	}
}

// reload loads the certificate and logs a change or a new error.
func (c *certificate) reload(log *slog.Logger) {
	changed, err := c.load()
	switch {
	case err != nil && err.Error() != c.failed:
		c.failed = err.Error()
		log.Error("cannot reload the TLS certificate: the current one stays in use", "error", err)
	case err == nil:
		c.failed = ""
	}
	if changed {
		log.Info("serving a new TLS certificate", "expires", c.current.Load().Leaf.NotAfter)
	}
}
