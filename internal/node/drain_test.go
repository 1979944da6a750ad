package node

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"sluice/httpapi"
	"sluice/metastore"
	"sluice/session"
)

// pipes is a listener in memory: its connections live in a synctest bubble.
type pipes struct {
	dialed chan net.Conn
	closed chan struct{}
}

// Accept gives the next connection that was dialed.
func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.dialed:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close refuses further connections.
func (p *pipes) Close() error {
	close(p.closed)
	return nil
}

// Addr is that of a pipe.
func (*pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

// drained is a server in a bubble that is told to drain.
type drained struct {
	t       *testing.T
	pipes   *pipes
	signals chan os.Signal
	began   time.Time
	ended   chan error
}

const (
	testWait     = 5 * time.Second
	testDeadline = 30 * time.Second
)

// hangingSessions find no session until the request is cut.
type hangingSessions struct{ session.Store }

// Session waits for the end of ctx.
func (hangingSessions) Session(ctx context.Context, _ string) (metastore.Session, error) {
	<-ctx.Done()
	return metastore.Session{}, ctx.Err()
}

// inDrain begins to drain a server, at which one request is at work if busy: it
// ends only when it is cut.
func inDrain(t *testing.T, busy bool, fn func(d *drained)) {
	synctest.Test(t, func(t *testing.T) {
		api, err := httpapi.New(httpapi.Config{
			Ready:    func(context.Context) error { return nil },
			Sessions: session.New(hangingSessions{}, session.Options{}),
			Log:      slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		d := &drained{
			t:       t,
			pipes:   &pipes{dialed: make(chan net.Conn), closed: make(chan struct{})},
			signals: make(chan os.Signal, 2),
			ended:   make(chan error, 1),
		}
		server := &drainingServer{api: api, http: httpapi.NewHTTPServer(api, slog.New(slog.DiscardHandler))}
		server.start([]net.Listener{d.pipes})
		if busy {
			d.send(d.dial(), "/v1/sessions/x")
			synctest.Wait()
		}
		d.began = time.Now()
		go func() { d.ended <- server.drain(testWait, testDeadline, d.signals) }()
		synctest.Wait()
		fn(d)
	})
}

// dial opens a connection; nil when none is taken.
func (d *drained) dial() net.Conn {
	client, server := net.Pipe()
	select {
	case d.pipes.dialed <- server:
		return client
	case <-d.pipes.closed:
		return nil
	}
}

func (d *drained) send(c net.Conn, path string) {
	if _, err := io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		d.t.Fatal(err)
	}
}

// get asks over a connection of its own, which must be closed by the server.
func (d *drained) get(path string, status int) {
	d.t.Helper()
	c := d.dial()
	if c == nil {
		d.t.Fatal("no connection is taken")
	}
	d.send(c, path)
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		d.t.Fatal(err)
	}
	if r.StatusCode != status || !r.Close {
		d.t.Errorf("GET %s: %d, Connection: close %v, want %d and true", path, r.StatusCode, r.Close, status)
	}
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		d.t.Error(err)
	}
	if n, err := c.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		d.t.Errorf("the connection stays open: %d bytes, %v", n, err)
	}
}

// wantEnd wants the drain to have ended with this error after this time.
func (d *drained) wantEnd(want error, after time.Duration) {
	d.t.Helper()
	if err := <-d.ended; !errors.Is(err, want) {
		d.t.Errorf("the drain ended with %v, want %v", err, want)
	}
	if took := time.Since(d.began); took != after {
		d.t.Errorf("the drain took %v, want %v", took, after)
	}
	if d.dial() != nil {
		d.t.Error("a connection is taken after the drain")
	}
}

// TestDrainWait: for the time of the wait everything goes on, so that whoever
// sends requests here sees /readyz and goes elsewhere.
func TestDrainWait(t *testing.T) {
	inDrain(t, false, func(d *drained) {
		d.get("/readyz", http.StatusServiceUnavailable)
		time.Sleep(testWait - time.Second)
		d.get("/livez", http.StatusOK)
		d.wantEnd(nil, testWait)
	})
}

func TestSignalCutsTheDrainWait(t *testing.T) {
	inDrain(t, false, func(d *drained) {
		time.Sleep(time.Second)
		d.signals <- syscall.SIGTERM
		d.wantEnd(nil, time.Second)
	})
}

// TestFurtherSignalCutsRequests: what a signal does during the wait is not what
// it does after.
func TestFurtherSignalCutsRequests(t *testing.T) {
	inDrain(t, true, func(d *drained) {
		d.signals <- syscall.SIGTERM
		synctest.Wait()
		select {
		case err := <-d.ended:
			t.Fatalf("the first signal ended the drain: %v", err)
		default:
		}
		d.signals <- syscall.SIGTERM
		d.wantEnd(errStopped, 0)
	})
}

func TestDrainDeadlineBeginsAfterTheWait(t *testing.T) {
	inDrain(t, true, func(d *drained) {
		err := <-d.ended
		if took := time.Since(d.began); err == nil || took != testWait+testDeadline {
			t.Errorf("the drain ended with %v after %v, want an error after %v", err, took, testWait+testDeadline)
		}
	})
}

// orderlySessions find no session until the request is cut. Then they do as a paid
// read does, which gives back what it did not serve.
type orderlySessions struct {
	session.Store
	asked   chan struct{}
	drained <-chan struct{}
	ordered bool
}

// Session waits for the end of ctx, and then a moment for the end of the drain,
// which must not come.
func (s *orderlySessions) Session(ctx context.Context, _ string) (metastore.Session, error) {
	close(s.asked)
	<-ctx.Done()
	moment := time.NewTimer(200 * time.Millisecond)
	defer moment.Stop()
	select {
	case <-s.drained:
	case <-moment.C:
		s.ordered = true
	}
	return metastore.Session{}, ctx.Err()
}

// TestDrainWaitsForWhatWasCut: a request that was cut puts things in order before
// the drain returns, since the stores are closed then.
func TestDrainWaitsForWhatWasCut(t *testing.T) {
	drained := make(chan struct{})
	sessions := &orderlySessions{asked: make(chan struct{}), drained: drained}
	api, err := httpapi.New(httpapi.Config{
		Ready:    func(context.Context) error { return nil },
		Sessions: session.New(sessions, session.Options{}),
		Log:      slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	listener := &pipes{dialed: make(chan net.Conn), closed: make(chan struct{})}
	server := &drainingServer{api: api, http: httpapi.NewHTTPServer(api, slog.New(slog.DiscardHandler))}
	server.start([]net.Listener{listener})
	client, conn := net.Pipe()
	listener.dialed <- conn
	if _, err := io.WriteString(client, "GET /v1/sessions/x HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	<-sessions.asked
	signals := make(chan os.Signal, 1)
	signals <- syscall.SIGTERM
	if err := server.drain(0, time.Hour, signals); !errors.Is(err, errStopped) {
		t.Errorf("the drain ended with %v, want %v", err, errStopped)
	}
	close(drained)
	if !sessions.ordered {
		t.Error("the drain returned before the request that it cut")
	}
}
