package httpapi

import (
	"bufio"
	"bytes"
	"context"
	"errors"
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
	"sluice/database/sqlstore"
	"sluice/database/whole"
	"sluice/internal/httpconn"
	"sluice/internal/testenv"
	"sluice/metastore"
	"sluice/metering"
	"sluice/paychan"
	"sluice/session"
	"sluice/wire"
)

// TestMain checks that no goroutine outlives the requests and servers of these tests.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// service is a Server over real stores, on a loopback address.
type service struct {
	*Server
	url   string
	addr  string
	bytes bytestore.Store
	meta  whole.Database
	log   *lockedBuffer

	returns *metering.Returns
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

// newService starts a local service; change may alter its configuration, and then the Server.
func newService(t testing.TB, change func(*Config, *Server)) *service {
	t.Helper()
	return startService(t, nil, change)
}

// startService starts a service, which is hosted if keys is not nil.
func startService(t testing.TB, keys func(whole.Database) *access.Authenticator, change func(*Config, *Server)) *service {
	t.Helper()
	return startOver(t, func(m whole.Database) whole.Database { return m }, keys, change)
}

// startOver starts a service with the metadata store that around returns.
func startOver(t testing.TB, around func(whole.Database) whole.Database, keys func(whole.Database) *access.Authenticator, change func(*Config, *Server)) *service {
	t.Helper()
	return startAt(t, nil, around, keys, change)
}

// startAt starts a service. Its store uses the clock now, unless that is nil.
func startAt(t testing.TB, now func() time.Time, around func(whole.Database) whole.Database, keys func(whole.Database) *access.Authenticator, change func(*Config, *Server)) *service {
	t.Helper()
	s := buildAt(t, now, around, keys, change)
	h := httptest.NewUnstartedServer(s)
	h.Config = NewHTTPServer(s.Server)
	connections := newConnections(1000)
	connections.Attach(h.Config)
	h.Listener = adopt(t, h.Config, connections.Listener(h.Listener, false))
	h.Start()
	t.Cleanup(h.Close)
	s.url, s.addr = h.URL, h.Listener.Addr().String()
	return s
}

// adopt returns the listener with the connections of httpconn.
func adopt(t testing.TB, server *http.Server, l net.Listener) net.Listener {
	t.Helper()
	var log lockedBuffer
	adopted := httpconn.Adopt(server, []net.Listener{l}, (*http.Server).Serve, slog.New(slog.NewTextHandler(&log, nil)))
	if warning := log.String(); warning != "" {
		t.Error(warning)
	}
	return adopted[0]
}

// buildAt is startAt without an address, for tests in a bubble of package synctest: they call
// ServeHTTP.
func buildAt(t testing.TB, now func() time.Time, around func(whole.Database) whole.Database, keys func(whole.Database) *access.Authenticator, change func(*Config, *Server)) *service {
	t.Helper()
	dir := testenv.MemoryDir(t)
	files, err := localfs.Open(filepath.Join(dir, "bytes"), localfs.Options{})
	testenv.OK(t, err)
	database, err := sqlstore.OpenSQLite(filepath.Join(dir, "meta.db"), sqlstore.Options{Now: now, BlobCache: 1 << 20})
	testenv.OK(t, err)
	meta := around(database)
	logged := &lockedBuffer{}
	log := slog.New(slog.NewTextHandler(logged, nil))
	channels, err := paychan.New(meta, paychan.Options{Receiver: "0x1", Asset: "0x2", Module: "0x3", Price: 1, Deposit: 5, SessionTTL: time.Hour, UnsettledLimit: 100})
	testenv.OK(t, err)
	sessions := session.New(meta, session.Options{Grant: session.DefaultGrant})
	returns, err := metering.NewReturns(sessions, channels, filepath.Join(dir, "returns"), log)
	testenv.OK(t, err)
	giving, stop := context.WithCancel(context.Background())
	var background sync.WaitGroup
	background.Go(func() { returns.Run(giving) })
	c := Config{
		Version:    "test",
		Blobs:      blob.New(meta, files, blob.Options{VerifyTTL: time.Minute, ExtentSize: 4 << 20}),
		Sessions:   sessions,
		Channels:   channels,
		Returns:    returns,
		Inspection: meta,
		Census:     meta.Census,
		Reads:      ReadsPublic,
		Ready:      func(context.Context) error { return nil },
		Log:        log,
	}
	if keys != nil {
		c.Keys = keys(meta)
		c.Limiter = access.NewLimiter(access.LimiterOptions{Usage: meta})
	}
	if change != nil {
		change(&c, nil)
	}
	s, err := New(c)
	testenv.OK(t, err)
	if change != nil {
		change(&c, s)
	}
	t.Cleanup(func() {
		stop()
		background.Wait()
		if err := errors.Join(returns.Close(), database.Close(), files.Close()); err != nil {
			t.Error(err)
		}
	})
	return &service{Server: s, bytes: files, meta: meta, log: logged, returns: returns}
}

// logged returns the log when all requests have ended that were answered: a response is sent before
// its line is written.
func (s *service) logged() string {
	s.serving.Lock()
	defer s.serving.Unlock()
	return s.log.String()
}

// do sends a request and returns the response and its body.
func (s *service) do(t testing.TB, method, path, body string, headers ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequest(method, s.url+path, strings.NewReader(body))
	testenv.OK(t, err)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	testenv.OK(t, err)
	got, err := io.ReadAll(res.Body)
	testenv.OK(t, errors.Join(err, res.Body.Close()))
	return res, string(got)
}

func closeOrFail(t testing.TB, c io.Closer) {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// wantProblem checks an error response.
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
		t.Errorf("members are missing or wrong: %s", body)
	}
	if got := res.Header.Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("content type %q", got)
	}
	if got := res.Header.Get("Cache-Control"); got != "no-store" {
		t.Errorf("cache control %q", got)
	}
}

// loseExtent deletes the object behind one of a blob's extents.
func (s *service) loseExtent(t *testing.T, account, name string, place int) {
	t.Helper()
	ctx := context.Background()
	b, err := s.meta.Blob(ctx, account, name)
	testenv.OK(t, err)
	extents, err := s.meta.Extents(ctx, b.Content, metastore.Position{}, 10)
	testenv.OK(t, err)
	testenv.OK(t, s.bytes.Delete(ctx, bytestore.Name(extents[place].Object)))
}

// raw sends bytes unchanged and returns the first response.
func (s *service) raw(t *testing.T, request string) (*http.Response, string) {
	t.Helper()
	conn, err := net.Dial("tcp", s.addr)
	testenv.OK(t, err)
	t.Cleanup(func() { closeOrFail(t, conn) })
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	testenv.OK(t, err)
	body, err := io.ReadAll(res.Body)
	testenv.OK(t, errors.Join(err, res.Body.Close()))
	return res, string(body)
}

// send writes to a connection.
func send(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
}
