package faults

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"sluice/e2e"
)

// TestDrainWait checks that after SIGTERM a server continues to serve for --drain-wait, also on new
// connections, while /readyz reports 503.
// Invariants 57, 89.
func TestDrainWait(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Flags: []string{"--drain-wait", e2e.LongWait}})
	s.Must(204, "PUT", e2e.BlobTarget("0x1", "before"), []byte("kept"))
	// A connection is idle when the drain begins, as load balancers keep them.
	idle := s.Dial()
	reader := bufio.NewReader(idle)
	ask := func() *http.Response {
		s.Write(idle, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
		r, err := http.ReadResponse(reader, nil)
		if err == nil {
			_, err = io.Copy(io.Discard, r.Body)
		}
		if err != nil {
			t.Fatalf("a request on a connection that was idle: %v", err)
		}
		return r
	}
	if r := ask(); r.StatusCode != 200 || r.Close {
		t.Errorf("before the drain: %s, Connection: close is %t", r.Status, r.Close)
	}
	// A request is in progress when the drain begins, and ends before the drain does.
	busy := s.Dial()
	s.Write(busy, "PUT "+e2e.BlobTarget("0x1", "busy")+" HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n")
	responses := bufio.NewReader(busy)
	if r, err := http.ReadResponse(responses, nil); err != nil || r.StatusCode != http.StatusContinue {
		t.Fatalf("the server does not wait for the body: %v, %v", r, err)
	}
	s.Signal(syscall.SIGTERM)
	s.AwaitDrain()
	s.Write(busy, "ok")
	if r, err := http.ReadResponse(responses, nil); err != nil || r.StatusCode != 204 || !r.Close {
		t.Errorf("a request that began before the drain: %v, %v, want 204 and Connection: close", r, err)
	}
	if r := ask(); r.StatusCode != 200 || !r.Close {
		t.Errorf("on a connection that was idle: %s, Connection: close is %t, want 200 and true", r.Status, r.Close)
	}
	for range 3 {
		e2e.CheckProblem(t, s.Must(503, "GET", "/readyz", nil, "Connection", "close"), 503, "draining")
	}
	s.Must(200, "GET", "/livez", nil)
	s.Must(204, "PUT", e2e.BlobTarget("0x1", "during"), []byte("kept, too"))
	s.Holds(e2e.BlobTarget("0x1", "before"), []byte("kept"))
	connection := s.Dial()
	s.Write(connection, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
	if text, err := io.ReadAll(connection); err != nil || !strings.Contains(string(text), "200 OK\r\n") || !strings.Contains(string(text), "Connection: close\r\n") {
		t.Errorf("during the wait: %q, %v, want 200, Connection: close, and a closed connection", text, err)
	}
	s.Signal(syscall.SIGTERM)
	s.Exits(0)
	s.Options.Flags = nil
	s.Restart()
	s.Holds(e2e.BlobTarget("0x1", "during"), []byte("kept, too"))
}

// TestDrainOverHTTP2 checks that during the wait the server sends GOAWAY on connections, and serves
// requests in progress and requests that still arrive. After the wait, it finishes responses that
// have begun.
// Invariant 57.
func TestDrainOverHTTP2(t *testing.T) {
	t.Parallel()
	flags := append(e2e.HostedChoices("public"), "--admin-addr", "off", "--drain-wait", e2e.LongWait)
	s := e2e.Start(t, e2e.Options{Certs: e2e.NewCertificates(t), Flags: flags})
	data := e2e.Content(1, 300_000)
	target := e2e.BlobTarget("0x1", "name")
	s.AsAdmin().Must(204, "PUT", target, data)
	const window = 1000
	old := s.DialFrames(window)
	old.Request(1, e2e.FlagEndStream, "GET", target)
	old.Await(e2e.FrameHeaders, 1)

	s.Signal(syscall.SIGTERM)
	s.AwaitDrain()
	s.Must(200, "GET", "/livez", nil)
	s.Holds(target, data)
	old.Request(3, e2e.FlagEndStream, "HEAD", "/livez")
	late := s.DialFrames(window)
	late.Request(1, e2e.FlagEndStream, "HEAD", target)
	for _, on := range []struct {
		*e2e.Frames
		stream uint32
	}{{old, 3}, {late, 1}} {
		if head := on.Await(e2e.FrameHeaders, on.stream); head.Flags&e2e.FlagEndStream == 0 || head.Payload[0] != e2e.StatusOK {
			t.Errorf("during the wait the response begins with %v, want 200", head)
		}
		// GOAWAY has only a last stream and no error, so no request is lost.
		away := on.Await(e2e.FrameGoAway, 0).Payload
		if last, code := binary.BigEndian.Uint32(away), binary.BigEndian.Uint32(away[4:]); last < on.stream || code != 0 {
			t.Errorf("go away after stream %d with error %d, want no error after stream %d or later", last, code, on.stream)
		}
	}
	if got, err := late.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("a connection without requests got %v, %v, want EOF", got, err)
	}

	s.Signal(syscall.SIGTERM)
	awaitClosed(s)
	old.Allow(1, uint32(len(data)))
	if got := old.Body(1); e2e.Digest(got) != e2e.Digest(data) {
		t.Errorf("the response that had begun has %d bytes, or other bytes than stored", len(got))
	}
	s.Exits(0)
}

// TestDrainWaitOfProfiles checks that a hosted service waits by default and then ends, and that a
// local one does not wait.
// Invariant 89.
func TestDrainWaitOfProfiles(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		flags []string
		wait  string
	}{
		{append(e2e.HostedChoices("key"), "--admin-addr", "off"), "wait_seconds=5 "},
		{append(e2e.HostedChoices("key"), "--admin-addr", "off", "--drain-wait", "200ms"), "wait_seconds=0.2 "},
		{nil, "wait_seconds=0 "},
	} {
		s := e2e.Start(t, e2e.Options{Flags: test.flags})
		s.Signal(syscall.SIGTERM)
		s.Exits(0)
		if !strings.Contains(s.Log.String(), test.wait) {
			t.Errorf("%q: the log does not contain %s:\n%s", test.flags, test.wait, s.Log)
		}
	}
}

// awaitClosed waits until the server accepts no connections.
func awaitClosed(s *e2e.Server) {
	s.T.Helper()
	s.Await("the listener is still open", func() bool {
		connection, err := net.Dial("tcp", s.Host)
		if err != nil {
			return true
		}
		if err := connection.Close(); err != nil {
			s.T.Error(err)
		}
		return false
	})
}
