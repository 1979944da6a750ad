package httpconn

import (
	"bytes"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"sluice/test/testenv"

	"go.uber.org/goleak"
)

// TestMain checks that no test leaves a goroutine behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestAdopt checks that connections are Conns, without a line in the log, if and only if this
// package is tested with the release of Go, and that a warning names another one.
func TestAdopt(t *testing.T) {
	adopt := func(release string) (conn *Conn, log string) {
		t.Helper()
		inner := testenv.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
		server := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { conn = FromContext(r.Context()) })}
		var text bytes.Buffer
		listeners := Adopt(server, []net.Listener{inner}, release, slog.New(slog.NewTextHandler(&text, nil)))
		served := make(chan error)
		go func() { served <- server.Serve(listeners[0]) }()
		client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		res := testenv.Must(client.Get("http://" + inner.Addr().String()))(t)
		testenv.Check(t, errors.Join(res.Body.Close(), server.Shutdown(t.Context())))
		testenv.Is(t, <-served, http.ErrServerClosed, "Serve")
		return conn, text.String()
	}
	for _, release := range []string{runtime.Version(), tested, tested + ".99 X:nodwarf5"} {
		if conn, log := adopt(release); conn == nil || log != "" {
			t.Errorf("with %s: connection %v, log %q", release, conn, log)
		}
	}
	for _, release := range []string{tested + "7", "go1.2", "devel " + tested + "-f00d"} {
		conn, log := adopt(release)
		if conn != nil || strings.Count(log, "\n") != 1 || !strings.Contains(log, "level=WARN") || !strings.Contains(log, release) {
			t.Errorf("with %s: connection %v, log %q", release, conn, log)
		}
	}
}
