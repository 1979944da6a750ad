package s3

import (
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/test/testenv"
)

// refusing is a listener that closes connections in the middle of their handshake until it answers.
type refusing struct {
	net.Listener
	answers    atomic.Bool
	open, most atomic.Int64 // connections that are not closed yet, and the largest number of them
}

func (l *refusing) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil || l.answers.Load() {
			return c, err
		}
		l.most.Store(max(l.most.Load(), l.open.Add(1)))
		go func() {
			_, _ = c.Read(make([]byte, 1)) // the client waits for a response
			l.open.Add(-1)
			_ = c.Close()
		}()
	}
}

// TestConnectionsAfterALoss: requests that arrive at once, while the server completes no handshake,
// connect one after another. When it answers, all of them are served.
// Invariant 93.
func TestConnectionsAfterALoss(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	l := &refusing{Listener: server.Listener}
	server.Listener = l
	server.StartTLS()
	defer server.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	testenv.OK(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600))
	transport := testenv.Must(newTransport(ca, time.Minute))(t)
	defer transport.CloseIdleConnections()
	get := func() error {
		response, err := (&http.Client{Transport: transport}).Get(server.URL)
		if err != nil {
			return err
		}
		return response.Body.Close()
	}
	const requests = 8
	atOnce := func(check func(error)) {
		var running sync.WaitGroup
		for range requests {
			running.Go(func() { check(get()) })
		}
		running.Wait()
	}
	if get() == nil {
		t.Fatal("a request without a handshake succeeded")
	}
	l.most.Store(0)
	atOnce(func(err error) {
		if err == nil {
			t.Error("a request without a handshake succeeded")
		}
	})
	testenv.Equal(t, l.most.Load(), 1, "connections at once to a server that does not answer")
	l.answers.Store(true)
	atOnce(func(err error) { testenv.Check(t, err) })
}
