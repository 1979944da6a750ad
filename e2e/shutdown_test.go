package e2e

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// slow is a download and an upload, both paused halfway.
type slow struct {
	s        *server
	data     []byte
	download *net.TCPConn
	reader   *bufio.Reader
	upload   *net.TCPConn
}

const slowHalf = 1 << 20

// beginSlow starts a download and reads only its headers. It also starts an upload and sends only
// the first half.
func beginSlow(s *server) *slow {
	s.t.Helper()
	// The blob is much larger than all socket buffers.
	data := content(1, 48<<20)
	s.must(204, "PUT", blobTarget("0x1", "down"), data)
	l := &slow{s: s, data: data, download: s.dial(), upload: s.dial()}
	l.reader = bufio.NewReaderSize(l.download, 4096)
	s.write(l.download, "GET "+blobTarget("0x1", "down")+" HTTP/1.1\r\nHost: localhost\r\n\r\n")
	if _, err := l.reader.Peek(1); err != nil {
		s.t.Fatal(err)
	}
	// The interim response shows that the handler has begun to read the body.
	s.write(l.upload, fmt.Sprintf("PUT %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n",
		blobTarget("0x1", "up"), 2*slowHalf))
	interim := make([]byte, len("HTTP/1.1 100 Continue\r\n\r\n"))
	if _, err := io.ReadFull(l.upload, interim); err != nil || !strings.HasPrefix(string(interim), "HTTP/1.1 100") {
		s.t.Fatalf("interim response %q, %v", interim, err)
	}
	s.write(l.upload, string(data[:slowHalf]))
	return l
}

// finish completes both.
func (l *slow) finish() {
	l.s.t.Helper()
	l.s.write(l.upload, string(l.data[slowHalf:2*slowHalf]))
	if r := l.s.answer(l.upload, "PUT"); r.status != 204 {
		l.s.t.Errorf("the upload: %v, want 204", r)
	}
	r, err := readAnswer(l.reader, "GET")
	if err != nil || r.status != 200 || digest(r.body) != digest(l.data) {
		l.s.t.Errorf("the download: %d with %d bytes, %v", r.status, len(r.body), err)
	}
}

// awaitDrain waits until the server accepts no new work: /readyz responds with 503, or the
// connection is refused.
func (s *server) awaitDrain() {
	s.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for {
		request, err := s.request("GET", "/readyz", nil, headers{"Connection", "close"})
		if err != nil {
			s.t.Fatal(err)
		}
		r, err := s.send(request)
		if err != nil && !slices.Contains(s.options.flags, longWait) {
			return // the listeners are closed
		}
		// While the drain waits the listeners are open, and an error is not conclusive: the system
		// would merge a second signal with the first if the server has not taken that one yet.
		if err == nil && r.status == http.StatusServiceUnavailable {
			checkProblem(s.t, r, 503, "draining")
			if r.header.Get("Retry-After") == "" {
				s.t.Error("readyz: no Retry-After while draining")
			}
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			s.t.Fatal("SIGTERM does not begin a drain")
		}
	}
}

// TestDrain checks that the server finishes requests in progress at SIGTERM.
func TestDrain(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	l := beginSlow(s)
	s.signal(syscall.SIGTERM)
	s.awaitDrain()
	l.finish()
	if code := s.wait(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	s.logged("level=INFO msg=draining signal=terminated wait_seconds=0 deadline_seconds=30", `level=INFO msg="drained: all requests have completed" took_seconds=`)
	s.restart()
	if r := s.must(200, "GET", blobTarget("0x1", "up"), nil); digest(r.body) != digest(l.data[:2*slowHalf]) {
		t.Error("the upload that ended during the drain is not what was sent")
	}
}

// logged waits until the log has each text. What a running process has just written may still be in
// a pipe.
func (s *server) logged(texts ...string) {
	s.t.Helper()
	for _, text := range texts {
		s.await(fmt.Sprintf("the log lacks %q", text), func() bool { return strings.Contains(s.log.String(), text) })
	}
}

// TestSecondSignal checks that a second signal ends a drain immediately.
func TestSecondSignal(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		s := start(t, options{dirty: true})
		beginSlow(s)
		s.signal(sig)
		s.awaitDrain()
		s.signal(sig)
		if code := s.wait(); code != 1 {
			t.Errorf("exit code %d after the second %v, want 1", code, sig)
		}
	}
}

