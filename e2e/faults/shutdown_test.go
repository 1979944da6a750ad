package faults

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/e2e"
	"sluice/test/testenv"
)

// TestDrain checks that the server finishes requests in progress at SIGTERM. Before that, a stalled
// upload delays no other one, even to the same name.
func TestDrain(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{})
	l := e2e.BeginSlow(s)
	s.Must(204, "PUT", e2e.BlobTarget("0x1", "up"), []byte("sent meanwhile"))
	s.Signal(syscall.SIGTERM)
	s.AwaitDrain()
	l.Finish()
	s.Exits(0)
	s.Logged("level=INFO msg=draining signal=terminated wait_seconds=0 deadline_seconds=30", `level=INFO msg="drained: all requests have completed" took_seconds=`)
	s.Restart()
	s.Holds(e2e.BlobTarget("0x1", "up"), l.Data[:2*e2e.SlowHalf])
}

// TestDrainDeadline checks that the server cuts a request that does not end in time. The request's
// rate is high enough for all other limits.
func TestDrainDeadline(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Dirty: true, Flags: []string{"--drain-deadline", "1s"}})
	l := e2e.BeginSlow(s)
	s.Signal(syscall.SIGTERM)
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for s.Running() {
		select {
		case <-tick.C:
		case <-s.Exited:
		}
		if _, err := io.CopyN(io.Discard, l.Reader, 50_000); err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) &&
			!errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatal(err)
		}
	}
	s.Exits(1)
}

// TestUploadsCutByTheDrain checks an upload that is not complete when the drain ends, in every
// framing. The server responds with 503 draining, stores nothing, and logs it so.
// Invariants 57, 136.
func TestUploadsCutByTheDrain(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Dirty: true, Flags: []string{"--drain-wait", e2e.LongWait, "--drain-deadline", e2e.LongWait}})
	var uploads []*bufio.Reader
	for i, head := range []string{"Content-Length: 10000000", "Content-Length: 100", "Transfer-Encoding: chunked"} {
		connection := s.Dial()
		s.Write(connection, fmt.Sprintf("PUT %s HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n%s\r\n\r\n", e2e.BlobTarget("0x1", fmt.Sprint(i)), head))
		answers := bufio.NewReader(connection)
		// The handler is running.
		if line, err := answers.ReadString('\n'); err != nil || !strings.Contains(line, " 100 ") {
			t.Fatalf("%s: %q, %v", head, line, err)
		}
		uploads = append(uploads, answers)
	}
	s.Signal(syscall.SIGTERM)
	s.AwaitDrain()
	s.Signal(syscall.SIGTERM) // ends the wait
	s.Eventually("new connections are still accepted", func() bool {
		connection, err := net.Dial("tcp", s.Host)
		return err != nil || connection.Close() != nil
	})
	s.Signal(syscall.SIGTERM) // ends the drain
	for _, answers := range uploads {
		if _, err := answers.Discard(2); err != nil { // the interim response's end
			t.Fatal(err)
		}
		r, err := e2e.ReadAnswer(answers, "PUT")
		testenv.OK(t, err)
		e2e.CheckProblem(t, r, 503, "draining")
	}
	s.Exits(1)
	if log := s.Log.String(); strings.Contains(log, "status=400") || strings.Contains(log, "level=ERROR") || strings.Count(log, "level=INFO msg=request") < 3 || strings.Count(log, "status=503") < 3 {
		t.Errorf("the log is\n%s", log)
	}
	s.Logged("level=INFO msg=draining", `level=WARN msg="drained, and requests were cut off" took_seconds=`)
	s.Options.Flags = nil
	s.Restart()
	for i := range uploads {
		s.Must(404, "GET", e2e.BlobTarget("0x1", fmt.Sprint(i)), nil)
	}
}

// TestFailedStarts checks that a failed start reports its reason in one line, with the remedy.
func TestFailedStarts(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{})
	t.Run("busy port", func(t *testing.T) {
		data := filepath.Join(t.TempDir(), "data")
		e2e.CheckFailedStart(t, e2e.SluiceRuns(t, "serve", "--addr", s.Host, "--data", data), s.Host, "--addr")
	})
	t.Run("locked data folder", func(t *testing.T) {
		e2e.CheckFailedStart(t, e2e.SluiceRuns(t, "serve", "--addr", "127.0.0.1:0", "--data", s.Data), s.Data, "--data")
	})
	t.Run("data folder is a file", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "file")
		testenv.OK(t, os.WriteFile(file, []byte("x"), 0o600))
		e2e.CheckFailedStart(t, e2e.SluiceRuns(t, "serve", "--addr", "127.0.0.1:0", "--data", file), file)
	})
	t.Run("open to the network", func(t *testing.T) {
		data := filepath.Join(t.TempDir(), "data")
		for _, addr := range []string{"0.0.0.0:0", "[::]:0", ":0"} {
			e2e.CheckWrongUsage(t, e2e.SluiceRuns(t, "serve", "--addr", addr, "--data", data), "--open-to-network")
		}
	})
	t.Run("usage", func(t *testing.T) {
		for _, args := range [][]string{{"serve", "--no-such-flag"}, {"no-such-command"}, {"serve", "--addr", "nonsense"},
			{"serve", "--base-path", "no-slash"}, {"serve", "--reads", "key"}, {"serve", "--reads", "sometimes"}, {"serve", "--verify-ttl", "x"}} {
			if r := e2e.SluiceRuns(t, args...); r.Code == 0 || r.Stderr == "" || r.Stdout != "" {
				t.Errorf("%q: exit code %d, standard error %q, standard output %q", args, r.Code, r.Stderr, r.Stdout)
			}
		}
	})
	s.Must(200, "GET", "/readyz", nil) // the running server is not affected
}

// TestDataFolder checks that a new data folder is private, and that the server accepts an existing
// empty one.
func TestDataFolder(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{})
	if info, err := os.Stat(s.Data); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the data folder was made with mode %v, %v, want 0700", info.Mode(), err)
	}
	e2e.Start(t, e2e.Options{Data: t.TempDir()})
}

// TestEveryRequestIsLogged checks that when a server has ended, it has written a line for each
// request, also during the drain.
// Invariant 134.
func TestEveryRequestIsLogged(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Flags: []string{"--drain-wait", e2e.LongWait}})
	var ids []string
	request := func() {
		ids = append(ids, fmt.Sprintf("request-%d.", len(ids)))
		s.Must(404, "GET", e2e.BlobTarget("0x1", "none"), nil, "X-Request-Id", ids[len(ids)-1])
	}
	for range 200 {
		request()
	}
	s.Signal(syscall.SIGTERM)
	s.AwaitDrain()
	request()
	s.Signal(syscall.SIGTERM) // ends the wait
	s.Exits(0)
	log := s.Log.String()
	for _, id := range ids {
		if n := strings.Count(log, " id="+id+" "); n != 1 {
			t.Errorf("%d lines have the id %s, want 1", n, id)
		}
	}
}
