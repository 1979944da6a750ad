package faults

import (
	"strings"
	"testing"

	"sluice/e2e"
	"sluice/test/testenv"

	"golang.org/x/sys/unix"
)

// limitFiles makes all the process's writes beyond a file's first 4 KiB fail, as with a broken
// disk.
func limitFiles(t *testing.T, s *e2e.Server) {
	t.Helper()
	limit := unix.Rlimit{Cur: 4096, Max: unix.RLIM_INFINITY}
	testenv.OK(t, unix.Prlimit(s.Command.Process.Pid, unix.RLIMIT_FSIZE, &limit, nil))
}

// TestStoppedServerEnds makes a COMMIT fail with an I/O error. Its outcome is unknown, and the
// server drains and exits with code 1, so that a supervisor restarts it. After the next start the
// server must have everything that it has acknowledged.
// Invariant 107.
func TestStoppedServerEnds(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Dirty: true})
	s.Must(204, "PUT", e2e.BlobTarget("0x1", "before"), e2e.Content(1, 3000))
	r := putIntoFault(t, s)
	e2e.CheckProblem(t, r, 503, "outcome_unknown")
	log := s.Log.String()
	for _, want := range []string{"no more writes are possible in this process", "sluice: sqlstore: stopped after an I/O error"} {
		if !strings.Contains(log, want) {
			t.Errorf("the log does not contain %q:\n%s", want, e2e.Tail(log))
		}
	}
	s.Restart()
	s.Holds(e2e.BlobTarget("0x1", "before"), e2e.Content(1, 3000))
	s.Must(204, "PUT", e2e.BlobTarget("0x1", "after"), e2e.Content(2, 15000))
}

// putIntoFault makes writes fail, and returns the response to a PUT, after which the server has
// ended. On a busy machine the task that keeps the time can meet the fault first, and the server
// drains before the PUT; then it tries again.
func putIntoFault(t *testing.T, s *e2e.Server) e2e.Response {
	t.Helper()
	for range 30 {
		limitFiles(t, s)
		r, err := s.Try("PUT", e2e.BlobTarget("0x1", "after"), e2e.Content(2, 15000))
		s.Exits(1)
		if err == nil && strings.Contains(string(r.Body), "outcome_unknown") {
			return r
		}
		if log := s.Log.String(); !strings.Contains(log, "the database has not kept the time") {
			t.Fatalf("%v, %v, and no other write has met the fault:\n%s", r, err, e2e.Tail(log))
		}
		s.Restart()
	}
	t.Fatal("the PUT was never the first write")
	return e2e.Response{}
}
