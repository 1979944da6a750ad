package e2e

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"sluice/internal/testenv"
)

// nginxAround is what nginx needs around the server of its documentation, to
// run without root and to leave nothing behind.
const nginxAround = `daemon off;
worker_processes 1;
pid DIR/nginx.pid;
error_log stderr warn;
events {}
http {
  access_log off;
  client_body_temp_path DIR/body;
  proxy_temp_path DIR/proxy;
  fastcgi_temp_path DIR/fastcgi;
  uwsgi_temp_path DIR/uwsgi;
  scgi_temp_path DIR/scgi;
%s
}
`

// documentedServer gives the server of nginx that docs/operations.md tells to
// put before a service, with other addresses and without TLS.
func documentedServer(t testing.TB, listen, upstream string) string {
	t.Helper()
	document, err := os.ReadFile("../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(document), "```nginx\n")
	block, _, closed := strings.Cut(rest, "```")
	if !found || !closed {
		t.Fatal("docs/operations.md has no block for nginx")
	}
	for _, one := range []struct{ documented, here string }{
		{"listen 443 ssl;", "listen " + listen + ";"},
		{"ssl_certificate     /etc/ssl/blobs.pem;", ""},
		{"ssl_certificate_key /etc/ssl/blobs.key;", ""},
		{"http://127.0.0.1:9090;", "http://" + upstream + ";"},
	} {
		if strings.Count(block, one.documented) != 1 {
			t.Fatalf("the block for nginx in docs/operations.md has not one %q:\n%s", one.documented, block)
		}
		block = strings.Replace(block, one.documented, one.here, 1)
	}
	return block
}

// behindNginx runs nginx before a service, as documented, and gives the service
// as it is seen through it. Nginx ends with the test.
func (s *server) behindNginx() *server {
	s.t.Helper()
	program, err := testenv.NginxPath()
	if err != nil {
		s.t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	file, err := listener.(*net.TCPListener).File()
	if err != nil {
		s.t.Fatal(err)
	}
	dir := s.t.TempDir()
	host := listener.Addr().String()
	config := strings.ReplaceAll(fmt.Sprintf(nginxAround, documentedServer(s.t, host, s.host)), "DIR", dir)
	if err := os.WriteFile(filepath.Join(dir, "nginx.conf"), []byte(config), 0o600); err != nil {
		s.t.Fatal(err)
	}
	nginx := exec.Command(program, "-p", dir, "-e", "stderr", "-c", filepath.Join(dir, "nginx.conf"))
	// It takes over a listener that is open already, as it does in an upgrade of
	// itself: so nobody else can have the port, and no connection comes too early.
	nginx.ExtraFiles = []*os.File{file}
	nginx.Env = append(os.Environ(), "NGINX=3;")
	log := &logBuffer{}
	nginx.Stdout, nginx.Stderr = log, log
	if err := nginx.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if err := errors.Join(nginx.Process.Signal(syscall.SIGTERM), nginx.Wait()); err != nil {
			s.t.Errorf("nginx ends with: %v", err)
		}
		if s.t.Failed() {
			s.t.Logf("nginx: %s", tail(log.String()))
		}
	})
	for _, closer := range []interface{ Close() error }{file, listener} {
		if err := closer.Close(); err != nil {
			s.t.Fatal(err)
		}
	}
	through := *s
	through.scheme, through.host, through.url = "http", host, "http://"+host+s.base
	// Nginx may close a connection behind an upload that was refused without
	// having said so: each request has its own.
	through.client = &http.Client{Transport: &http.Transport{DisableCompression: true, DisableKeepAlives: true}, CheckRedirect: client.CheckRedirect}
	through.proxied = true
	return &through
}
