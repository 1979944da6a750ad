package commands

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"sluice/e2e"
	"sluice/test/testenv"
	"sluice/wire"
)

// TestWatch follows changes with sluice watch, while the server restarts, until it is
// interrupted, and continues with another command where it ended.
func TestWatch(t *testing.T) {
	t.Parallel()
	testenv.Require(t, testenv.Unix)
	s := e2e.Start(t, e2e.Options{Addr: testenv.ReserveAddress(t), Dirty: true})
	s.Must(204, "PUT", "/v1/blobs/team/a/before", []byte("x"))
	watch := func(args ...string) (lines *bufio.Scanner, stderr *e2e.LogBuffer, end func() int) {
		c := exec.CommandContext(t.Context(), e2e.Sluice, append([]string{"watch", "--url", s.URL}, args...)...)
		stderr = &e2e.LogBuffer{}
		c.Stderr = stderr
		stdout := testenv.Must(c.StdoutPipe())(t)
		testenv.OK(t, c.Start())
		return bufio.NewScanner(stdout), stderr, func() int {
			testenv.Check(t, c.Process.Signal(os.Interrupt))
			_ = c.Wait() // the exit code is checked
			return c.ProcessState.ExitCode()
		}
	}
	next := func(lines *bufio.Scanner) (change wire.Change) {
		t.Helper()
		if !lines.Scan() {
			t.Fatalf("the command has ended: %v", lines.Err())
		}
		testenv.OK(t, json.Unmarshal(lines.Bytes(), &change))
		return change
	}

	lines, stderr, end := watch("--json", "team/a/")
	s.Eventually("the command does not watch", func() bool { return strings.Contains(stderr.String(), "watching from the position ") })
	s.Must(204, "PUT", "/v1/blobs/team/b/other", []byte("x"))
	s.Must(204, "PUT", "/v1/blobs/team/a/one", []byte("x"))
	one := next(lines)
	testenv.Equal(t, one.Kind+" "+one.Name, "stored a/one", "the first change")
	s.Kill()
	s.Restart()
	s.Must(204, "DELETE", "/v1/blobs/team/a/one", nil)
	deleted := next(lines)
	testenv.Equal(t, deleted.Kind+" "+deleted.Name, "deleted a/one", "the change after the restart")
	testenv.Equal(t, end(), 130, "the exit code")

	lines, stderr, end = watch("team", "--after", one.Position, "--kinds", "stored,deleted")
	s.Must(204, "PUT", "/v1/blobs/team/a/two", []byte("x"))
	for _, want := range []string{"  deleted  1 B  a/one", "  stored  1 B  a/two"} {
		if !lines.Scan() || !strings.HasSuffix(lines.Text(), want) {
			t.Errorf("the line is %q, want %q", lines.Text(), want)
		}
	}
	testenv.Equal(t, end(), 130, "the exit code")
	if !strings.Contains(stderr.String(), "continue with --after ") {
		t.Errorf("stderr is %s", stderr)
	}

	for args, want := range map[string]string{
		"watch team --exec rm":   "sluice: --exec does not exist, since names of blobs would become parts of commands: read lines instead, as in sluice watch --json team | while read -r change; do ...; done\n",
		"watch team --kinds no":  "kinds has \"no\"",
		"watch team --after 9-0": "list the blobs, and continue with --after 1-",
		"watch team --after x":   "after must be a position from a response, or start",
	} {
		if r := s.Sluice(strings.Fields(args)...); r.Code == 0 || !strings.Contains(r.Stderr, want) {
			t.Errorf("%s: %+v, want %q", args, r, want)
		}
	}
	testenv.Equal(t, s.Sluice("watch", "team", "--exec", "rm").Code, 2, "the exit code of --exec")
}
