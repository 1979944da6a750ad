package httpapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"go.uber.org/goleak"

	"sluice/access"
	"sluice/blob"
	"sluice/bytestore"
	"sluice/bytestore/localfs"
	"sluice/metastore"
	"sluice/metastore/sqlstore"
	"sluice/metering"
	"sluice/paychan"
	"sluice/session"
	"sluice/wire"
)

// No goroutine outlives the requests and the servers of these tests.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// service is a Server over real stores, on a loopback address.
type service struct {
	*Server
	url   string
	addr  string
	bytes bytestore.Store
	meta  metastore.Store
	log   *lockedBuffer
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// newService starts a local service; change may alter it before it serves.
func newService(t testing.TB, change func(*Config, *Server)) *service {
	t.Helper()
	return startService(t, nil, change)
}

// startService starts a service. keys, if there is one, makes it a hosted one.
func startService(t testing.TB, keys func(metastore.Store) *access.Authenticator, change func(*Config, *Server)) *service {
	t.Helper()
	return startOver(t, func(m metastore.Store) metastore.Store { return m }, keys, change)
}

// startOver starts a service over what around makes of its metadata store.
func startOver(t testing.TB, around func(metastore.Store) metastore.Store, keys func(metastore.Store) *access.Authenticator, change func(*Config, *Server)) *service {
	t.Helper()
	return startAt(t, nil, around, keys, change)
}

// startAt starts a service whose time is now, unless that is nil.
func startAt(t testing.TB, now func() time.Time, around func(metastore.Store) metastore.Store, keys func(metastore.Store) *access.Authenticator, change func(*Config, *Server)) *service {
	t.Helper()
	dir := t.TempDir()
	files, err := localfs.Open(filepath.Join(dir, "bytes"), localfs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	database, err := sqlstore.OpenSQLite(filepath.Join(dir, "meta.db"), sqlstore.Options{Now: now})
	if err != nil {
		t.Fatal(err)
	}
	meta := around(database)
	logged := &lockedBuffer{}
	log := slog.New(slog.NewTextHandler(logged, nil))
	channels, err := paychan.New(meta, paychan.Options{Receiver: "0x1", Asset: "0x2", Module: "0x3", Price: 1, Deposit: 5, SessionTTL: time.Hour, UnsettledLimit: 100})
	if err != nil {
		t.Fatal(err)
	}
	sessions := session.New(meta, session.Options{Grant: session.DefaultGrant})
	returns, err := metering.NewReturns(sessions, channels, filepath.Join(dir, "returns"), log, nil)
	if err != nil {
		t.Fatal(err)
	}
	giving, stop := context.WithCancel(context.Background())
	var background sync.WaitGroup
	background.Go(func() { returns.Run(giving) })
	c := Config{
		Version:  "test",
		Blobs:    blob.New(meta, files, blob.Options{VerifyTTL: time.Minute, ExtentSize: 4 << 20}),
		Sessions: sessions,
		Channels: channels,
		Returns:  returns,
		Reads:    ReadsPublic,
		Ready:    func(context.Context) error { return nil },
		Log:      log,
	}
	if keys != nil {
		c.Keys = keys(meta)
		c.Limiter = access.NewLimiter(access.LimiterOptions{Usage: meta})
	}
	if change != nil {
		change(&c, nil)
	}
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(&c, s)
	}
	h := httptest.NewUnstartedServer(s)
	h.Config = NewHTTPServer(s, log)
	h.Start()
	t.Cleanup(func() {
		h.Close()
		stop()
		background.Wait()
		if err := errors.Join(returns.Close(), database.Close(), files.Close()); err != nil {
			t.Error(err)
		}
	})
	return &service{Server: s, url: h.URL, addr: h.Listener.Addr().String(), bytes: files, meta: meta, log: logged}
}

// do sends a request and gives the reply with its body read.
func (s *service) do(t testing.TB, method, path, body string, headers ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequest(method, s.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(res.Body)
	if err := errors.Join(err, res.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return res, string(got)
}

func closeOrFail(t testing.TB, c io.Closer) {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// wantProblem checks an error reply.
func wantProblem(t testing.TB, res *http.Response, body string, status int, code wire.Code) {
	t.Helper()
	var p wire.Problem
	if err := json.Unmarshal([]byte(body), &p); err != nil {
		t.Fatalf("status %d: not a problem: %q: %v", res.StatusCode, body, err)
	}
	if res.StatusCode != status || p.Status != status || p.Code != string(code) {
		t.Errorf("%d %s, want %d %s: %s", res.StatusCode, p.Code, status, code, body)
	}
	if id := res.Header.Get(wire.HeaderRequestID); id == "" || id != p.RequestID {
		t.Errorf("request id %q in the header, %q in the body", id, p.RequestID)
	}
	if p.Detail == "" || p.Error != p.Detail || p.Title != http.StatusText(status) || !strings.HasSuffix(p.Type, p.Code) {
		t.Errorf("not the members of section 6: %s", body)
	}
	if got := res.Header.Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("content type %q", got)
	}
	if got := res.Header.Get("Cache-Control"); got != "no-store" {
		t.Errorf("cache control %q", got)
	}
}

func TestDrainingServiceIsNotReady(t *testing.T) {
	s := newService(t, nil)
	if res, body := s.do(t, "GET", "/readyz", ""); res.StatusCode != http.StatusOK || body != "ready\n" {
		t.Fatalf("%d %q", res.StatusCode, body)
	}
	s.Drain()
	res, body := s.do(t, "GET", "/readyz", "")
	wantProblem(t, res, body, http.StatusServiceUnavailable, wire.CodeDraining)
	if !res.Close {
		t.Error("the connection stays open")
	}
	if res, _ := s.do(t, "GET", "/livez", ""); res.StatusCode != http.StatusOK {
		t.Errorf("livez: %d", res.StatusCode)
	}
}

func TestServiceThatCannotServeIsNotReady(t *testing.T) {
	s := newService(t, func(c *Config, _ *Server) {
		c.Ready = func(context.Context) error { return bytestore.ErrNoSpace }
	})
	res, body := s.do(t, "GET", "/readyz", "")
	wantProblem(t, res, body, http.StatusServiceUnavailable, wire.CodeNotReady)
	if !strings.Contains(s.log.String(), bytestore.ErrNoSpace.Error()) {
		t.Error("the log does not tell why")
	}
}

func TestSlowBodyIsRefused(t *testing.T) {
	s := newService(t, func(_ *Config, s *Server) {
		if s != nil {
			s.pace = pace{bytes: 1 << 10, window: 50 * time.Millisecond}
		}
	})
	for _, request := range []string{
		"PUT /v1/blobs/0x1/slow HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\nxx",
		"POST /v1/multipart-uploads HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{",
	} {
		res, body := s.raw(t, request)
		wantProblem(t, res, body, http.StatusRequestTimeout, wire.CodeBodyTooSlow)
		if !res.Close {
			t.Error("the connection stays open")
		}
	}
	if res, _ := s.do(t, "GET", "/v1/blobs/0x1/slow", ""); res.StatusCode != http.StatusNotFound {
		t.Errorf("the slow body was stored: %d", res.StatusCode)
	}
}

func TestDamageFoundBeforeTheFirstByteIsAnError(t *testing.T) {
	s := newService(t, nil)
	s.do(t, "PUT", "/v1/blobs/0x1/n", strings.Repeat("x", 1<<20))
	s.loseExtent(t, "0x1", "n", 0)
	res, body := s.do(t, "GET", "/v1/blobs/0x1/n", "", "Range", "bytes=1-2")
	wantProblem(t, res, body, http.StatusInternalServerError, wire.CodeInternal)
	for _, name := range blobHeaders {
		if got := res.Header.Get(name); got != "" && name != "Content-Type" && name != "Content-Length" {
			t.Errorf("%s: %s in an error reply", name, got)
		}
	}
	if !strings.Contains(s.log.String(), "level=ERROR") {
		t.Error("the log does not tell of it")
	}
}

func TestDamageFoundLaterCutsTheConnection(t *testing.T) {
	s := newService(t, nil)
	s.do(t, "PUT", "/v1/blobs/0x1/n", strings.Repeat("x", 6<<20))
	s.loseExtent(t, "0x1", "n", 1)
	res, err := http.Get(s.url + "/v1/blobs/0x1/n")
	if err != nil {
		t.Fatal(err)
	}
	n, err := io.Copy(io.Discard, res.Body)
	closeOrFail(t, res.Body)
	if err == nil {
		t.Fatalf("a body of %d bytes looks complete", n)
	}
	http.DefaultClient.CloseIdleConnections()
}

// loseExtent deletes the object of a blob's extent, by its place.
func (s *service) loseExtent(t *testing.T, account, name string, place int) {
	t.Helper()
	ctx := context.Background()
	b, err := s.meta.Blob(ctx, account, name)
	if err != nil {
		t.Fatal(err)
	}
	extents, err := s.meta.Extents(ctx, b.Content, metastore.Position{}, 10)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.bytes.Delete(ctx, bytestore.Key(extents[place].Key)); err != nil {
		t.Fatal(err)
	}
}

func TestPanicIsAnError(t *testing.T) {
	s := newService(t, func(c *Config, _ *Server) {
		c.Ready = func(context.Context) error { panic("boom") }
	})
	res, body := s.do(t, "GET", "/readyz", "")
	wantProblem(t, res, body, http.StatusInternalServerError, wire.CodeInternal)
	if log := s.log.String(); !strings.Contains(log, "boom") || strings.Contains(body, "boom") {
		t.Errorf("reply %s, log %s", body, log)
	}
}

func TestRequestIDs(t *testing.T) {
	s := newService(t, nil)
	for given, kept := range map[string]bool{"abc-1.2_3": true, "": false, "has space": false, strings.Repeat("x", 129): false} {
		res, _ := s.do(t, "GET", "/v1/info", "", wire.HeaderRequestID, given)
		if got := res.Header.Get(wire.HeaderRequestID); (got == given) != kept || got == "" {
			t.Errorf("given %q, got %q", given, got)
		}
	}
	if n := strings.Count(s.log.String(), "msg=request"); n != 4 {
		t.Errorf("%d lines for 4 requests", n)
	}
}

func TestConcurrentRequestsOfOneIdempotencyKeyHaveOneEffect(t *testing.T) {
	s := newService(t, nil)
	_, body := s.do(t, "POST", "/v1/sessions", "")
	var made wire.Session
	if err := json.Unmarshal([]byte(body), &made); err != nil {
		t.Fatal(err)
	}
	var workers sync.WaitGroup
	lefts := make([]string, 20)
	for i := range lefts {
		workers.Go(func() {
			res, _ := s.do(t, "POST", "/v1/sessions/"+made.SessionID+"/use", "", wire.HeaderIdempotencyKey, "k")
			lefts[i] = fmt.Sprintf("%d %s", res.StatusCode, res.Header.Get(wire.HeaderChunksetsLeft))
		})
	}
	workers.Wait()
	for _, left := range lefts {
		if left != "200 999" {
			t.Errorf("got %q", left)
		}
	}
	res, body := s.do(t, "POST", "/v1/sessions/"+made.SessionID+"/use", "{}", wire.HeaderIdempotencyKey, "k")
	wantProblem(t, res, body, http.StatusUnprocessableEntity, wire.CodeIdempotencyReuse)
}

// A client that announces a body and sends none holds nobody for ever, also
// where the body is of no interest.
func TestUnreadBodyIsNotAwaitedForEver(t *testing.T) {
	s := newService(t, func(_ *Config, s *Server) {
		if s != nil {
			s.pace = pace{bytes: 1 << 10, window: 50 * time.Millisecond}
		}
	})
	s.do(t, "PUT", "/v1/blobs/0x1/large", strings.Repeat("x", 1<<20))
	for _, target := range []string{"GET /livez", "GET /v1/blobs/0x1/large", "GET /nowhere", "DELETE /v1/blobs/0x1/n", "PUT /livez"} {
		conn, err := net.Dial("tcp", s.addr)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, target+" HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		// The test's own time-out is the judge of "for ever".
		if _, err := io.Copy(io.Discard, conn); err != nil {
			t.Errorf("%s: %v", target, err)
		}
		closeOrFail(t, conn)
	}
}
