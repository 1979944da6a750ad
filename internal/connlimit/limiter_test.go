package connlimit

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"sluice/test/testenv"
)

// testRefusal is a refusal with a short body.
func testRefusal(_ Reason, head bool) []byte {
	text := "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\nContent-Length: 8\r\n\r\n"
	if !head {
		text += "too many"
	}
	return []byte(text)
}

// cappedServer is an HTTP server with limited connections, on loopback.
type cappedServer struct {
	*httptest.Server
	t      *testing.T
	conns  *Limiter
	addr   string
	states chan http.ConnState // of its connections, as they change
	letGo  chan struct{}       // requests of /stall wait for it
}

// newCapped starts a server; change may alter it before it serves.
func newCapped(t *testing.T, conns *Limiter, secure bool, change func(*httptest.Server)) *cappedServer {
	t.Helper()
	s := &cappedServer{t: t, conns: conns, states: make(chan http.ConnState, 1000), letGo: make(chan struct{})}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/stall" {
			<-s.letGo
		}
	}))
	s.addr = s.Listener.Addr().String()
	if change != nil {
		change(s.Server)
	}
	s.Listener = conns.Listener(s.Listener, secure)
	conns.Attach(s.Config)
	noted := s.Config.ConnState
	s.Config.ConnState = func(c net.Conn, state http.ConnState) {
		noted(c, state)
		s.states <- state
	}
	if secure {
		s.EnableHTTP2 = true
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(func() {
		s.Close()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		conns.Wait(ctx)
		testenv.Equal(t, conns.Counts().Open, 0, "connections that are counted after the end")
	})
	return s
}

// cap2 returns a limiter of two connections that are evicted after minIdle.
func cap2(minIdle time.Duration) *Limiter {
	c := New(2, testRefusal)
	c.minIdle = minIdle
	return c
}

// await waits until some connection enters the state.
func (s *cappedServer) await(want http.ConnState) {
	s.t.Helper()
	patience := time.After(time.Minute)
	for {
		select {
		case got := <-s.states:
			if got == want {
				return
			}
		case <-patience:
			s.t.Fatalf("no connection becomes %v", want)
		}
	}
}

func (s *cappedServer) dial() net.Conn {
	s.t.Helper()
	conn := testenv.Must(net.Dial("tcp", s.addr))(s.t)
	s.t.Cleanup(func() {
		if err := conn.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			s.t.Error(err)
		}
	})
	testenv.OK(s.t, conn.SetDeadline(time.Now().Add(time.Minute)))
	return conn
}

// ask sends a request and reads its response.
func (s *cappedServer) ask(conn net.Conn, method, path string) (*http.Response, []byte, *bufio.Reader) {
	s.t.Helper()
	testenv.Must(io.WriteString(conn, method+" "+path+" HTTP/1.1\r\nHost: localhost\r\n\r\n"))(s.t)
	r := bufio.NewReader(conn)
	response := testenv.Must(http.ReadResponse(r, &http.Request{Method: method}))(s.t)
	body, err := io.ReadAll(response.Body)
	testenv.OK(s.t, errors.Join(err, response.Body.Close()))
	return response, body, r
}

// rests returns a connection that had one request and is idle.
func (s *cappedServer) rests() net.Conn {
	s.t.Helper()
	conn := s.dial()
	s.uses(conn)
	return conn
}

// uses sends a request that is served, after which the connection is idle.
func (s *cappedServer) uses(conn net.Conn) {
	s.t.Helper()
	if response, _, _ := s.ask(conn, "GET", "/"); response.StatusCode != http.StatusOK {
		s.t.Fatal(response.Status)
	}
	s.await(http.StateIdle)
}

// wantEnd fails the test, which goes on, unless the server ends the connection.
func wantEnd(t *testing.T, conn io.Reader, name string) {
	t.Helper()
	testenv.Is(t, testenv.Error(conn.Read(make([]byte, 1))), io.EOF, "%s is read", name)
}

// wantClosed is wantEnd for connections that may be reset.
func wantClosed(t *testing.T, conn io.Reader, name string) {
	t.Helper()
	if n, err := conn.Read(make([]byte, 1)); n != 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%s reads %d bytes, %v; want it closed", name, n, err)
	}
}

// checkRefusal checks that the next request gets a 503 and that the connection ends.
func (s *cappedServer) checkRefusal(conn net.Conn, method string) {
	s.t.Helper()
	response, body, rest := s.ask(conn, method, "/")
	if response.StatusCode != http.StatusServiceUnavailable || response.Header.Get("Retry-After") != "1" || !response.Close {
		s.t.Errorf("%s beyond the cap: %s, %v", method, response.Status, response.Header)
	}
	wantEnd(s.t, rest, "a refused one")
	want := map[bool]string{true: "", false: "too many"}[method == http.MethodHead]
	testenv.Equal(s.t, string(body), want, "body")
}

