package httpconn

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sluice/test/testenv"

	"go.uber.org/goleak"
)

// TestMain checks that neither a probe nor a test leaves a goroutine behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestAssumptions checks each assumption of net/http.
func TestAssumptions(t *testing.T) {
	for _, a := range assumptions {
		t.Run(a.text, func(t *testing.T) {
			testenv.Check(t, a.hold(&probe{ctx: t.Context(), serve: (*http.Server).Serve}))
		})
	}
}

// changed is a connection through which net/http seems to behave as another release could.
type changed struct {
	Transport
	read     func(c *changed, p []byte) (int, error)
	write    func(c *changed, p []byte) (int, error)
	deadline func(c *changed, t time.Time) error
	kept     []byte // not written yet
}

func (c *changed) NetConn() net.Conn { return c.Transport }

func (c *changed) Read(p []byte) (int, error) {
	if c.read == nil {
		return c.Transport.Read(p)
	}
	return c.read(c, p)
}

func (c *changed) Write(p []byte) (int, error) {
	if c.write == nil {
		return c.Transport.Write(p)
	}
	return c.write(c, p)
}

func (c *changed) ReadFrom(src io.Reader) (int64, error) {
	if c.write == nil {
		return c.Transport.ReadFrom(src)
	}
	return io.Copy(struct{ io.Writer }{c}, src)
}

func (c *changed) SetReadDeadline(t time.Time) error {
	if c.deadline == nil {
		return c.Transport.SetReadDeadline(t)
	}
	return c.deadline(c, t)
}

// changedListener accepts connections that are changed alike.
type changedListener struct {
	net.Listener
	as changed
}

func (l changedListener) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := l.as
	c.Transport = accepted.(Transport)
	return &c, nil
}

// serve returns a Serve of net/http with the change.
func (c changed) serve(s *http.Server, l net.Listener) error {
	return s.Serve(changedListener{l, c})
}

// writeAll writes pieces in place of p.
func writeAll(c *changed, p []byte, pieces ...[]byte) (int, error) {
	for _, piece := range pieces {
		if _, err := c.Transport.Write(piece); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// releases are changes of net/http, by the assumption that each breaks.
var releases = []struct {
	name   string
	broken func(*probe) error
	change changed
	hangs  bool // a request has no answer
}{
	{"the status line is divided", statusLineIsWhole, changed{write: func(c *changed, p []byte) (int, error) {
		at := min(5, len(p))
		return writeAll(c, p, p[:at], p[at:])
	}}, false},
	{"an empty line precedes the status line", statusLineIsWhole, changed{write: func(c *changed, p []byte) (int, error) {
		if bytes.HasPrefix(p, []byte("HTTP/")) {
			return writeAll(c, p, []byte("\r\n"), p)
		}
		return c.Transport.Write(p)
	}}, false},
	{"100 Continue is joined with the response", continueIsApart, changed{write: func(c *changed, p []byte) (int, error) {
		if bytes.HasPrefix(p, []byte("HTTP/1.1 100")) {
			c.kept = bytes.Clone(p)
			return len(p), nil
		}
		all := append(c.kept, p...)
		c.kept = nil
		return writeAll(c, p, all)
	}}, false},
	{"a field is added", fieldsAreKnown, changed{write: func(c *changed, p []byte) (int, error) {
		if head, rest, ok := bytes.Cut(p, []byte(" 200 OK\r\n")); ok {
			return writeAll(c, p, bytes.Join([][]byte{head, []byte(" 200 OK\r\nReferrer-Policy: origin\r\n"), rest}, nil))
		}
		return c.Transport.Write(p)
	}}, false},
	{"the end of a body is written late", flushIsComplete, changed{
		write: func(c *changed, p []byte) (int, error) {
			all := append(c.kept, p...)
			c.kept = all[len(all)-1:]
			return writeAll(c, p, bytes.Clone(all[:len(all)-1]))
		},
		// net/http calls it when the handler has returned.
		deadline: func(c *changed, t time.Time) error {
			if len(c.kept) > 0 {
				if _, err := c.Transport.Write(c.kept); err != nil {
					return err
				}
				c.kept = nil
			}
			return c.Transport.SetReadDeadline(t)
		},
	}, false},
	{"all reads ask for one byte", oneByteIsBackground, changed{read: func(c *changed, p []byte) (int, error) {
		return c.Transport.Read(p[:min(1, len(p))])
	}}, true},
	{"the background read is ended by a deadline of now", backgroundReadIsEnded, changed{deadline: func(c *changed, t time.Time) error {
		if !t.IsZero() && t.Before(epoch) {
			t = time.Now()
		}
		return c.Transport.SetReadDeadline(t)
	}}, false},
	{"the background read is not ended by a timeout", backgroundReadIsEnded, changed{read: func(c *changed, p []byte) (int, error) {
		n, err := c.Transport.Read(p)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = io.ErrUnexpectedEOF // as if it did not know this error
		}
		return n, err
	}}, false},
	{"the background read is larger", backgroundReadIsEnded, changed{read: func(c *changed, p []byte) (int, error) {
		if len(p) == 1 {
			var two [2]byte
			n, err := c.Transport.Read(two[:])
			return min(n, 1), err
		}
		return c.Transport.Read(p)
	}}, true},
}

// TestChangesOfNetHTTPAreFound checks that each assumption is found broken by a release that breaks
// it.
func TestChangesOfNetHTTPAreFound(t *testing.T) {
	for _, release := range releases {
		isFound := func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if release.broken(&probe{ctx: ctx, serve: release.change.serve}) == nil {
				t.Error("the assumption holds")
			}
			if check(release.change.serve) == nil {
				t.Error("all assumptions hold")
			}
		}
		t.Run(release.name, func(t *testing.T) {
			if release.hangs {
				synctest.Test(t, isFound)
			} else {
				isFound(t)
			}
		})
	}
}

