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
	"slices"
	"strings"
	"syscall"
	"testing"

	"sluice/test/testenv"
)

// nginxAround is the configuration that nginx needs in addition to the documented one, to run
// without root and to leave no files. It compresses, as on Debian.
const nginxAround = `daemon off;
worker_processes 1;
pid DIR/nginx.pid;
error_log stderr warn;
error_log DIR/error.log warn;
events {}
http {
  gzip on;
  gzip_types *;
  access_log off;
  client_body_temp_path DIR/body;
  proxy_temp_path DIR/proxy;
  fastcgi_temp_path DIR/fastcgi;
  uwsgi_temp_path DIR/uwsgi;
  scgi_temp_path DIR/scgi;
%s
}
`

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
		return replaceEach(t, block, replaced)
	}
	t.Fatalf("%s has no %s block with %q", name, language, containing)
	return ""
}

// replaceEach returns a text with other texts in place of some. Each of these must occur once.
func replaceEach(t testing.TB, text string, replaced [][2]string) string {
	t.Helper()
	for _, one := range replaced {
		if strings.Count(text, one[0]) != 1 {
			t.Fatalf("there must be one %q in:\n%s", one[0], text)
		}
		text = strings.Replace(text, one[0], one[1], 1)
	}
	return text
}

// Deployed returns a file of deploy/, with other texts in place of some.
func Deployed(t testing.TB, name string, replaced [][2]string) string {
	t.Helper()
	return replaceEach(t, string(testenv.Must(os.ReadFile(filepath.Join("../../deploy", name)))(t)), replaced)
}

// Front has the servers behind a proxy with a configuration of deploy/.
type Front struct {
	Nodes []string      // native addresses, at most three
	S3    []string      // addresses of S3's, one of each node, or none
	Certs *Certificates // to serve TLS with; nil for none
}

// Nginx returns deploy/nginx.conf for a listener at this address. The log is written to access.log.
func (f Front) Nginx(t testing.TB, listen string) string {
	t.Helper()
	tls, cert, key := "", "", ""
	if f.Certs != nil {
		tls, cert, key = " ssl", "ssl_certificate "+f.Certs.Cert()+";", "ssl_certificate_key "+f.Certs.Key()+";"
	}
	replaced := [][2]string{
		{"listen 443 ssl;", "listen " + listen + tls + ";"},
		{"ssl_certificate     /etc/ssl/blobs.pem;", cert},
		{"ssl_certificate_key /etc/ssl/blobs.key;", key},
		{"/var/log/nginx/sluice.log", "DIR/access.log"},
	}
	for documented, hosts := range map[string][]string{"127.0.0.1:9090": f.Nodes, "127.0.0.1:9000": f.S3} {
		line := "    server " + documented + " max_fails=1 fail_timeout=2s;"
		var lines string
		for _, host := range hosts {
			lines += strings.Replace(line, documented, host, 1) + "\n"
		}
		if len(hosts) > 0 {
			replaced = append(replaced, [2]string{line, lines})
		}
	}
	return Deployed(t, "nginx.conf", replaced)
}

// StartNginx runs nginx with deploy/nginx.conf, and returns its address.
func (f Front) StartNginx(t testing.TB) string {
	t.Helper()
	listener := ListenHere(t)
	host := listener.Addr().String()
	StartNginx(t, listener, f.Nginx(t, host))
	return host
}

// StartHAProxy runs HAProxy with deploy/haproxy.cfg, and returns its address.
func (f Front) StartHAProxy(t testing.TB) string {
	t.Helper()
	program, err := testenv.HAProxyPath()
	testenv.OK(t, err)
	dir, bind := t.TempDir(), "bind fd@3"
	if f.Certs != nil {
		pair := slices.Concat(testenv.Must(os.ReadFile(f.Certs.Cert()))(t), testenv.Must(os.ReadFile(f.Certs.Key()))(t))
		testenv.OK(t, os.WriteFile(filepath.Join(dir, "blobs.pem"), pair, 0o600))
		bind += " ssl crt " + filepath.Join(dir, "blobs.pem")
	}
	replaced := [][2]string{{"bind :443 ssl crt /etc/haproxy/blobs.pem", bind}}
	for i := range 3 {
		node := fmt.Sprint("node", i+1)
		for documented, hosts := range map[string][]string{fmt.Sprintf(" 10.0.0.%d:9090\n", i+1): f.Nodes, fmt.Sprintf(" 10.0.0.%d:9000 track nodes/%s\n", i+1, node): f.S3} {
			line := ""
			if i < len(hosts) {
				_, track, _ := strings.Cut(documented[1:], " ")
				line = "    server " + node + " " + hosts[i] + " " + track + "\n"
			}
			replaced = append(replaced, [2]string{"    server " + node + documented, line})
		}
	}
	config := filepath.Join(dir, "haproxy.cfg")
	testenv.OK(t, os.WriteFile(config, []byte(Deployed(t, "haproxy.cfg", replaced)), 0o600))
	listener := ListenHere(t)
	StartProxy(t, exec.Command(program, "-db", "-f", config), listener)
	return listener.Addr().String()
}

