package main

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

// certificatePoll is how often the files of the certificate are looked at.
const certificatePoll = 5 * time.Second

// certificate is what TLS connections are served with. It follows its files:
// new connections get the new pair, those that are open keep theirs.
type certificate struct {
	certFile, keyFile string
	current           atomic.Pointer[tls.Certificate]

	// What was read last, good or bad. Only watch uses it once the service runs.
	cert, key []byte
	failed    string // the last failure, which is told once
}

// loadCertificate reads a certificate and its private key, both in PEM.
func loadCertificate(certFile, keyFile string) (*certificate, error) {
	c := &certificate{certFile: certFile, keyFile: keyFile}
	if _, err := c.load(); err != nil {
		return nil, err
	}
	return c, nil
}

// load reads the files and takes the pair if it is another one, which changed
// tells. After an error the pair that was taken before stays.
//
// The files are compared as a whole: they are small, and neither a link that is
// turned to another folder nor a clock that stands still hides a change.
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

// config is how TLS is spoken.
func (c *certificate) config() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.current.Load(), nil },
	}
}

// watch loads the certificate anew whenever its files change, until ctx ends,
// and at once when reload says so.
func (c *certificate) watch(ctx context.Context, reload <-chan os.Signal, log *slog.Logger) {
	tick := time.NewTicker(certificatePoll)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			c.follow(log)
		case <-reload:
			log.Info("asked to look at the TLS certificate")
			c.failed = "" // whoever asks is told again
			c.follow(log)
		}
	}
}

// follow loads the certificate and tells what is new about it.
func (c *certificate) follow(log *slog.Logger) {
	changed, err := c.load()
	switch {
	case err != nil && err.Error() != c.failed:
		c.failed = err.Error()
		log.Error("the TLS certificate stays as it was", "error", err)
	case err == nil:
		c.failed = ""
	}
	if changed {
		log.Info("serving a new TLS certificate", "expires", c.current.Load().Leaf.NotAfter)
	}
}
