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
	"testing"
	"testing/synctest"
	"time"

	"sluice/exchange"
	"sluice/httpapi"
	"sluice/ledger"
	"sluice/session"
	"sluice/test/testenv"
)

// pipes is a listener of in-memory connections, which can be used in a synctest bubble.
type pipes struct {
	dialed chan net.Conn
	closed chan struct{}
}

// Accept returns the next connection that was dialed.
func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.dialed:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close closes the listener.
func (p *pipes) Close() error {
	close(p.closed)
	return nil
}

// Addr returns a placeholder.
func (*pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

// drained is a server in a synctest bubble that is being drained.
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

// hangingSessions blocks each lookup until its request is aborted.
type hangingSessions struct{ session.Store }

// Session waits for the end of ctx.
func (hangingSessions) Session(ctx context.Context, _ string) (ledger.Session, error) {
	<-ctx.Done()
	return ledger.Session{}, ctx.Err()
}

// startDraining starts a server that looks up sessions in a store and can be drained.
func startDraining(t *testing.T, sessions session.Store) (*drainingServer, *pipes) {
	t.Helper()
	api := testenv.Must(httpapi.New(httpapi.Config{
		Sessions: session.New(sessions, session.Options{}),
		Config:   exchange.Config{Ready: func(context.Context) error { return nil }, Log: slog.New(slog.DiscardHandler)},
	}))(t)
	listener := &pipes{dialed: make(chan net.Conn), closed: make(chan struct{})}
	server := &drainingServer{api: api, http: api.ServerOf(api)}
	server.start([]net.Listener{listener})
	return server, listener
}

// inDrain starts to drain a server and calls fn. If busy is set, a request is running
// that ends only when it is aborted.
func inDrain(t *testing.T, busy bool, fn func(d *drained)) {
	synctest.Test(t, func(t *testing.T) {
		server, listener := startDraining(t, hangingSessions{})
		d := &drained{t: t, pipes: listener, signals: make(chan os.Signal, 2), ended: make(chan error, 1)}
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

// dial opens a connection. It returns nil if the server accepts none.
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

// get sends a request over a new connection, which the server must close.
func (d *drained) get(path string, status int) {
	d.t.Helper()
	c := d.dial()
	if c == nil {
		d.t.Fatal("the server accepts no connection")
	}
	d.send(c, path)
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	testenv.OK(d.t, err)
	if r.StatusCode != status || !r.Close {
		d.t.Errorf("GET %s: %d, Connection: close %v, want %d and true", path, r.StatusCode, r.Close, status)
	}
	testenv.Check(d.t, testenv.Error(io.Copy(io.Discard, r.Body)))
	if n, err := c.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		d.t.Errorf("the connection stays open: %d bytes, %v", n, err)
	}
}

// wantEnd checks that the drain ended with the error want, after the given time.
func (d *drained) wantEnd(want error, after time.Duration) {
	d.t.Helper()
	if err := <-d.ended; !errors.Is(err, want) {
		d.t.Errorf("the drain ended with %v, want %v", err, want)
	}
	if took := time.Since(d.began); took != after {
		d.t.Errorf("the drain took %v, want %v", took, after)
	}
	if d.dial() != nil {
		d.t.Error("the server accepts a connection after the drain")
	}
}

// orderlySessions blocks each lookup until its request is aborted, and then takes a
// moment, as a paid read does for its refund.
type orderlySessions struct {
	session.Store
	called  chan struct{}
	drained <-chan struct{}
	ordered bool
}

// Session waits for the end of ctx, and then a moment. It records whether the drain
// has returned by then, which it must not.
func (s *orderlySessions) Session(ctx context.Context, _ string) (ledger.Session, error) {
	close(s.called)
	<-ctx.Done()
	moment := time.NewTimer(200 * time.Millisecond)
	defer moment.Stop()
	select {
	case <-s.drained:
	case <-moment.C:
		s.ordered = true
	}
	return ledger.Session{}, ctx.Err()
}
