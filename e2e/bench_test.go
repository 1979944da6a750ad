package e2e

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/internal/testenv"
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
	s := start(t, options{})
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
		r := s.sluice(args...)
		if r.code != 0 || r.stderr != "" {
			t.Errorf("%q: %+v", args, r)
			continue
		}
		m := measured(t, r.stdout)
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
		if left := s.names("team"); len(left) > 0 {
			t.Errorf("%q leaves %q", args, left)
		}
	}
	if r := s.sluice("upload", "ls", "team"); r.stdout != "" {
		t.Errorf("uploads are left: %s", r.stdout)
	}
	r := s.sluice("bench", "use", "--count", "10")
	if r.code != 0 || !strings.Contains(r.stdout, "per second") || !strings.Contains(r.stdout, "\n       use   10      0") || !strings.Contains(r.stderr, "sessions are left; they expire") {
		t.Errorf("%+v", r)
	}
}

// TestBenchReportsErrors checks the exit code and the counts when operations fail, and when a
// measurement cannot begin.
func TestBenchReportsErrors(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	r := s.sluice("bench", "use", "--session", strings.Repeat("A", 26), "--count", "20", "--json")
	if r.code != 3 || !strings.Contains(r.stderr, "all 20 operations failed; the first error is: ") {
		t.Errorf("%+v", r)
	}
	if m := measured(t, r.stdout); m.Operations[0].Failed != 20 || m.Operations[0].Errors["session_not_found"] != 20 || m.Left != nil {
		t.Errorf("%+v", m)
	}
	id := s.sluice("session", "create").stdout
	r = s.sluice("bench", "use", "--session", strings.TrimSpace(id), "--count", "1010")
	if r.code != 5 || !strings.Contains(r.stdout, "use: 10 failed: no_chunksets_left\n") || !strings.Contains(r.stderr, "10 of 1010 operations failed") {
		t.Errorf("%+v", r)
	}
	hosted := startHosted(t, "paid")
	r = hosted.sluice("bench", "get")
	if r.code != 4 || r.stdout != "" || !strings.Contains(r.stderr, "nothing was measured: ") || strings.Contains(r.stderr, "left") {
		t.Errorf("%+v", r)
	}
	if r := hosted.sluice("bench", "use"); r.code != 4 || !strings.Contains(r.stderr, "payment") {
		t.Errorf("%+v", r)
	}
	s.stop()
	if r := s.sluice("bench", "get"); r.code != 1 || !strings.Contains(r.stderr, "connection refused") || strings.Contains(r.stderr, "left") {
		t.Errorf("%+v", r)
	}
}

// TestBenchRemovesItsBlobsAfterCtrlC interrupts a measurement, and checks that it prints what it
// has measured, and leaves nothing.
func TestBenchRemovesItsBlobsAfterCtrlC(t *testing.T) {
	t.Parallel()
	testenv.Require(t, testenv.Unix)
	s := start(t, options{})
	command := exec.Command(sluice, "bench", "mixed", "--mix", "put=8,multipart=2,get=2", "--blobs", "100", "--duration", "1h", "--url", s.url)
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	s.eventually("not all blobs were stored", func() bool { return len(s.names("bench")) >= 100 })
	if err := command.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = command.Wait() // the exit code is checked below
	if code := command.ProcessState.ExitCode(); code != 130 || !strings.Contains(stderr.String(), "interrupted") {
		t.Errorf("exit code %d\n%s%s", code, stdout.String(), stderr.String())
	}
	if left := s.names("bench"); len(left) > 0 {
		t.Errorf("blobs are left: %q", left)
	}
	if r := s.sluice("upload", "ls", "bench"); r.stdout != "" {
		t.Errorf("uploads are left: %s", r.stdout)
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
	r := sluiceRuns(t, "bench", "put", "team", "--count", "5", "--url", deny.URL)
	if r.code != 4 || !strings.Contains(r.stdout, "put    5      0") || !strings.Contains(r.stderr, "not everything was removed: up to 5 blobs are left below team/sluice-bench-") ||
		!strings.Contains(r.stderr, "(sluice rm -r team/sluice-bench-") {
		t.Errorf("%+v", r)
	}
}

// TestBenchShowsStalls stalls a server once, for a quarter of the time measured. The 90th
// percentile of an open loop must show the stall.
func TestBenchShowsStalls(t *testing.T) {
	t.Parallel()
	const stall = 500 * time.Millisecond
	served := 0
	var mu sync.Mutex
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if served++; served == 100 {
			time.Sleep(stall) // with the lock, so that all requests wait
		}
	}))
	defer s.Close()
	r := sluiceRuns(t, "bench", "use", "--session", "S", "--rate", "500", "--duration", "2s", "--json", "--url", s.URL)
	if r.code != 0 {
		t.Fatalf("%+v", r)
	}
	o := measured(t, r.stdout).Operations[0]
	// A quarter of all were due in the stall; a tenth of all waited for 60 percent of it or more.
	if o.Done+o.Unsent != 1000 || o.Latency.P90 < 0.55*float64(stall/time.Microsecond) || o.Latency.Max < 0.99*float64(stall/time.Microsecond) {
		t.Errorf("%+v", o)
	}
}