// TestConnectionBeyondTheCapIsRefused: if no connection is idle, one above the limit gets a 503,
// and when a connection ends the next one is served.
func TestConnectionBeyondTheCapIsRefused(t *testing.T) {
	s := newCapped(t, cap2(time.Hour), false, nil)
	first := s.rests()
	s.rests()
	s.checkRefusal(s.dial(), http.MethodGet)
	s.checkRefusal(s.dial(), http.MethodHead)
	testenv.Equal(t, s.conns.Counts(), Counts{Open: 2, Refused: 2}, "counts")
	testenv.OK(t, first.Close())
	s.await(http.StateClosed)
	s.rests()
}

// TestLongestIdleConnectionIsEvicted: the connection that has been idle for the longest time is
// evicted, also a new one; one that is being served is not.
// Invariant 45.
func TestLongestIdleConnectionIsEvicted(t *testing.T) {
	s := newCapped(t, cap2(0), false, nil)
	first, second := s.rests(), s.rests()
	// The first has then been idle for less time than the second.
	s.uses(first)
	s.dial() // and never sends anything
	s.await(http.StateNew)
	wantEnd(t, second, "the longest quiet one")
	// Two connections in use have evicted the idle ones.
	for range 2 {
		testenv.Must(io.WriteString(s.dial(), "GET /stall HTTP/1.1\r\nHost: localhost\r\n\r\n"))(t)
		s.await(http.StateActive)
	}
	wantEnd(t, first, "an idle one")
	s.checkRefusal(s.dial(), http.MethodGet)
	testenv.Equal(t, s.conns.Counts(), Counts{Open: 2, Refused: 1, Evicted: 3}, "counts")
	close(s.letGo)
}

// TestCapWithTLS: connections with TLS become idle, too, even with HTTP/2, and are closed when they
// are refused.
func TestCapWithTLS(t *testing.T) {
	s := newCapped(t, cap2(time.Hour), true, nil)
	response := testenv.Must(s.Client().Get(s.URL))(t)
	testenv.OK(t, response.Body.Close())
	if response.ProtoMajor != 2 {
		t.Fatalf("%s, want HTTP/2", response.Proto)
	}
	s.await(http.StateIdle) // before its request
	s.await(http.StateIdle) // after it
	silent := s.dial()
	s.await(http.StateNew)
	refused := s.dial()
	wantClosed(t, refused, "a refused connection")
	s.conns.SetMinIdle(0)
	s.dial()
	s.dial()
	wantClosed(t, silent, "a quiet connection")
	s.await(http.StateClosed)
	s.await(http.StateClosed)
	if got := s.conns.Counts(); got.Refused != 1 || got.Evicted != 2 {
		t.Errorf("counts %+v", got)
	}
}

// TestSilentConnectionsBeyondTheCapAreCut: a refused connection that never sends a request is
// closed at the timeout; while all slots of refusals are taken, further connections wait.
func TestSilentConnectionsBeyondTheCapAreCut(t *testing.T) {
	conns := cap2(time.Hour)
	conns.RefusalTimeout = 10 * time.Millisecond
	s := newCapped(t, conns, false, nil)
	s.rests()
	s.rests()
	var silent []net.Conn
	for range 3 * cap(conns.refusals) {
		silent = append(silent, s.dial())
	}
	for _, conn := range silent {
		wantEnd(t, conn, "a silent one")
	}
	testenv.Equal(t, conns.Counts().Refused, int64(len(silent)), "refused connections")
}

// failingListener fails with these errors first.
type failingListener struct {
	net.Listener
	errs []error
	next atomic.Int64
}

func (l *failingListener) Accept() (net.Conn, error) {
	if i := int(l.next.Add(1)) - 1; i < len(l.errs) {
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", l.errs[i])}
	}
	return l.Listener.Accept()
}

// TestAcceptErrorsAreSurvived: the server survives all errors of Accept.
func TestAcceptErrorsAreSurvived(t *testing.T) {
	failing := &failingListener{errs: []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.EPROTO, syscall.EPERM}}
	s := newCapped(t, cap2(0), false, func(server *httptest.Server) {
		failing.Listener = server.Listener
		server.Listener = failing
	})
	s.rests()
	testenv.Equal(t, s.conns.Counts().Failed, int64(len(failing.errs)), "failures")
}

// TestIdleConnectionIsEvictedForItsFileHandle: if file handles have run out, an idle connection is
// evicted.
func TestIdleConnectionIsEvictedForItsFileHandle(t *testing.T) {
	s := newCapped(t, cap2(0), false, nil)
	quiet := s.rests()
	err := s.conns.acceptFailed(os.NewSyscallError("accept4", syscall.EMFILE))
	var passing interface{ Temporary() bool }
	if !errors.Is(err, syscall.EMFILE) || !errors.As(err, &passing) || !passing.Temporary() {
		t.Errorf("%v is not temporary", err)
	}
	wantEnd(t, quiet, "the quiet one")
	s.await(http.StateClosed)
}

// TestCapKeepsSendfile: files are sent on a limited connection without being copied.
func TestCapKeepsSendfile(t *testing.T) {
	var conn net.Conn = &Conn{}
	if _, ok := conn.(io.ReaderFrom); !ok {
		t.Error("no io.ReaderFrom")
	}
	if _, ok := conn.(interface{ CloseWrite() error }); !ok {
		t.Error("no CloseWrite")
	}
}