// StartVarnish runs Varnish with deploy/varnish.vcl for the first node, and returns its folder,
// which has its socket, named socket.
func (f Front) StartVarnish(t testing.TB) (dir string) {
	t.Helper()
	program, err := testenv.VarnishPath()
	testenv.OK(t, err)
	dir, err = os.MkdirTemp("", "varnish") // short, because it is part of a socket's path
	testenv.OK(t, err)
	config := filepath.Join(dir, "default.vcl")
	var replaced [][2]string
	for documented, hosts := range map[string][]string{"9090": f.Nodes, "9000": f.S3} {
		if len(hosts) > 0 {
			host, port, err := net.SplitHostPort(hosts[0])
			testenv.OK(t, err)
			replaced = append(replaced, [2]string{`.host = "127.0.0.1";` + "\n    .port = \"" + documented, `.host = "` + host + `";` + "\n    .port = \"" + port})
		}
	}
	testenv.OK(t, os.WriteFile(config, []byte(Deployed(t, "varnish.vcl", replaced)), 0o600))
	log := &LogBuffer{}
	varnish := exec.Command(program, "-F", "-j", "none", "-n", dir, "-a", filepath.Join(dir, "socket"), "-f", config, "-s", "malloc,64m",
		"-T", "localhost:0", "-l", "1m", "-p", "thread_pools=1", "-p", "thread_pool_min=10")
	varnish.Stdout, varnish.Stderr = log, log
	testenv.OK(t, varnish.Start())
	t.Cleanup(func() {
		var exit *exec.ExitError
		if err := errors.Join(varnish.Process.Signal(syscall.SIGTERM), varnish.Wait()); err != nil && !errors.As(err, &exit) {
			t.Error(err)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("%s: %s", program, Tail(log.String()))
		}
	})
	return dir
}

// BehindNginx runs nginx with deploy/nginx.conf in front of a service, and returns the
// service as seen through it. It stops nginx when the test ends.
func (s *Server) BehindNginx() *Server {
	s.T.Helper()
	return s.Through(Front{Nodes: []string{s.Host}}.StartNginx(s.T))
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

// BehindCachingNginx runs nginx before the service with deploy/nginx-cache.conf. It returns the
// replacement with which the documented purge is for this nginx.
func (s *Server) BehindCachingNginx() (through *Server, purge [2]string) {
	s.T.Helper()
	listener, purge := ListenHere(s.T), [2]string{"/var/cache/nginx/sluice", WorkerDir(s.T) + "/cache"}
	StartNginx(s.T, listener, Front{Nodes: []string{s.Host}}.Nginx(s.T, "unix:DIR/other")+Deployed(s.T, "nginx-cache.conf", [][2]string{
		{"listen 443 ssl;", "listen " + listener.Addr().String() + ";"},
		{"ssl_certificate     /etc/ssl/blobs.pem;", ""},
		{"ssl_certificate_key /etc/ssl/blobs.key;", ""},
		purge,
		{"/var/log/nginx/sluice.log", "DIR/access.log"},
	}))
	return s.Through(listener.Addr().String()), purge
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

// BehindVarnish runs Varnish before the service with deploy/varnish.vcl, on a socket. It returns
// the replacement with which the documented purge is for this Varnish.
func (s *Server) BehindVarnish() (through *Server, purge [2]string) {
	s.T.Helper()
	dir := Front{Nodes: []string{s.Host}}.StartVarnish(s.T)
	through = s.Through("varnish")
	through.Client.Transport = &http.Transport{DisableCompression: true, DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(dir, "socket"))
		}}
	return through, [2]string{"varnishadm ", "varnishadm -n " + dir + " "}
}
