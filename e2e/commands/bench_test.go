package commands

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"sluice/e2e"
	"sluice/test/testenv"
)

// measurement is the output of sluice bench --json.
type measurement struct {
	Workload   string
	Seconds    float64
	Operations []struct {
		Kind                        string
		Done, Failed, Unsent, Bytes int64
		Errors                      map[string]int64
		Latency                     struct{ Min, P50, P90, Max float64 } `json:"latencyMicroseconds"`
	}
	Left *struct {
		Prefix                   string
		Blobs, Uploads, Sessions int
	}
}

// measured decodes the output of sluice bench --json.
func measured(t testing.TB, stdout string) (m measurement) {
	t.Helper()
	if err := json.Unmarshal([]byte(stdout), &m); err != nil || m.Seconds <= 0 {
		t.Fatalf("%q: %v", stdout, err)
	}
	return m
}

// TestBenchWorkloads measures each workload, and checks the counts and that nothing is left.
func TestBenchWorkloads(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{})
	const count = 200
	for _, test := range []struct {
		workload string
		flags    []string
		kinds    []string
		bytes    int64 // over all operations; -1: not checked
	}{
		{"put", nil, []string{"put"}, count * 4 << 10},
		{"put", []string{"--size", "0"}, []string{"put"}, 0},
		{"get", []string{"--blobs", "20", "--size", "100000"}, []string{"get"}, count * 100_000},
		{"get", []string{"--rate", "1000"}, []string{"get"}, count * 4 << 10},
		{"range", []string{"--blobs", "3", "--size", "3MiB", "--range", "70000"}, []string{"range"}, count * 70_000},
		{"multipart", []string{"--blobs", "5", "--size", "200000", "--part-size", "65536"}, []string{"multipart"}, count * 200_000},
		{"use", []string{"--sessions", "7"}, []string{"use"}, 0},
		{"mixed", []string{"--mix", "get=5,put=3,range=1,use=1,multipart=1", "--blobs", "50", "--size", "1KiB=9,2MiB=1"}, []string{"put", "get", "range", "multipart", "use", "all"}, -1},
	} {
		args := append([]string{"bench", test.workload, "team/tmp/", "--count", "200", "--connections", "8", "--json"}, test.flags...)
		r := s.Sluice(args...)
		if r.Code != 0 || r.Stderr != "" {
			t.Errorf("%q: %+v", args, r)
			continue
		}
		m := measured(t, r.Stdout)
		done := int64(0)
		var kinds []string
		for _, o := range m.Operations {
			kinds = append(kinds, o.Kind)
			if o.Failed != 0 || o.Done == 0 || o.Latency.Min <= 0 || o.Latency.Max < o.Latency.P90 || o.Latency.P90 < o.Latency.P50 {
				t.Errorf("%q: %+v", args, o)
			}
			done = max(done, o.Done)
			if test.bytes >= 0 && o.Bytes != test.bytes {
				t.Errorf("%q: %d bytes, want %d", args, o.Bytes, test.bytes)
			}
		}
		if done != count || strings.Join(kinds, " ") != strings.Join(test.kinds, " ") {
			t.Errorf("%q: %d operations of %q, want %d of %q", args, done, kinds, count, test.kinds)
		}
		if m.Left != nil && (m.Left.Blobs != 0 || m.Left.Uploads != 0) {
			t.Errorf("%q leaves %+v", args, *m.Left)
		}
		if left := s.Names("team"); len(left) > 0 {
			t.Errorf("%q leaves %q", args, left)
		}
	}
	if r := s.Sluice("upload", "ls", "team"); r.Stdout != "" {
		t.Errorf("uploads are left: %s", r.Stdout)
	}
	r := s.Sluice("bench", "use", "--count", "10")
	if r.Code != 0 || !strings.Contains(r.Stdout, "per second") || !strings.Contains(r.Stdout, "\n       use   10      0") || !strings.Contains(r.Stderr, "sessions are left; they expire") {
		t.Errorf("%+v", r)
	}
}

