package nodes

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sluice/e2e"
	"sluice/internal/testenv"
)

// cacheConfig makes nginx a shared cache that stores every response it may. It is in front of the
// service and, under /control/, in front of a server with cacheable responses.
const cacheConfig = `daemon off;
master_process off;
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
  proxy_cache_path DIR/cache keys_zone=shared:10m;
  proxy_cache shared;
  proxy_cache_key $request_method$request_uri;
  proxy_cache_valid any 10m;
  proxy_cache_convert_head off;
  add_header X-Cache $upstream_cache_status always;
  server {
    listen unix:DIR/socket;
    location / { proxy_pass http://SLUICE; }
    location /control/ { proxy_pass http://CONTROL; }
  }
}
`

// startCache runs nginx in front of the server, on a Unix socket, and stops nginx when the test
// ends. It returns a function that sends a request through the cache.
func startCache(t *testing.T, s *e2e.Server, control string) func(method, target string, h ...string) e2e.Response {
	t.Helper()
	nginx, err := testenv.NginxPath()
	testenv.OK(t, err)
	dir, err := os.MkdirTemp("", "nginx") // short, because it is part of a socket's path
	testenv.OK(t, err)
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	config := strings.NewReplacer("DIR", dir, "SLUICE", s.Host, "CONTROL", control).Replace(cacheConfig)
	testenv.OK(t, os.WriteFile(filepath.Join(dir, "nginx.conf"), []byte(config), 0o600))
	process := exec.Command(nginx, "-p", dir, "-e", "stderr", "-c", filepath.Join(dir, "nginx.conf"))
	log := &e2e.LogBuffer{}
	process.Stdout, process.Stderr = log, log
	testenv.OK(t, process.Start())
	t.Cleanup(func() {
		if err := process.Process.Kill(); err != nil {
			t.Error(err)
		}
		_ = process.Wait() // killed
	})
	socket := filepath.Join(dir, "socket")
	through := &http.Client{Timeout: e2e.Patience, Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
		DisableCompression: true,
	}}
	t.Cleanup(through.CloseIdleConnections)
	ask := func(method, target string, h ...string) (e2e.Response, error) {
		req, err := http.NewRequestWithContext(t.Context(), method, "http://cache", nil)
		if err != nil {
			return e2e.Response{}, err
		}
		req.URL = &url.URL{Scheme: "http", Host: "cache", Opaque: target}
		for i := 0; i < len(h); i += 2 {
			req.Header.Add(h[i], h[i+1])
		}
		resp, err := through.Do(req)
		if err != nil {
			return e2e.Response{}, err
		}
		return e2e.Collect(resp)
	}
	s.Eventually("nginx does not respond:"+log.String(), func() bool {
		_, err := ask("GET", "/livez")
		return err == nil
	})
	return func(method, target string, h ...string) e2e.Response {
		t.Helper()
		r, err := ask(method, target, h...)
		if err != nil {
			t.Fatalf("%s %s: %v\n%s", method, target, err, log)
		}
		return r
	}
}

// TestSharedCacheKeepsNothingPaid reads through a cache that stores every response it may: paid
// bytes must not reach other clients, and nginx must answer no paying client with a stored refusal.
func TestSharedCacheKeepsNothingPaid(t *testing.T) {
	testenv.Require(t, testenv.Nginx)
	t.Parallel()
	asked := 0
	control := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		w.Header().Set("Cache-Control", "max-age=60")
		if _, err := fmt.Fprint(w, asked); err != nil {
			t.Error(err)
		}
	}))
	defer control.Close()
	s := e2e.Start(t, e2e.Options{Flags: []string{"--reads", "paid"}})
	data := e2e.Content(1, 100_000)
	for _, name := range []string{"paid first", "refused first"} {
		s.Must(204, "PUT", e2e.BlobTarget("0x1", name), data)
	}
	c := s.Open(s.Payer(1), 1000)
	id := c.Buy(100).SessionID
	get := startCache(t, s, control.Listener.Addr().String())

	// The cache does store cacheable responses.
	for _, want := range []string{"MISS", "HIT", "HIT"} {
		if r := get("GET", "/control/kept"); string(r.Body) != "1" || r.Header.Get("X-Cache") != want {
			t.Fatalf("the cache stores nothing: %v, want a %s", r, want)
		}
	}
	refused := func(target string, h ...string) {
		t.Helper()
		r := get("GET", target, h...)
		e2e.CheckProblem(t, r, 402, "")
		notKept(t, r)
	}
	paid := func(target string, h ...string) {
		t.Helper()
		r := get("GET", target, h...)
		if r.Status != 200 || e2e.Digest(r.Body) != e2e.Digest(data) {
			t.Errorf("a paid read through the cache: %v", r)
		}
		notKept(t, r)
	}
	for _, name := range []string{"paid first", "refused first"} {
		target := e2e.BlobTarget("0x1", name)
		if name == "refused first" {
			refused(target)
		}
		paid(target, "Session-Id", id)
		paid(target, "Session-Id", id)
		refused(target)
		paid(target, "X-Shelby-Micropayment", c.Next(1))
		refused(target)
		refused(target, "Session-Id", "unknown")
		refused(target, "X-Shelby-Micropayment", s.Payer(2).Sign(t, 1, 1, 1).Base64())
		stale := get("GET", target, "X-Shelby-Micropayment", c.Again())
		e2e.CheckProblem(t, stale, 409, "micropayment_stale")
		notKept(t, stale)
		paid(target, "Session-Id", id)
		if r := get("HEAD", target); r.Status != 200 || r.Header.Get("Chunkset-Price") != "1" {
			t.Errorf("HEAD through the cache: %v", r)
		}
		refused(target)
	}
	// Nginx must not store a 404 either: somebody may store the blob, and pay for it, later.
	late := e2e.BlobTarget("0x1", "late")
	e2e.CheckProblem(t, get("GET", late, "Session-Id", id), 404, "blob_not_found")
	s.Must(204, "PUT", late, data)
	paid(late, "Session-Id", id)
	refused(late)
	if left := s.Left(id); left != "93" {
		t.Errorf("%s chunksets left, want 93: each read through the cache is paid", left)
	}
}

// notKept fails the test unless the response is from the service itself.
func notKept(t *testing.T, r e2e.Response) {
	t.Helper()
	if got := r.Header.Get("X-Cache"); got != "MISS" {
		t.Errorf("%d: the cache says %q, want MISS", r.Status, got)
	}
}
