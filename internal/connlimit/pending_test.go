package connlimit

import (
	"context"
	"errors"
	"net"
	"testing"

	"sluice/test/testenv"
)

// TestWaitForRequests checks that WaitForRequests waits for the first request of each connection,
// or for its end, and not for those that have had one.
// Invariant 57.
func TestWaitForRequests(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	testenv.OK(t, err)
	l := New(10, testRefusal)
	listener := l.Listener(inner, false)
	var clients []net.Conn
	accepted := func() *Conn {
		t.Helper()
		client := testenv.Must(net.Dial("tcp", inner.Addr().String()))(t)
		clients = append(clients, client)
		server := testenv.Must(listener.Accept())(t)
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
	testenv.Check(t, second.Close())
	<-done
	testenv.Check(t, first.Close())
	for _, c := range clients {
		err = errors.Join(err, c.Close())
	}
	testenv.Check(t, errors.Join(err, listener.Close()))
	if l.unused.count != 0 {
		t.Errorf("%d connections are unused after the end", l.unused.count)
	}
}
