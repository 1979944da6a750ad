package faults

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"

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

// TestDrainEndsWaits: a stream of changes and a request that waits for them end at SIGTERM, whole.
// Invariant 227.
func TestDrainEndsWaits(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Flags: []string{"--admin-addr", "127.0.0.1:0", "--drain-deadline", "5s"}})
	ended := make(chan string, 2)
	for accept, query := range map[string]string{"text/event-stream": "", "application/json": "?wait=60"} {
		go func() {
			r := testenv.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/v1/changes"+query, nil))(t)
			r.Header.Set("Accept", accept)
			answer, err := http.DefaultClient.Do(r)
			if err != nil {
				ended <- err.Error()
				return
			}
			body, err := io.ReadAll(answer.Body)
			ended <- fmt.Sprint(answer.StatusCode, len(body) > 0, errors.Join(err, answer.Body.Close()))
		}()
	}
	s.Eventually("nobody waits", func() bool { return s.Counter("sluice_changes_readers") == 2 })
	s.Signal(syscall.SIGTERM)
	for range 2 {
		testenv.Equal(t, <-ended, "200 true <nil>", "the response")
	}
	s.Exits(0)
	s.Logged(`level=INFO msg="drained: all requests have completed" took_seconds=`)
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
