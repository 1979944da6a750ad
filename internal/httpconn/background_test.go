package httpconn

import (
	"bufio"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime"
	"testing"
	"time"

	"sluice/test/testenv"
)

// TestBackgroundReadIsEnded ends reads of one byte while they wait: they fail as net/http expects,
// have read nothing, and have not changed the runtime's timer.
// Invariant 69.
func TestBackgroundReadIsEnded(t *testing.T) {
	conn, client := pair(t)
	mustWrite(t, client, []byte("ab"))
	for range 20 {
		result := make(chan error)
		go func() {
			n, err := conn.Read(make([]byte, 1))
			if n != 0 {
				err = errors.New("it has read a byte")
			}
			result <- err
		}()
		for waits := false; !waits; runtime.Gosched() {
			conn.background.mu.Lock()
			waits = conn.background.waits
			conn.background.mu.Unlock()
		}
		testenv.OK(t, conn.SetReadDeadline(passed))
		var timeout net.Error
		if err := <-result; !errors.Is(err, os.ErrDeadlineExceeded) || !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Fatalf("a read that was ended: %v", err)
		}
		testenv.OK(t, conn.SetReadDeadline(time.Time{}))
	}
	if conn.reading.timer != never {
		t.Error("the runtime has got a deadline")
	}
	var got [2]byte
	if _, err := io.ReadFull(conn, got[:]); err != nil || string(got[:]) != "ab" {
		t.Errorf("%q, %v", got, err)
	}
}

// TestBackgroundReadBegins checks that a read of one byte returns a byte that arrives, and the
// connection's end.
func TestBackgroundReadBegins(t *testing.T) {
	conn, client := pair(t)
	mustWrite(t, client, []byte("a"))
	var got [1]byte
	if n, err := conn.Read(got[:]); n != 1 || got[0] != 'a' || err != nil {
		t.Errorf("%d bytes %q, %v", n, got, err)
	}
	testenv.OK(t, client.Close())
	testenv.Is(t, testenv.Error(conn.Read(got[:])), io.EOF, "after the client has closed the connection")
}

// TestBackgroundReadsOfAServer sends several requests together to a server. Handlers return before
// and after their background read begins. The client goes away during the last one.
// Invariant 69.
func TestBackgroundReadsOfAServer(t *testing.T) {
	inner := testenv.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	gone := make(chan struct{})
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/slow":
			for range 2 {
				<-backgroundTicks.after()
			}
		case "/last":
			<-r.Context().Done()
			close(gone)
		}
		_, _ = io.WriteString(w, r.URL.Path)
	})}
	adopted := Adopt(server, []net.Listener{inner}, runtime.Version(), slog.New(slog.DiscardHandler))
	served := make(chan error)
	go func() { served <- server.Serve(adopted[0]) }()
	client := testenv.Must(net.Dial("tcp", inner.Addr().String()))(t)
	paths := []string{"/slow", "/quick", "/quick", "/slow", "/quick"}
	for _, path := range append(paths, "/last") {
		mustWrite(t, client.(*net.TCPConn), []byte("GET "+path+" HTTP/1.1\r\nHost: localhost\r\n\r\n"))
	}
	r := bufio.NewReader(client)
	for _, path := range paths {
		res := testenv.Must(http.ReadResponse(r, nil))(t)
		if body, err := io.ReadAll(res.Body); err != nil || string(body) != path {
			t.Errorf("%q, %v, want %q", body, err, path)
		}
	}
	testenv.Check(t, client.Close())
	<-gone
	testenv.Check(t, server.Close())
	testenv.Is(t, <-served, http.ErrServerClosed, "Serve")
}
