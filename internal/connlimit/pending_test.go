package connlimit

import (
	"context"
	"errors"
	"net"
	"testing"

	"sluice/internal/testenv"
)

// TestWaitForRequests checks that WaitForRequests waits for the first request of each connection,
// or for its end, and not for those that have had one.
func TestWaitForRequests(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	testenv.OK(t, err)
	l := New(10, testRefusal)
	listener := l.Listener(inner, false)
	var clients []net.Conn
	accepted := func() *Conn {
		t.Helper()
		client, err := net.Dial("tcp", inner.Addr().String())
		testenv.OK(t, err)
		clients = append(clients, client)
		server, err := listener.Accept()
		testenv.OK(t, err)
		return server.(*Conn)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	waits := func() bool {
		l.WaitForRequests(ended)
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.unused.none != nil
	}
	if waits() {
		t.Error("it waits without a connection")
	}
	first, second := accepted(), accepted()
	if !waits() {
		t.Error("it does not wait for two connections")
	}
	done := make(chan struct{})
	go func() { l.WaitForRequests(t.Context()); close(done) }()
	first.Begin()
	first.End(Served)
	first.Begin() // a second request
	first.End(Served)
	select {
	case <-done:
		t.Error("it does not wait for the second connection")
	default:
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
	<-done
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	for _, c := range clients {
		err = errors.Join(err, c.Close())
	}
	if err := errors.Join(err, listener.Close()); err != nil {
		t.Error(err)
	}
	if l.unused.count != 0 {
		t.Errorf("%d connections are unused after the end", l.unused.count)
	}
}
