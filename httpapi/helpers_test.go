package httpapi

import (
	"bufio"
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
	"runtime"
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
	"sluice/exchange"
	"sluice/feed"
	"sluice/internal/connlimit"
	"sluice/internal/httpconn"
	"sluice/metastore"
	"sluice/metering"
	"sluice/paychan"
	"sluice/session"
	"sluice/test/testenv"
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

func textLog(out io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(out, nil)) }

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

// setup has the differences from a local service over SQLite and files with public reads.
type setup struct {
	now    func() time.Time                           // the clock of the database
	around func(whole.Database) whole.Database        // returns the database that the service uses
	keys   func(whole.Database) *access.Authenticator // makes it a hosted service
	config func(*Config)                              // changes its configuration
}

// newService starts a local service; config may change its configuration.
func newService(t testing.TB, config func(*Config)) *service {
	t.Helper()
	return start(t, setup{config: config})
}

func start(t testing.TB, of setup) *service {
	t.Helper()
	s := build(t, of)
	s.addr = serve(t, s.ServerOf(s.Server), newConnections(1000))
	s.url = "http://" + s.addr
	return s
}

// newConnections returns a limiter with the refusals of this package.
func newConnections(limit int) *connlimit.Limiter {
	return connlimit.New(limit, ConnectionRefusal(false))
}

// serve serves HTTP with these connections, until the test ends, and returns the address.
func serve(t testing.TB, server *http.Server, conns *connlimit.Limiter) string {
	t.Helper()
	addr, log := serveBy(t, server, conns, runtime.Version())
	testenv.Equal(t, log.String(), "", "the log of the connections")
	return addr
}

// serveBy is serve with the connections that httpconn.Adopt chooses for a release of Go. It returns
// Adopt's log, too. At the end it checks that no connection is counted any longer.
func serveBy(t testing.TB, server *http.Server, conns *connlimit.Limiter, release string) (addr string, log *lockedBuffer) {
	t.Helper()
	log = &lockedBuffer{}
	inner := testenv.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	conns.Attach(server)
	listeners := []net.Listener{conns.Listener(inner, false)}
	adopted := httpconn.Adopt(server, listeners, release, textLog(log))
	served := make(chan error, 1)
	go func() { served <- server.Serve(adopted[0]) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		testenv.Check(t, server.Shutdown(ctx))
		testenv.Is(t, <-served, http.ErrServerClosed, "the server")
		conns.Wait(ctx)
		testenv.Equal(t, conns.Counts().Open, 0, "connections that are counted after the end")
	})
	return inner.Addr().String(), log
}

// build is start without an address, for tests in a bubble of package synctest: they call direct,
// and set now to time.Now, because the database's own clock is not the bubble's.
func build(t testing.TB, of setup) *service {
	t.Helper()
	dir := testenv.MemoryDir(t)
	files := testenv.Must(localfs.Open(filepath.Join(dir, "bytes"), localfs.Options{}))(t)
	options := sqlstore.Options{Now: of.now, BlobCache: 1 << 20}
	database := testenv.Must(sqlstore.OpenSQLite(filepath.Join(dir, "meta.db"), options))(t)
	meta := whole.Database(database)
	if of.around != nil {
		meta = of.around(meta)
	}
	logged := &lockedBuffer{}
	log := textLog(logged)
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
		Changes:    feed.New(meta, feed.Options{}),
		Sessions:   sessions,
		Channels:   channels,
		Returns:    returns,
		Inspection: meta,
		Census:     meta.Census,
		Reads:      access.ReadsPublic,
		Config:     exchange.Config{Ready: func(context.Context) error { return nil }, Log: log},
	}
	if of.keys != nil {
		c.Keys = of.keys(meta)
		c.Limiter = access.NewLimiter(access.LimiterOptions{Usage: meta})
	}
	if of.config != nil {
		of.config(&c)
	}
	c.Places = access.NewPlaces(meta, c.Reads, 0)
	background.Go(func() { c.Places.Run(giving, func(error) {}) })
	s := testenv.Must(New(c))(t)
	t.Cleanup(func() {
		stop()
		c.Changes.Close()
		background.Wait()
		testenv.Check(t, errors.Join(returns.Close(), database.Close(), files.Close()))
	})
	return &service{Server: s, bytes: files, meta: meta, log: logged, returns: returns}
}

// logged returns the log when all requests have ended that were answered: a response is sent before
// its line is written.
func (s *service) logged() string {
	s.Await()
	return s.log.String()
}

// admitted admits a request from the address, without a key, which is in progress until end is
// called.
func (s *service) admitted(t testing.TB, from string) (x *call, end func()) {
	t.Helper()
	x = &call{}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/info", nil)
	r.RemoteAddr = from
	s.Begin(&x.Exchange, &s.door, httptest.NewRecorder(), r)
	testenv.OK(t, x.Admit(nil, nil))
	return x, func() {
		x.Leave()
		x.End()
	}
}

// do sends a request and returns the response and its body.
func (s *service) do(t testing.TB, method, path, body string, headers ...string) (*http.Response, string) {
	t.Helper()
	res, got, err := s.try(t, method, path, body, headers...)
	testenv.OK(t, err)
	return res, got
}

// try is like do, and returns the error if the response's body cannot be read to its end.
func (s *service) try(t testing.TB, method, path, body string, headers ...string) (*http.Response, string, error) {
	t.Helper()
	req := testenv.Must(http.NewRequest(method, s.url+path, strings.NewReader(body)))(t)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res := testenv.Must(client.Do(req))(t)
	got, err := io.ReadAll(res.Body)
	testenv.OK(t, res.Body.Close())
	return res, string(got), err
}

