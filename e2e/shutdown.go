package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// Slow is a download and an upload, both paused halfway.
type Slow struct {
	s        *Server
	Data     []byte
	download *net.TCPConn
	Reader   *bufio.Reader
	upload   *net.TCPConn
}

// SlowHalf is half of the bytes of each of the transfers in Slow.
const SlowHalf = 1 << 20

// BeginSlow starts a download and reads only its headers. It also starts an upload and sends only
// the first half.
func BeginSlow(s *Server) *Slow {
	s.T.Helper()
	// The blob is much larger than all socket buffers.
	data := Content(1, 48<<20)
	s.Must(204, "PUT", BlobTarget("0x1", "down"), data)
	l := &Slow{s: s, Data: data, download: s.Dial(), upload: s.Dial()}
	l.Reader = bufio.NewReaderSize(l.download, 4096)
	s.Write(l.download, "GET "+BlobTarget("0x1", "down")+" HTTP/1.1\r\nHost: localhost\r\n\r\n")
	if _, err := l.Reader.Peek(1); err != nil {
		s.T.Fatal(err)
	}
	// The interim response shows that the handler has begun to read the body.
	s.Write(l.upload, fmt.Sprintf("PUT %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n",
		BlobTarget("0x1", "up"), 2*SlowHalf))
	interim := make([]byte, len("HTTP/1.1 100 Continue\r\n\r\n"))
	if _, err := io.ReadFull(l.upload, interim); err != nil || !strings.HasPrefix(string(interim), "HTTP/1.1 100") {
		s.T.Fatalf("interim response %q, %v", interim, err)
	}
	s.Write(l.upload, string(data[:SlowHalf]))
	return l
}

// Finish completes both.
func (l *Slow) Finish() {
	l.s.T.Helper()
	l.s.Write(l.upload, string(l.Data[SlowHalf:2*SlowHalf]))
	if r := l.s.Answer(l.upload, "PUT"); r.Status != 204 {
		l.s.T.Errorf("the upload: %v, want 204", r)
	}
	r, err := ReadAnswer(l.Reader, "GET")
	if err != nil || r.Status != 200 || Digest(r.Body) != Digest(l.Data) {
		l.s.T.Errorf("the download: %d with %d bytes, %v", r.Status, len(r.Body), err)
	}
}

// AwaitDrain waits until the server accepts no new work: /readyz responds with 503, or the
// connection is refused.
func (s *Server) AwaitDrain() {
	s.T.Helper()
	s.Await("SIGTERM does not begin a drain", func() bool {
		r, err := s.Try("GET", "/readyz", nil, "Connection", "close")
		if err != nil {
			// If the drain does not wait, the listeners are closed. While it waits they are open,
			// and an error is not conclusive: the system would merge a second signal with the
			// first if the server has not taken that one yet.
			return !slices.Contains(s.Options.Flags, LongWait)
		}
		if r.Status != http.StatusServiceUnavailable {
			return false
		}
		CheckProblem(s.T, r, 503, "draining")
		if r.Header.Get("Retry-After") == "" {
			s.T.Error("readyz: no Retry-After while draining")
		}
		return true
	})
}

// Logged waits until the log has each text. A running process's last lines may still be in a pipe.
func (s *Server) Logged(texts ...string) {
	s.T.Helper()
	for _, text := range texts {
		s.Await(fmt.Sprintf("the log lacks %q", text), func() bool { return strings.Contains(s.Log.String(), text) })
	}
}

// CheckWrongUsage checks that a command has failed with exit code 2, one line on standard error
// that contains these words, and nothing on standard output.
func CheckWrongUsage(t *testing.T, r Result, words ...string) {
	t.Helper()
	if r.Code != 2 || r.Stdout != "" {
		t.Errorf("exit code %d, standard output %q, want 2 and nothing", r.Code, r.Stdout)
	}
	lines := strings.Split(strings.TrimSpace(r.Stderr), "\n")
	if len(lines) != 1 {
		t.Errorf("%d lines on standard error, want one:\n%s", len(lines), r.Stderr)
	}
	for _, word := range words {
		if !strings.Contains(r.Stderr, word) {
			t.Errorf("the message does not contain %q: %s", word, r.Stderr)
		}
	}
}

// LongWait is longer than any test. A drain that waits for it ends only after a signal.
const LongWait = "1h"

// Await is like Eventually, and shows the log if the condition does not hold.
func (s *Server) Await(not string, is func() bool) {
	s.T.Helper()
	await(s.T, is, func() string { return not + "\n" + Tail(s.Log.String()) })
}
