package e2e

import (
	"context"
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

// DocumentedBlock is BlockOf for docs/operations.md.
func DocumentedBlock(t testing.TB, language, containing string, replaced [][2]string) string {
	t.Helper()
	return BlockOf(t, "docs/operations.md", language, containing, replaced)
}

// BlockOf returns the first block of a document in this language that contains a text, with some of
// its lines replaced. Each replaced text must occur exactly once.
func BlockOf(t testing.TB, name, language, containing string, replaced [][2]string) string {
	t.Helper()
	document, err := os.ReadFile(filepath.Join("../..", name))
	testenv.OK(t, err)
	for _, rest := range strings.Split(string(document), "```"+language+"\n")[1:] {
		block, _, closed := strings.Cut(rest, "```")
		if !closed || !strings.Contains(block, containing) {
			continue
		}
		for _, one := range replaced {
			if strings.Count(block, one[0]) != 1 {
				t.Fatalf("the %s block in %s must contain %q exactly once:\n%s", language, name, one[0], block)
			}
			block = strings.Replace(block, one[0], one[1], 1)
		}
		return block
	}
	t.Fatalf("%s has no %s block with %q", name, language, containing)
	return ""
}

// DocumentedServer returns the nginx configuration of docs/operations.md for a service at these
// addresses, without TLS. The log is written to access.log.
func DocumentedServer(t testing.TB, listen string, upstream string) string {
	return DocumentedBlock(t, "nginx", "listen 443 ssl;", [][2]string{
		{"listen 443 ssl;", "listen " + listen + ";"},
		{"ssl_certificate     /etc/ssl/blobs.pem;", ""},
		{"ssl_certificate_key /etc/ssl/blobs.key;", ""},
		{"/var/log/nginx/sluice.log", "DIR/access.log"},
		{"    server 127.0.0.1:9090;\n", upstream},
	})
}

// UpstreamOf returns an upstream's line for one server.
func UpstreamOf(host string) string { return "    server " + host + ";\n" }

// BehindNginx runs nginx with the documented configuration in front of a service, and returns the
// service as seen through it. It stops nginx when the test ends.
func (s *Server) BehindNginx() *Server {
	s.T.Helper()
	listener := ListenHere(s.T)
	StartNginx(s.T, listener, DocumentedServer(s.T, listener.Addr().String(), UpstreamOf(s.Host)))
	return s.Through(listener.Addr().String())
}

// Through returns the service as seen through a proxy at this address.
func (s *Server) Through(host string) *Server {
	through := *s
	through.Scheme, through.Host, through.URL = "http", host, "http://"+host+s.Base
	// A proxy may close a connection without notice after a refused upload, so each request uses a
	// new one.
	through.Client = &http.Client{Transport: &http.Transport{DisableCompression: true, DisableKeepAlives: true}, CheckRedirect: Client.CheckRedirect}
	through.Proxied = true
	return &through
}

// ListenHere opens a listener that a proxy inherits, so that no other process can have its port,
// and no connection arrives too early.
func ListenHere(t testing.TB) *net.TCPListener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testenv.OK(t, err)
	return listener.(*net.TCPListener)
}

// StartNginx runs nginx with these blocks, on a listener that it inherits as in an upgrade of
// nginx. It returns the folder that replaces DIR in the blocks.
func StartNginx(t testing.TB, listener *net.TCPListener, blocks string) (dir string) {
	t.Helper()
	program, err := testenv.NginxPath()
	testenv.OK(t, err)
	dir = t.TempDir()
	config := filepath.Join(dir, "nginx.conf")
	text := strings.ReplaceAll(fmt.Sprintf(nginxAround, blocks), "DIR", dir)
	testenv.OK(t, os.WriteFile(config, []byte(text), 0o600))
	nginx := exec.Command(program, "-p", dir, "-e", "stderr", "-c", config)
	nginx.Env = append(os.Environ(), "NGINX=3;")
	StartProxy(t, nginx, listener)
	return dir
}