// TestBenchReportsErrors checks the exit code and the counts when operations fail, and when a
// measurement cannot begin.
func TestBenchReportsErrors(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{})
	r := s.Sluice("bench", "use", "--session", strings.Repeat("A", 26), "--count", "20", "--json")
	if r.Code != 3 || !strings.Contains(r.Stderr, "all 20 operations failed; the first error is: ") {
		t.Errorf("%+v", r)
	}
	if m := measured(t, r.Stdout); m.Operations[0].Failed != 20 || m.Operations[0].Errors["session_not_found"] != 20 || m.Left != nil {
		t.Errorf("%+v", m)
	}
	id := s.Sluice("session", "create").Stdout
	r = s.Sluice("bench", "use", "--session", strings.TrimSpace(id), "--count", "1010")
	if r.Code != 5 || !strings.Contains(r.Stdout, "use: 10 failed: no_chunksets_left\n") || !strings.Contains(r.Stderr, "10 of 1010 operations failed") {
		t.Errorf("%+v", r)
	}
	hosted := e2e.StartHosted(t, "paid")
	r = hosted.Sluice("bench", "get")
	if r.Code != 4 || r.Stdout != "" || !strings.Contains(r.Stderr, "nothing was measured: ") || strings.Contains(r.Stderr, "left") {
		t.Errorf("%+v", r)
	}
	if r := hosted.Sluice("bench", "use"); r.Code != 4 || !strings.Contains(r.Stderr, "payment") {
		t.Errorf("%+v", r)
	}
	s.Stop()
	if r := s.Sluice("bench", "get"); r.Code != 1 || !strings.Contains(r.Stderr, "connection refused") || strings.Contains(r.Stderr, "left") {
		t.Errorf("%+v", r)
	}
}

// TestBenchRemovesItsBlobsAfterCtrlC interrupts measurements, by Ctrl-C or by closing the terminal,
// and checks that they print their measurements, and leave nothing.
func TestBenchRemovesItsBlobsAfterCtrlC(t *testing.T) {
	t.Parallel()
	testenv.Require(t, testenv.Unix)
	s := e2e.Start(t, e2e.Options{})
	for _, signal := range []os.Signal{os.Interrupt, syscall.SIGHUP} {
		command := exec.Command(e2e.Sluice, "bench", "mixed", "--mix", "put=8,multipart=2,get=2", "--blobs", "100", "--duration", "1h", "--url", s.URL)
		var stdout, stderr bytes.Buffer
		command.Stdout, command.Stderr = &stdout, &stderr
		testenv.OK(t, command.Start())
		s.Eventually("not all blobs were stored", func() bool { return len(s.Names("bench")) >= 100 })
		testenv.OK(t, command.Process.Signal(signal))
		_ = command.Wait() // the exit code is checked below
		if code := command.ProcessState.ExitCode(); code != 130 || !strings.Contains(stderr.String(), "interrupted") {
			t.Errorf("%v: exit code %d\n%s%s", signal, code, stdout.String(), stderr.String())
		}
		if left := s.Names("bench"); len(left) > 0 {
			t.Errorf("%v: blobs are left: %q", signal, left)
		}
		if r := s.Sluice("upload", "ls", "bench"); r.Stdout != "" {
			t.Errorf("%v: uploads are left: %s", signal, r.Stdout)
		}
	}
}

// TestBenchSaysWhatIsLeft makes deletions fail.
func TestBenchSaysWhatIsLeft(t *testing.T) {
	t.Parallel()
	deny := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodDelete {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	defer deny.Close()
	r := e2e.SluiceRuns(t, "bench", "put", "team", "--count", "5", "--url", deny.URL)
	if r.Code != 4 || !strings.Contains(r.Stdout, "put    5      0") || !strings.Contains(r.Stderr, "not everything was removed: up to 5 blobs are left below team/sluice-bench-") ||
		!strings.Contains(r.Stderr, "(sluice rm -r team/sluice-bench-") {
		t.Errorf("%+v", r)
	}
}