// TestDrainDeadline checks that the server cuts a request that does not end in time. The request's
// rate is high enough for all other limits.
func TestDrainDeadline(t *testing.T) {
	t.Parallel()
	s := start(t, options{dirty: true, flags: []string{"--drain-deadline", "1s"}})
	l := beginSlow(s)
	s.signal(syscall.SIGTERM)
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for s.running() {
		select {
		case <-tick.C:
		case <-s.exited:
		}
		if _, err := io.CopyN(io.Discard, l.reader, 50_000); err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) &&
			!errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatal(err)
		}
	}
	if code := s.wait(); code != 1 {
		t.Errorf("exit code %d after the drain's deadline, want 1", code)
	}
}

// TestUploadsCutByTheDrain checks an upload that is not complete when the drain ends, in every
// framing. The server responds with 503 draining, stores nothing, and logs it so.
func TestUploadsCutByTheDrain(t *testing.T) {
	t.Parallel()
	s := start(t, options{dirty: true, flags: []string{"--drain-wait", longWait, "--drain-deadline", longWait}})
	var uploads []*bufio.Reader
	for i, head := range []string{"Content-Length: 10000000", "Content-Length: 100", "Transfer-Encoding: chunked"} {
		connection := s.dial()
		s.write(connection, fmt.Sprintf("PUT %s HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n%s\r\n\r\n", blobTarget("0x1", fmt.Sprint(i)), head))
		answers := bufio.NewReader(connection)
		// The handler is running.
		if line, err := answers.ReadString('\n'); err != nil || !strings.Contains(line, " 100 ") {
			t.Fatalf("%s: %q, %v", head, line, err)
		}
		uploads = append(uploads, answers)
	}
	s.signal(syscall.SIGTERM)
	s.awaitDrain()
	s.signal(syscall.SIGTERM) // ends the wait
	s.eventually("new connections are still accepted", func() bool {
		connection, err := net.Dial("tcp", s.host)
		return err != nil || connection.Close() != nil
	})
	s.signal(syscall.SIGTERM) // ends the drain
	for _, answers := range uploads {
		if _, err := answers.Discard(2); err != nil { // the interim response's end
			t.Fatal(err)
		}
		r, err := readAnswer(answers, "PUT")
		if err != nil {
			t.Fatal(err)
		}
		checkProblem(t, r, 503, "draining")
	}
	if code := s.wait(); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	if log := s.log.String(); strings.Contains(log, "status=400") || strings.Contains(log, "level=ERROR") || strings.Count(log, "level=INFO msg=request") < 3 || strings.Count(log, "status=503") < 3 {
		t.Errorf("the log is\n%s", log)
	}
	s.logged("level=INFO msg=draining", `level=WARN msg="drained, and requests were cut off" took_seconds=`)
	s.options.flags = nil
	s.restart()
	for i := range uploads {
		s.must(404, "GET", blobTarget("0x1", fmt.Sprint(i)), nil)
	}
}

// TestIdleStop checks that without requests SIGTERM and SIGINT end the server immediately, and that
// another process can use the data.
func TestIdleStop(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		s := start(t, options{})
		s.must(204, "PUT", blobTarget("0x1", "name"), []byte("kept"))
		s.signal(sig)
		if code := s.wait(); code != 0 {
			t.Errorf("exit code %d after %v, want 0", code, sig)
		}
		s.restart()
		if r := s.must(200, "GET", blobTarget("0x1", "name"), nil); string(r.body) != "kept" {
			t.Errorf("after the restart the blob is %v", r)
		}
	}
}

// checkFailedStart checks that a command has failed with exit code 1, one line on standard error
// that contains these words, and nothing on standard output.
func checkFailedStart(t *testing.T, r result, words ...string) {
	t.Helper()
	checkFailure(t, r, 1, words)
}

// checkWrongUsage is checkFailedStart for exit code 2.
func checkWrongUsage(t *testing.T, r result, words ...string) {
	t.Helper()
	checkFailure(t, r, 2, words)
}

