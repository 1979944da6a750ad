package e2e

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
	"time"
)

// longWait is longer than any test. A drain that waits for it ends only after a signal.
const longWait = "1h"

// TestDrainWait checks that after SIGTERM a server continues to serve for --drain-wait, also on new
// connections, while /readyz reports 503.
func TestDrainWait(t *testing.T) {
	t.Parallel()
	s := start(t, options{flags: []string{"--drain-wait", longWait}})
	s.must(204, "PUT", blobTarget("0x1", "before"), []byte("kept"))
	// A connection is idle when the drain begins, as load balancers keep them.
	idle := s.dial()
	reader := bufio.NewReader(idle)
	ask := func() *http.Response {
		s.write(idle, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
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
	busy := s.dial()
	s.write(busy, "PUT "+blobTarget("0x1", "busy")+" HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n")
	responses := bufio.NewReader(busy)
	if r, err := http.ReadResponse(responses, nil); err != nil || r.StatusCode != http.StatusContinue {
		t.Fatalf("the server does not wait for the body: %v, %v", r, err)
	}
	s.signal(syscall.SIGTERM)
	s.awaitDrain()
	s.write(busy, "ok")
	if r, err := http.ReadResponse(responses, nil); err != nil || r.StatusCode != 204 || !r.Close {
		t.Errorf("a request that began before the drain: %v, %v, want 204 and Connection: close", r, err)
	}
	if r := ask(); r.StatusCode != 200 || !r.Close {
		t.Errorf("on a connection that was idle: %s, Connection: close is %t, want 200 and true", r.Status, r.Close)
	}
	for range 3 {
		checkProblem(t, s.must(503, "GET", "/readyz", nil, "Connection", "close"), 503, "draining")
	}
	s.must(200, "GET", "/livez", nil)
	s.must(204, "PUT", blobTarget("0x1", "during"), []byte("kept, too"))
	if r := s.must(200, "GET", blobTarget("0x1", "before"), nil); string(r.body) != "kept" {
		t.Errorf("during the wait the blob is %v", r)
	}
	connection := s.dial()
	s.write(connection, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
	if text, err := io.ReadAll(connection); err != nil || !strings.Contains(string(text), "200 OK\r\n") || !strings.Contains(string(text), "Connection: close\r\n") {
		t.Errorf("during the wait: %q, %v, want 200, Connection: close, and a closed connection", text, err)
	}
	s.signal(syscall.SIGTERM)
	if code := s.wait(); code != 0 {
		t.Errorf("exit code %d after the signal that ended the wait, want 0", code)
	}
	s.options.flags = nil
	s.restart()
	if r := s.must(200, "GET", blobTarget("0x1", "during"), nil); string(r.body) != "kept, too" {
		t.Errorf("after the restart the blob is %v", r)
	}
}

// TestDrainWaitThenDrain checks that the signal which ends the wait lets running requests finish,
// and that the next signal cuts them.
func TestDrainWaitThenDrain(t *testing.T) {
	t.Parallel()
	flags := []string{"--drain-wait", longWait}
	s := start(t, options{flags: flags})
	l := beginSlow(s)
	s.signal(syscall.SIGTERM)
	s.awaitDrain()
	s.signal(syscall.SIGINT)
	l.finish()
	if code := s.wait(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}

	s = start(t, options{flags: flags, dirty: true})
	beginSlow(s)
	s.signal(syscall.SIGTERM)
	s.awaitDrain()
	s.signal(syscall.SIGTERM)
	s.awaitClosed()
	s.signal(syscall.SIGTERM)
	if code := s.wait(); code != 1 {
		t.Errorf("exit code %d after the third signal, want 1", code)
	}
}

// TestDrainOverHTTP2 checks that during the wait the server sends GOAWAY on connections, and serves
// requests in progress and requests that still arrive. After the wait, it finishes responses that
// have begun.
func TestDrainOverHTTP2(t *testing.T) {
	t.Parallel()
	flags := append(hostedChoices("public"), "--admin-addr", "off", "--drain-wait", longWait)
	s := start(t, options{certs: newCertificates(t), flags: flags})
	data := content(1, 300_000)
	target := blobTarget("0x1", "name")
	s.asAdmin().must(204, "PUT", target, data)
	const window = 1000
	old := s.dialFrames(window)
	old.request(1, flagEndStream, "GET", target)
	old.await(frameHeaders, 1)

	s.signal(syscall.SIGTERM)
	s.awaitDrain()
	s.must(200, "GET", "/livez", nil)
	if r := s.must(200, "GET", target, nil); digest(r.body) != digest(data) {
		t.Error("during the wait the blob is not what was sent")
	}
	old.request(3, flagEndStream, "HEAD", "/livez")
	late := s.dialFrames(window)
	late.request(1, flagEndStream, "HEAD", target)
	for _, on := range []struct {
		*frames
		stream uint32
	}{{old, 3}, {late, 1}} {
		if head := on.await(frameHeaders, on.stream); head.flags&flagEndStream == 0 || head.payload[0] != statusOK {
			t.Errorf("during the wait the response begins with %v, want 200", head)
		}
		// GOAWAY has only a last stream and no error, so no request is lost.
		away := on.await(frameGoAway, 0).payload
		if last, code := binary.BigEndian.Uint32(away), binary.BigEndian.Uint32(away[4:]); last < on.stream || code != 0 {
			t.Errorf("go away after stream %d with error %d, want no error after stream %d or later", last, code, on.stream)
		}
	}
	if got, err := late.next(); !errors.Is(err, io.EOF) {
		t.Errorf("a connection without requests got %v, %v, want EOF", got, err)
	}

	s.signal(syscall.SIGTERM)
	s.awaitClosed()
	old.allow(1, uint32(len(data)))
	if got := old.body(1); digest(got) != digest(data) {
		t.Errorf("the response that had begun has %d bytes, or other bytes than stored", len(got))
	}
	if code := s.wait(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
}

// TestDrainWaitOfProfiles checks that a hosted service waits by default and then ends, and that a
// local one does not wait.
func TestDrainWaitOfProfiles(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		flags []string
		wait  string
	}{
		{append(hostedChoices("key"), "--admin-addr", "off"), "wait=5s"},
		{append(hostedChoices("key"), "--admin-addr", "off", "--drain-wait", "200ms"), "wait=200ms"},
		{nil, "wait=0s"},
	} {
		s := start(t, options{flags: test.flags})
		s.signal(syscall.SIGTERM)
		if code := s.wait(); code != 0 {
			t.Errorf("%q: exit code %d, want 0", test.flags, code)
		}
		if !strings.Contains(s.log.String(), test.wait) {
			t.Errorf("%q: the log does not contain %s:\n%s", test.flags, test.wait, s.log)
		}
	}
}

// awaitClosed waits until the server accepts no connections.
func (s *server) awaitClosed() {
	s.t.Helper()
	s.await("the listener is still open", func() bool {
		connection, err := net.Dial("tcp", s.host)
		if err != nil {
			return true
		}
		if err := connection.Close(); err != nil {
			s.t.Error(err)
		}
		return false
	})
}

// await polls until is returns true.
func (s *server) await(not string, is func() bool) {
	s.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for !is() {
		select {
		case <-tick.C:
		case <-deadline:
			s.t.Fatalf("%s\n%s", not, tail(s.log.String()))
		}
	}
}
