package nodes

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"sluice/e2e"
	"sluice/test/testenv"
)

// cacheConfig makes nginx a shared cache that stores every response it may. It is in front of the
// service and, under /control/, in front of a server with cacheable responses.
const cacheConfig = `
  proxy_cache_path CACHE use_temp_path=off keys_zone=shared:10m;
  proxy_max_temp_file_size 0;
  proxy_cache shared;
  proxy_cache_key $request_method$request_uri;
  proxy_cache_valid any 10m;
  proxy_cache_convert_head off;
  add_header X-Cache $upstream_cache_status always;
  server {
    listen LISTEN;
    location / { proxy_pass http://SLUICE; }
    location /control/ { proxy_pass http://CONTROL; }
  }
`

// startCache runs nginx in front of the server, and returns the server as seen through it.
func startCache(t *testing.T, s *e2e.Server, control string) *e2e.Server {
	t.Helper()
	listener := e2e.ListenHere(t)
	address := listener.Addr().String()
	folder := filepath.Join(e2e.WorkerDir(t), "cache")
	places := strings.NewReplacer("LISTEN", address, "CACHE", folder, "SLUICE", s.Host, "CONTROL", control)
	e2e.StartNginx(t, listener, places.Replace(cacheConfig))
	return s.Through(address)
}

// TestSharedCacheKeepsNothingPaid reads through a cache that stores every response it may: paid
// bytes must not reach other clients, and nginx must answer no paying client with a stored refusal.
// Invariants 27, 72.
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
	cache := startCache(t, s, control.Listener.Addr().String())
	get := func(method, target string, h ...string) e2e.Response {
		t.Helper()
		return cache.Do(method, target, nil, h...)
	}

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
		t.Errorf("%d: the cache reports %q, want MISS", r.Status, got)
	}
}
