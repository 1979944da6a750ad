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

// nginxAround is the configuration that nginx needs in addition to the documented one, to run
// without root and to leave no files.
const nginxAround = `daemon off;
worker_processes 1;
pid DIR/nginx.pid;
error_log stderr warn;
error_log DIR/error.log warn;
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

// documentedBlock returns the first block of docs/operations.md in this language that contains a
// text, with some of its lines replaced. Each replaced text must occur exactly once.
func documentedBlock(t testing.TB, language, containing string, replaced [][2]string) string {
	t.Helper()
	document, err := os.ReadFile("../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, rest := range strings.Split(string(document), "```"+language+"\n")[1:] {
		block, _, closed := strings.Cut(rest, "```")
		if !closed || !strings.Contains(block, containing) {
			continue
		}
		for _, one := range replaced {
			if strings.Count(block, one[0]) != 1 {
				t.Fatalf("the %s block in docs/operations.md must contain %q exactly once:\n%s", language, one[0], block)
			}
			block = strings.Replace(block, one[0], one[1], 1)
		}
		return block
	}
	t.Fatalf("docs/operations.md has no %s block with %q", language, containing)
	return ""
}

// documentedServer returns the nginx configuration of docs/operations.md for a service at these
// addresses, without TLS. The log is written to access.log.
func documentedServer(t testing.TB, listen string, upstream string) string {
	return documentedBlock(t, "nginx", "listen 443 ssl;", [][2]string{
		{"listen 443 ssl;", "listen " + listen + ";"},
		{"ssl_certificate     /etc/ssl/blobs.pem;", ""},
		{"ssl_certificate_key /etc/ssl/blobs.key;", ""},
		{"/var/log/nginx/sluice.log", "DIR/access.log"},
		{"    server 127.0.0.1:9090;\n", upstream},
	})
}

// upstreamOf returns an upstream's line for one server.
func upstreamOf(host string) string { return "    server " + host + ";\n" }

// behindNginx runs nginx with the documented configuration in front of a service, and returns the
// service as seen through it. It stops nginx when the test ends.
func (s *server) behindNginx() *server {
	s.t.Helper()
	listener := listenHere(s.t)
	startNginx(s.t, listener, documentedServer(s.t, listener.Addr().String(), upstreamOf(s.host)))
	return s.through(listener.Addr().String())
}

// through returns the service as seen through a proxy at this address.
func (s *server) through(host string) *server {
	through := *s
	through.scheme, through.host, through.url = "http", host, "http://"+host+s.base
	// A proxy may close a connection without notice after a refused upload, so each request uses a
	// new one.
	through.client = &http.Client{Transport: &http.Transport{DisableCompression: true, DisableKeepAlives: true}, CheckRedirect: client.CheckRedirect}
	through.proxied = true
	return &through
}

// listenHere opens a listener that a proxy inherits, so that no other process can have its port,
// and no connection arrives too early.
func listenHere(t testing.TB) *net.TCPListener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return listener.(*net.TCPListener)
}

// startNginx runs nginx with these blocks, on a listener that it inherits as in an upgrade of
// nginx. It returns the folder that replaces DIR in the blocks.
func startNginx(t testing.TB, listener *net.TCPListener, blocks string) (dir string) {
	t.Helper()
	program, err := testenv.NginxPath()
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	config := filepath.Join(dir, "nginx.conf")
	text := strings.ReplaceAll(fmt.Sprintf(nginxAround, blocks), "DIR", dir)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	nginx := exec.Command(program, "-p", dir, "-e", "stderr", "-c", config)
	nginx.Env = append(os.Environ(), "NGINX=3;")
	startProxy(t, nginx, listener)
	return dir
}

// startProxy starts a proxy, which gets the listener as file descriptor 3, and stops it when the
// test ends.
func startProxy(t testing.TB, proxy *exec.Cmd, listener *net.TCPListener) {
	t.Helper()
	file, err := listener.File()
	if err != nil {
		t.Fatal(err)
	}
	proxy.ExtraFiles = []*os.File{file}
	log := &logBuffer{}
	proxy.Stdout, proxy.Stderr = log, log
	if err := errors.Join(proxy.Start(), file.Close(), listener.Close()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		err := errors.Join(proxy.Process.Signal(syscall.SIGTERM), proxy.Wait())
		if ended := proxy.ProcessState.Sys().(syscall.WaitStatus); err != nil && ended.Signal() != syscall.SIGTERM {
			t.Errorf("%s exited with %v", proxy.Path, err)
		}
		if t.Failed() {
			t.Logf("%s: %s", proxy.Path, tail(log.String()))
		}
	})
}