// direct serves a request from an address without a connection, and returns the response.
func (s *Server) direct(ctx context.Context, from, method, path, body string, headers ...string) *http.Response {
	r := httptest.NewRequestWithContext(ctx, method, "http://localhost"+path, strings.NewReader(body))
	r.RemoteAddr = from
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Result()
}

// keyHeader returns the header that sends an API key, or none without one.
func keyHeader(key string) []string {
	if key == "" {
		return nil
	}
	return []string{"X-Api-Key", key}
}

// want sends a request and returns the response and its body. The test fails, and goes on, unless
// the response has this status.
func (s *service) want(
	t testing.TB, status int, method, path, body string, headers ...string,
) (*http.Response, string) {
	t.Helper()
	res, got := s.do(t, method, path, body, headers...)
	if res.StatusCode != status {
		t.Errorf("%s %.200s %.200q: %d %.500s, want %d", method, path, headers, res.StatusCode, got, status)
	}
	return res, got
}

// refused is like want, for an error response with this code.
func (s *service) refused(
	t testing.TB, status int, code wire.Code, method, path, body string, headers ...string,
) (*http.Response, string) {
	t.Helper()
	res, got := s.do(t, method, path, body, headers...)
	wantProblem(t, res, got, status, code)
	return res, got
}

func decodedAs[T any](t testing.TB, body string) (out T) {
	t.Helper()
	if err := json.Unmarshal([]byte(body), &out); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	return out
}

// newSession returns a new session's id.
func (s *service) newSession(t testing.TB) string {
	t.Helper()
	_, body := s.want(t, 201, "POST", "/v1/sessions", "")
	return decodedAs[wire.Session](t, body).SessionID
}

// newUpload returns a new upload's path. members are appended to the JSON object, and begin with a
// comma.
func (s *service) newUpload(t testing.TB, account, name, members string, headers ...string) string {
	t.Helper()
	begin := fmt.Sprintf(`{"rawAccount": %q, "rawBlobName": %q%s}`, account, name, members)
	_, body := s.want(t, 200, "POST", "/v1/multipart-uploads", begin, headers...)
	return "/v1/multipart-uploads/" + decodedAs[wire.UploadBegun](t, body).UploadID
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
	b := testenv.Must(s.meta.Blob(ctx, account, name))(t)
	extents := testenv.Must(s.meta.Extents(ctx, b.Content, metastore.Position{}, 10))(t)
	testenv.OK(t, s.bytes.Delete(ctx, bytestore.Name(extents[place].Object)))
}

// hold begins n requests, and returns when they are in progress. They succeed when end is called,
// which returns when all have ended.
func (s *service) hold(t *testing.T, n int64) (end func()) {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	var bodies []*io.PipeWriter
	var responses sync.WaitGroup
	for range n {
		body, w := io.Pipe()
		bodies = append(bodies, w)
		responses.Go(func() {
			res, err := client.Post(s.url+"/v1/sessions", "application/json", body)
			if err != nil {
				t.Error(err)
				return
			}
			testenv.Check(t, res.Body.Close())
			testenv.Equal(t, res.StatusCode, http.StatusCreated, "the status of a request that was held")
		})
		testenv.OK(t, testenv.Error(io.WriteString(w, "{")))
	}
	for s.Counts().Active < n {
		runtime.Gosched()
	}
	return func() {
		for _, w := range bodies {
			testenv.Check(t, errors.Join(testenv.Error(io.WriteString(w, "}")), w.Close()))
		}
		responses.Wait()
	}
}

// raw sends bytes unchanged and returns the first response.
func (s *service) raw(t testing.TB, request string) (*http.Response, string) {
	t.Helper()
	conn := dial(t, s.addr)
	conn.send(t, request)
	return conn.receive(t)
}

// connection is the client's end of a connection, which lasts until it is closed or the test ends.
type connection struct {
	*net.TCPConn
	r *bufio.Reader
}

// dial connects to an address. Nothing waits for longer than a minute.
func dial(t testing.TB, addr string) *connection {
	t.Helper()
	return dialFrom(t, "127.0.0.1", addr)
}

// dialFrom is dial from another address of this machine.
func dialFrom(t testing.TB, ip, addr string) *connection {
	t.Helper()
	from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}}
	conn := testenv.Must(from.DialContext(t.Context(), "tcp", addr))(t)
	testenv.OK(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	t.Cleanup(func() {
		if err := conn.Close(); !errors.Is(err, net.ErrClosed) {
			testenv.Check(t, err)
		}
	})
	return &connection{conn.(*net.TCPConn), bufio.NewReader(conn)}
}

func (c *connection) send(t testing.TB, text string) {
	t.Helper()
	testenv.OK(t, testenv.Error(io.WriteString(c, text)))
}

// receive returns the next response and its body.
func (c *connection) receive(t testing.TB) (*http.Response, string) {
	t.Helper()
	res := testenv.Must(http.ReadResponse(c.r, nil))(t)
	body, err := io.ReadAll(res.Body)
	testenv.OK(t, errors.Join(err, res.Body.Close()))
	return res, string(body)
}

// probe asks whether the server is alive, and returns the status.
func (c *connection) probe(t testing.TB) int {
	t.Helper()
	c.send(t, "GET /livez HTTP/1.1\r\nHost: h\r\n\r\n")
	res, _ := c.receive(t)
	return res.StatusCode
}

// wantEnd checks that the server has ended the connection, and sends nothing more.
func (c *connection) wantEnd(t testing.TB) {
	t.Helper()
	testenv.Is(t, testenv.Error(c.r.ReadByte()), io.EOF, "the bytes after the last response")
}
