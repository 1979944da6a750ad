//go:build linux

package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"sluice/load"
)

func largeGroup() *group {
	return &group{name: "large", title: "Large reads", notes: []string{"nginx serves files by sendfile, with as many processes as there are cores."},
		prepare: func(ctx context.Context, e *environment) ([]*row, error) { return prepareLarge(ctx, e, false, 1.2) }}
}

func tlsGroup() *group {
	return &group{name: "tls", title: "Large reads over TLS", notes: []string{"TLS 1.3 and HTTP/1.1, with the same cipher on both; the kernel does not encrypt for nginx (kTLS is off)."},
		prepare: func(ctx context.Context, e *environment) ([]*row, error) { return prepareLarge(ctx, e, true, 0.7) }}
}

// contents are the blobs and files that are read, by name.
var contents = map[string]int64{"1MiB": mib, "64MiB": 64 * mib, "1GiB": 1024 * mib}

// readers is the number of connections of large reads.
const readers = 32

func prepareLarge(ctx context.Context, e *environment, secure bool, target float64) ([]*row, error) {
	if err := errors.Join(e.need("nginx"), e.requireSpace(3)); err != nil {
		return nil, err
	}
	var flags []string
	certificate := ""
	if secure {
		var err error
		if certificate, err = e.makeCertificate(); err != nil {
			return nil, err
		}
		flags = []string{"--tls-cert", certificate, "--tls-key", certificate}
	}
	s, err := e.startWithContents(ctx, flags)
	if err != nil {
		return nil, err
	}
	n, url, err := e.startNginx(ctx, certificate, contents)
	if err != nil {
		return nil, err
	}
	if secure {
		if err := e.sameCipher(s.url, url); err != nil {
			return nil, err
		}
	}
	read := func(name, blob string, request func(path string) func(int64) (*load.Request, int, int64)) *row {
		one := func(name string, p *process, url, path string) side {
			l := ownLoad{readers, url, request(path), false}
			return side{name, func(ctx context.Context, d time.Duration) (measurement, error) { return l.run(ctx, e, p, d) }}
		}
		return &row{name: name, unit: mibPerSecond, sluice: one("sluice", s.process, s.url, "/v1/blobs/0x1/"+blob), peers: []peer{{side: one("nginx", n, url, "/"+blob), target: target}}}
	}
	whole := func(size int64) func(string) func(int64) (*load.Request, int, int64) {
		return func(path string) func(int64) (*load.Request, int, int64) {
			return requestOf(http.MethodGet, path, "", http.StatusOK, size)
		}
	}
	return []*row{
		read("GET 1 MiB, 32 connections", "1MiB", whole(contents["1MiB"])),
		read("GET 64 MiB, 32 connections", "64MiB", whole(contents["64MiB"])),
		read("GET 1 MiB ranges of 1 GiB, 32 connections", "1GiB", func(path string) func(int64) (*load.Request, int, int64) {
			return func(n int64) (*load.Request, int, int64) {
				first := n * 0x9e3779b1 % (contents["1GiB"] - mib)
				return &load.Request{Method: http.MethodGet, Path: path, Fields: fmt.Sprintf("Range: bytes=%d-%d\r\n", first, first+mib-1)}, http.StatusPartialContent, mib
			}
		}),
	}, nil
}

// startWithContents stores the contents, and starts a server with these flags over them.
func (e *environment) startWithContents(ctx context.Context, flags []string) (*sluiceServer, error) {
	s, err := e.startSluice(ctx, "blobs")
	if err != nil {
		return nil, err
	}
	for name, size := range contents {
		if err := s.send(ctx, http.MethodPut, "/v1/blobs/0x1/"+name, http.StatusNoContent, io.NewSectionReader(load.Content{Size: size}, 0, size)); err != nil {
			return nil, err
		}
	}
	setupClient.CloseIdleConnections()
	if len(flags) == 0 {
		return s, nil
	}
	s.stop(syscall.SIGTERM)
	return e.startSluice(ctx, "blobs", flags...)
}

// nginxConfiguration serves files. DIR, ADDRESS, USER and SSL are replaced.
const nginxConfiguration = `daemon off;
worker_processes auto;
pid DIR/nginx.pid;
error_log stderr warn;
USER
events { worker_connections 1024; }
http {
  access_log off;
  sendfile on;
  open_file_cache max=1000;
  tcp_nopush on;
  keepalive_requests 1000000000;
  client_body_temp_path DIR/body;
  proxy_temp_path DIR/proxy;
  fastcgi_temp_path DIR/fastcgi;
  uwsgi_temp_path DIR/uwsgi;
  scgi_temp_path DIR/scgi;
  server {
    listen ADDRESS SSL;
    root DIR/files;
  }
}
`

// startNginx starts nginx over files with the contents, and returns its URL. With a certificate, it
// serves TLS.
func (e *environment) startNginx(ctx context.Context, certificate string, contents map[string]int64) (*process, string, error) {
	dir, err := e.folder("nginx")
	if err != nil {
		return nil, "", err
	}
	if err := os.Mkdir(filepath.Join(dir, "files"), 0o700); err != nil {
		return nil, "", err
	}
	for name, size := range contents {
		if err := writeFile(filepath.Join(dir, "files", name), size); err != nil {
			return nil, "", err
		}
	}
	address, err := freeAddress()
	if err != nil {
		return nil, "", err
	}
	user, ssl, scheme := "", "", "http://"
	if os.Getuid() == 0 {
		user = "user root;"
	}
	if certificate != "" {
		scheme, ssl = "https://", "ssl;\n    ssl_certificate "+certificate+";\n    ssl_certificate_key "+certificate+";\n    ssl_protocols TLSv1.3"
	}
	text := strings.NewReplacer("DIR", dir, "ADDRESS", address, "USER", user, "SSL", ssl).Replace(nginxConfiguration)
	configuration := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(configuration, []byte(text), 0o600); err != nil {
		return nil, "", err
	}
	p, err := e.start(exec.Command(e.programs["nginx"], "-c", configuration, "-p", dir))
	if err != nil {
		return nil, "", err
	}
	return p, scheme + address, p.awaitPort(ctx, address)
}

func writeFile(name string, size int64) error {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, io.NewSectionReader(load.Content{Size: size}, 0, size))
	return errors.Join(err, file.Close())
}

// makeCertificate makes a certificate for the loopback address that the generator trusts, and
// returns the path to a file with it and its key.
func (e *environment) makeCertificate() (string, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(24 * time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return "", err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return "", err
	}
	text := append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})...)
	e.authority = x509.NewCertPool()
	if !e.authority.AppendCertsFromPEM(text) {
		return "", errors.New("the certificate cannot be read")
	}
	name := filepath.Join(e.work, "certificate.pem")
	return name, os.WriteFile(name, text, 0o600)
}

// sameCipher returns an error unless both servers choose TLS 1.3 and the same cipher.
func (e *environment) sameCipher(urls ...string) error {
	var chosen []uint16
	for _, url := range urls {
		c, err := tls.Dial("tcp", strings.TrimPrefix(url, "https://"), &tls.Config{RootCAs: e.authority})
		if err != nil {
			return err
		}
		state := c.ConnectionState()
		chosen = append(chosen, state.CipherSuite)
		if err := errors.Join(c.Close(), errorIf(state.Version != tls.VersionTLS13, url+" does not choose TLS 1.3")); err != nil {
			return err
		}
	}
	if chosen[0] != chosen[1] {
		return fmt.Errorf("the ciphers differ: %s and %s", tls.CipherSuiteName(chosen[0]), tls.CipherSuiteName(chosen[1]))
	}
	return nil
}
