package s3api

import (
	"context"
	"encoding/xml"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sluice/access"
	"sluice/admin"
	"sluice/blob"
	"sluice/bytestore/localfs"
	"sluice/database/sqlstore"
	"sluice/exchange"
	"sluice/test/testenv"
)

// TestMain checks that no goroutine outlives the requests and servers of these tests.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// service is a Server over real stores, on a loopback address.
type service struct {
	*Server
	url  string
	addr string

	database *sqlstore.Store
}

// setup has the differences from a local service.
type setup struct {
	database *sqlstore.Store        // nil: a new one
	config   func(*Config)          // changes its configuration
	exchange func(*exchange.Config) // changes the configuration that its exchanges share
}

// start starts a service over SQLite and files.
func start(t testing.TB, of setup) *service {
	t.Helper()
	dir := testenv.MemoryDir(t)
	files := testenv.Must(localfs.Open(filepath.Join(dir, "bytes"), localfs.Options{}))(t)
	testenv.AtEnd(t, files.Close)
	database := of.database
	if database == nil {
		database = openDatabase(t)
	}
	shared := exchange.Config{
		Ready: func(context.Context) error { return nil }, Log: slog.New(slog.DiscardHandler),
	}
	if of.exchange != nil {
		of.exchange(&shared)
	}
	c := Config{
		Exchanges: testenv.Must(exchange.New(shared))(t),
		Blobs:     blob.New(database, files, blob.Options{VerifyTTL: time.Minute, ExtentSize: 4 << 20}),
		Reads:     access.ReadsPublic,
	}
	if of.config != nil {
		of.config(&c)
	}
	c.Places = access.NewPlaces(database, c.Reads, 0) // without Run each request sees all changes
	c.Admin = admin.New(database, admin.Options{Places: c.Places, SettingsChanged: c.Blobs.ForgetSettings})
	s := New(c)
	server := c.Exchanges.ServerOf(s)
	listener := testenv.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		testenv.Check(t, server.Shutdown(ctx))
		testenv.Is(t, <-ended, http.ErrServerClosed, "the server")
	})
	addr := listener.Addr().String()
	return &service{s, "http://" + addr, addr, database}
}

// openDatabase opens a new database until the test ends.
func openDatabase(t testing.TB) *sqlstore.Store {
	t.Helper()
	database := testenv.Must(sqlstore.OpenSQLite(filepath.Join(testenv.MemoryDir(t), "meta.db"), sqlstore.Options{BlobCache: 1 << 20}))(t)
	testenv.AtEnd(t, database.Close)
	return database
}

// newService starts a local service.
func newService(t testing.TB) *service {
	t.Helper()
	return start(t, setup{})
}

// response is a response that was read to its end.
type response struct {
	*http.Response
	body string
}

// do sends a request. fields are header fields: names, each with its value.
func (s *service) do(t testing.TB, method, path, body string, fields ...string) response {
	t.Helper()
	r := testenv.Must(http.NewRequestWithContext(t.Context(), method, s.url+path, strings.NewReader(body)))(t)
	for i := 0; i < len(fields); i += 2 {
		r.Header.Set(fields[i], fields[i+1])
	}
	return send(t, r)
}

func send(t testing.TB, r *http.Request) response {
	t.Helper()
	client := http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true, DisableCompression: true, ExpectContinueTimeout: time.Minute},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	res := testenv.Must(client.Do(r))(t)
	body := testenv.Must(io.ReadAll(res.Body))(t)
	testenv.OK(t, res.Body.Close())
	return response{res, string(body)}
}

// want is do, and the test goes on but fails unless the response has this status.
func (s *service) want(t testing.TB, status int, method, path, body string, fields ...string) response {
	t.Helper()
	res := s.do(t, method, path, body, fields...)
	if res.StatusCode != status {
		t.Errorf("%s %.200s %.300q: %d %.500s, want %d", method, path, fields, res.StatusCode, res.body, status)
	}
	return res
}

// refused is want for an error response with this code.
func (s *service) refused(t testing.TB, status int, code, method, path, body string, fields ...string) response {
	t.Helper()
	res := s.do(t, method, path, body, fields...)
	wantError(t, res, status, code)
	return res
}

// sentError is an error's document.
type sentError struct {
	XMLName       xml.Name `xml:"Error"`
	Code, Message string
	Resource      string
	RequestID     string `xml:"RequestId"`
}

// wantError checks an error response.
func wantError(t testing.TB, res response, status int, code string) {
	t.Helper()
	if res.body == "" {
		t.Errorf("%s: %d without a document, want %d %s", res.Request.URL, res.StatusCode, status, code)
		return
	}
	e := decodedAs[sentError](t, res.body)
	if res.StatusCode != status || e.Code != code {
		t.Errorf("%s: %d %s, want %d %s: %s", res.Request.URL, res.StatusCode, e.Code, status, code, e.Message)
	}
	if !strings.HasSuffix(e.Message, ".") || e.RequestID == "" || e.RequestID != res.Header.Get("X-Amz-Request-Id") {
		t.Errorf("members are missing or wrong: %s, and the request's id is %q", res.body, res.Header.Get("X-Amz-Request-Id"))
	}
	if res.Header.Get("Content-Type") != "application/xml" || res.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("the header of an error is %v", res.Header)
	}
}

// decodedAs decodes a document.
func decodedAs[T any](t testing.TB, body string) (out T) {
	t.Helper()
	if err := xml.Unmarshal([]byte(body), &out); err != nil {
		t.Fatalf("%v: %.1000s", err, body)
	}
	return out
}

// direct serves a request without a connection.
func (s *Server) direct(r *http.Request) *http.Response {
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Result()
}