// TestProbesThatHang checks that a release that answers nothing delays the start by at most the
// probe's timeout.
func TestProbesThatHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := changed{write: func(_ *changed, p []byte) (int, error) { return len(p), nil }}
		began := time.Now()
		if err := check(silent.serve); err == nil || time.Since(began) > probeTimeout {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}

// TestAdopt checks that connections are Conns, without a line in the log, if and only if the
// assumptions hold, and that a warning names the one that does not.
func TestAdopt(t *testing.T) {
	adopt := func(serve Serve) (conn *Conn, log string) {
		t.Helper()
		inner := testenv.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
		server := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { conn = FromContext(r.Context()) })}
		var text bytes.Buffer
		listeners := Adopt(server, []net.Listener{inner}, serve, slog.New(slog.NewTextHandler(&text, nil)))
		served := make(chan error)
		go func() { served <- server.Serve(listeners[0]) }()
		client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		res := testenv.Must(client.Get("http://" + inner.Addr().String()))(t)
		testenv.Check(t, errors.Join(res.Body.Close(), server.Shutdown(t.Context())))
		testenv.Is(t, <-served, http.ErrServerClosed, "Serve")
		return conn, text.String()
	}
	if conn, log := adopt((*http.Server).Serve); conn == nil || log != "" {
		t.Errorf("with net/http: connection %v, log %q", conn, log)
	}
	for _, release := range releases[:5] { // the rest would wait for the probe's timeout
		conn, log := adopt(release.change.serve)
		if conn != nil || strings.Count(log, "\n") != 1 || !strings.Contains(log, "level=WARN") {
			t.Errorf("%s: connection %v, log %q", release.name, conn, log)
		}
	}
}

// BenchmarkCheck shows the time that the check adds to the server's start.
func BenchmarkCheck(b *testing.B) {
	for b.Loop() {
		testenv.OK(b, check((*http.Server).Serve))
	}
}