func checkFailure(t *testing.T, r result, code int, words []string) {
	t.Helper()
	if r.code != code || r.stdout != "" {
		t.Errorf("exit code %d, standard output %q, want %d and nothing", r.code, r.stdout, code)
	}
	lines := strings.Split(strings.TrimSpace(r.stderr), "\n")
	if len(lines) != 1 {
		t.Errorf("%d lines on standard error, want one:\n%s", len(lines), r.stderr)
	}
	for _, word := range words {
		if !strings.Contains(r.stderr, word) {
			t.Errorf("the message does not contain %q: %s", word, r.stderr)
		}
	}
}

// TestFailedStarts checks that a failed start reports its reason in one line, with what to do.
func TestFailedStarts(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	t.Run("busy port", func(t *testing.T) {
		data := filepath.Join(t.TempDir(), "data")
		checkFailedStart(t, sluiceRuns(t, "serve", "--addr", s.host, "--data", data), s.host, "--addr")
	})
	t.Run("locked data folder", func(t *testing.T) {
		checkFailedStart(t, sluiceRuns(t, "serve", "--addr", "127.0.0.1:0", "--data", s.data), s.data, "--data")
	})
	t.Run("data folder is a file", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		checkFailedStart(t, sluiceRuns(t, "serve", "--addr", "127.0.0.1:0", "--data", file), file)
	})
	t.Run("open to the network", func(t *testing.T) {
		data := filepath.Join(t.TempDir(), "data")
		for _, addr := range []string{"0.0.0.0:0", "[::]:0", ":0"} {
			checkWrongUsage(t, sluiceRuns(t, "serve", "--addr", addr, "--data", data), "--open-to-network")
		}
	})
	t.Run("usage", func(t *testing.T) {
		for _, args := range [][]string{{"serve", "--no-such-flag"}, {"no-such-command"}, {"serve", "--addr", "nonsense"},
			{"serve", "--base-path", "no-slash"}, {"serve", "--reads", "key"}, {"serve", "--reads", "sometimes"}, {"serve", "--verify-ttl", "x"}} {
			if r := sluiceRuns(t, args...); r.code == 0 || r.stderr == "" || r.stdout != "" {
				t.Errorf("%q: exit code %d, standard error %q, standard output %q", args, r.code, r.stderr, r.stdout)
			}
		}
	})
	s.must(200, "GET", "/readyz", nil) // the running server is not affected
}

// TestDataFolder checks that a new data folder is private, and that the server accepts an existing
// empty one.
func TestDataFolder(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	if info, err := os.Stat(s.data); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the data folder was made with mode %v, %v, want 0700", info.Mode(), err)
	}
	start(t, options{data: t.TempDir()})
}

// TestStalledUploadDelaysNoOthers checks that a stalled upload does not delay other uploads, even
// to the same name.
func TestStalledUploadDelaysNoOthers(t *testing.T) {
	t.Parallel()
	s := start(t, options{dirty: true})
	beginSlow(s)
	data := content(3, 2<<20)
	s.must(204, "PUT", blobTarget("0x1", "up"), data)
	if r := s.must(200, "GET", blobTarget("0x1", "up"), nil); !bytes.Equal(r.body, data) {
		t.Error("the blob is not what was sent")
	}
}

// TestEveryRequestIsLogged checks that when a server has ended, it has written a line for each
// request, also during the drain.
func TestEveryRequestIsLogged(t *testing.T) {
	t.Parallel()
	s := start(t, options{flags: []string{"--drain-wait", longWait}})
	var ids []string
	request := func() {
		ids = append(ids, fmt.Sprintf("request-%d.", len(ids)))
		s.must(404, "GET", blobTarget("0x1", "none"), nil, "X-Request-Id", ids[len(ids)-1])
	}
	for range 200 {
		request()
	}
	s.signal(syscall.SIGTERM)
	s.awaitDrain()
	request()
	s.signal(syscall.SIGTERM) // ends the wait
	if code := s.wait(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	log := s.log.String()
	for _, id := range ids {
		if n := strings.Count(log, " id="+id+" "); n != 1 {
			t.Errorf("%d lines have the id %s, want 1", n, id)
		}
	}
}