// StartProxy starts a proxy, which gets the listener as file descriptor 3, and stops it when the
// test ends.
func StartProxy(t testing.TB, proxy *exec.Cmd, listener *net.TCPListener) {
	t.Helper()
	file, err := listener.File()
	testenv.OK(t, err)
	proxy.ExtraFiles = []*os.File{file}
	log := &LogBuffer{}
	proxy.Stdout, proxy.Stderr = log, log
	testenv.OK(t, errors.Join(proxy.Start(), file.Close(), listener.Close()))
	t.Cleanup(func() {
		err := errors.Join(proxy.Process.Signal(syscall.SIGTERM), proxy.Wait())
		if ended := proxy.ProcessState.Sys().(syscall.WaitStatus); err != nil && ended.Signal() != syscall.SIGTERM {
			t.Errorf("%s exited with %v", proxy.Path, err)
		}
		if t.Failed() {
			t.Logf("%s: %s", proxy.Path, Tail(log.String()))
		}
	})
}

// BehindCachingNginx runs nginx in front of the service with the documented configuration.
func (s *Server) BehindCachingNginx() *Server {
	s.T.Helper()
	listener := ListenHere(s.T)
	formats, _, _ := strings.Cut(DocumentedBlock(s.T, "nginx", "log_format sluice", nil), "upstream sluice {")
	StartNginx(s.T, listener, formats+"upstream sluice {\n"+UpstreamOf(s.Host)+"}\n"+DocumentedBlock(s.T, "nginx", "proxy_cache_path", [][2]string{
		{"listen 443 ssl;", "listen " + listener.Addr().String() + ";"},
		{"ssl_certificate     /etc/ssl/blobs.pem;", ""},
		{"ssl_certificate_key /etc/ssl/blobs.key;", ""},
		{"/var/cache/nginx/sluice", WorkerDir(s.T) + "/cache"},
		{"/var/log/nginx/sluice.log", "DIR/access.log"},
	}))
	return s.Through(listener.Addr().String())
}

// WorkerDir returns a new folder for nginx's worker. It may be another user, who cannot enter the
// folders of t.TempDir.
func WorkerDir(t testing.TB) string {
	t.Helper()
	dir := testenv.Must(os.MkdirTemp("", "nginx"))(t)
	testenv.AtEnd(t, func() error { return os.RemoveAll(dir) })
	testenv.OK(t, os.Chmod(dir, 0o755))
	return dir
}

// BehindVarnish runs Varnish in front of the service with the documented configuration, on a
// socket.
func (s *Server) BehindVarnish() *Server {
	s.T.Helper()
	program, err := testenv.VarnishPath()
	testenv.OK(s.T, err)
	host, port, err := net.SplitHostPort(s.Host)
	testenv.OK(s.T, err)
	dir, err := os.MkdirTemp("", "varnish") // short, because it is part of a socket's path
	testenv.OK(s.T, err)
	config := filepath.Join(dir, "default.vcl")
	block := DocumentedBlock(s.T, "vcl", "backend default", [][2]string{{`"127.0.0.1"`, `"` + host + `"`}, {`"9090"`, `"` + port + `"`}})
	testenv.OK(s.T, os.WriteFile(config, []byte(block), 0o600))
	socket := filepath.Join(dir, "socket")
	log := &LogBuffer{}
	varnish := exec.Command(program, "-F", "-j", "none", "-n", dir, "-a", socket, "-f", config, "-s", "malloc,64m", "-T", "none",
		"-l", "1m", "-p", "thread_pools=1", "-p", "thread_pool_min=10")
	varnish.Stdout, varnish.Stderr = log, log
	testenv.OK(s.T, varnish.Start())
	s.T.Cleanup(func() {
		var exit *exec.ExitError
		if err := errors.Join(varnish.Process.Signal(syscall.SIGTERM), varnish.Wait()); err != nil && !errors.As(err, &exit) {
			s.T.Error(err)
		}
		if err := os.RemoveAll(dir); err != nil {
			s.T.Error(err)
		}
		if s.T.Failed() {
			s.T.Logf("%s: %s", program, Tail(log.String()))
		}
	})
	through := s.Through("varnish")
	through.Client.Transport = &http.Transport{DisableCompression: true, DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}}
	return through
}
