package commands

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mattn/go-runewidth"

	"sluice/e2e"
	"sluice/test/testenv"
)

// startEphemeral starts an ephemeral server with its temporary folder below temporary.
func startEphemeral(t *testing.T, temporary string, flags ...string) *e2e.Server {
	t.Helper()
	s := &e2e.Server{T: t, Options: e2e.Options{Dirty: true, Wrapper: []string{"env", "TMPDIR=" + temporary}}}
	s.Run(slices.Concat(s.Options.Wrapper, []string{e2e.Sluice, "serve", "--ephemeral", "--addr", "127.0.0.1:0"}, flags))
	t.Cleanup(func() {
		if s.Running() {
			s.Stop()
		}
		s.CheckLog()
	})
	return s
}

// ownFolders returns a running ephemeral server's folders: the data folder, and the database's
// folder if that differs.
func ownFolders(s *e2e.Server) []string {
	s.T.Helper()
	dirs := []string{filepath.Dir(s.Data)}
	links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", s.Command.Process.Pid))
	testenv.OK(s.T, err)
	for _, link := range links {
		if name, err := os.Readlink(link); err == nil && filepath.Base(name) == "meta.db" {
			dirs = append(dirs, filepath.Dir(filepath.Dir(name)))
		}
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

func exists(t testing.TB, path string) bool {
	t.Helper()
	_, err := os.Stat(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return err == nil
}

// TestEphemeralInstances starts, stops and kills instances in random order. After each step a
// running instance has its blob, and a stopped one has left nothing. A killed one has left nothing
// after the next start.
// Invariant 126.
func TestEphemeralInstances(t *testing.T) {
	t.Parallel()
	random, temporary := rand.New(rand.NewPCG(e2e.Seed(t), 0)), t.TempDir()
	type instance struct {
		*e2e.Server
		folders []string
	}
	var running, killed []instance
	stop := func(i int, end func(*e2e.Server)) instance {
		one := running[i]
		running = slices.Delete(running, i, i+1)
		end(one.Server)
		return one
	}
	for step := range 14 {
		switch choice := random.IntN(4); {
		case len(running) < 2 || choice < 2 && len(running) < 4:
			one := instance{Server: startEphemeral(t, temporary)}
			one.folders = ownFolders(one.Server)
			one.Must(204, "PUT", "/v1/blobs/0x1/own", []byte(one.URL))
			running = append(running, one)
			for _, dead := range killed {
				for _, dir := range dead.folders {
					if exists(t, dir) {
						t.Errorf("step %d: %s was left behind by a killed process, and is still there after a start", step, dir)
					}
				}
			}
			killed = nil
		case choice == 2:
			killed = append(killed, stop(random.IntN(len(running)), (*e2e.Server).Kill))
		default:
			for _, dir := range stop(random.IntN(len(running)), (*e2e.Server).Stop).folders {
				if exists(t, dir) {
					t.Errorf("step %d: %s was left behind", step, dir)
				}
			}
		}
		for _, one := range running {
			if got := one.Must(200, "GET", "/v1/blobs/0x1/own", nil); string(got.Body) != one.URL {
				t.Errorf("step %d: the blob of %s is %q", step, one.URL, got.Body)
			}
		}
	}
	for len(running) > 0 {
		stop(0, (*e2e.Server).Stop)
	}
	startEphemeral(t, temporary).Stop()
	if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestSeededInstance starts a server with a folder of files, and reads them.
func TestSeededInstance(t *testing.T) {
	t.Parallel()
	dir := e2e.MakeTree(t, map[string]string{"0x1/docs/a b.json": `{"a": 1}`, "team/page": "<html>", "Bad Name/x": "x", "top": "x"})
	s := startEphemeral(t, t.TempDir(), "--seed", dir, "--log-level", "debug")
	for target, want := range map[string][2]string{
		"/v1/blobs/0x1/docs/a%20b.json": {`{"a": 1}`, "application/json"},
		"/v1/blobs/team/page":           {"<html>", "text/html; charset=utf-8"},
	} {
		r := s.Must(200, "GET", target, nil)
		if string(r.Body) != want[0] || r.Header.Get("Content-Type") != want[1] {
			t.Errorf("%s is %q of type %q, want %q", target, r.Body, r.Header.Get("Content-Type"), want)
		}
	}
	s.Logged("msg=seeded blobs=2 bytes=14 accounts=2 kept=0 skipped=2", `file="Bad Name/x" reason="the account`, "file=top reason=", "msg=settings profile=local ", " data="+s.Data+" ")
	for _, wrong := range []string{filepath.Join(dir, "none"), filepath.Join(dir, "top")} {
		if r := e2e.SluiceRuns(t, "serve", "--ephemeral", "--addr", "127.0.0.1:0", "--seed", wrong); r.Code != 1 || !strings.Contains(r.Stderr, "--seed "+wrong) {
			t.Errorf("--seed %s: %+v", wrong, r)
		}
	}
}

// TestFirstScreen checks a terminal's output when a local instance starts after another was killed,
// that the lines fit on 80 columns, and that Ctrl-C stops the server. The quickstart has its lines
// for S3.
func TestFirstScreen(t *testing.T) {
	t.Parallel()
	temporary := t.TempDir()
	killed := startEphemeral(t, temporary)
	killed.Kill()
	dir := e2e.MakeTree(t, map[string]string{"0x1/a": "text"})
	shown := untilInterrupted(t, fmt.Sprintf("stty cols 80; TMPDIR=%s exec %s serve --ephemeral --seed %s --addr localhost:0 --s3-addr localhost:0", temporary, e2e.Sluice, dir), "Ctrl-C stops the server.")
	for _, want := range []string{"Service  http://localhost:", "Console  http://localhost:", "Data     in memory and /", "Seed     1 blob (4 B) of 1 account", "sluice ls 0x1/ --url http://localhost:", "S3       http://localhost:", "Ctrl-C stops the server."} {
		if !strings.Contains(shown, want) {
			t.Errorf("the first screen lacks %q:\n%s", want, shown)
		}
	}
	root := testenv.Must(testenv.Root())(t)
	quickstart := string(testenv.Must(os.ReadFile(filepath.Join(root, "docs", "quickstart.md")))(t))
	port := regexp.MustCompile(`(?m)^  S3 +http://localhost:(\d+)`).FindStringSubmatch(shown)
	for _, line := range regexp.MustCompile(`(?m)^  ((?:export|aws|s3cmd).*)$`).FindAllStringSubmatch(strings.ReplaceAll(shown, "\r", ""), -1) {
		if !strings.Contains(quickstart, strings.ReplaceAll(line[1], "localhost:"+port[1], "localhost:9000")+"\n") {
			t.Errorf("the quickstart lacks the line %q", line[1])
		}
	}
	if before, _, _ := strings.Cut(shown, "Service  "); strings.Contains(before, "time=") {
		t.Errorf("the log comes before the first screen:\n%s", shown)
	}
	if dir := filepath.Dir(killed.Data); exists(t, dir) {
		t.Errorf("%s was left behind by a killed process, and is still there after a start", dir)
	}
	for line := range strings.Lines(strings.ReplaceAll(shown, temporary, "/tmp")) {
		if len(strings.TrimSpace(line)) > 80 && !strings.Contains(line, "time=") {
			t.Errorf("the line %q has more than 80 columns", line)
		}
	}
}

// TestLogOnATerminal checks a local instance's log as a developer sees it: a line of at most 80
// columns for each request, with the blob's name, which cannot control the terminal. Colors are the
// only escape sequences, and NO_COLOR removes them.
// Invariant 50.
func TestLogOnATerminal(t *testing.T) {
	t.Parallel()
	const id = "QNECKXVIABCDEFGHIJKLMN"
	long := "long/" + strings.Repeat("日本語/", 60) + "end"
	for _, colors := range []bool{true, false} {
		s := &e2e.Server{T: t, Scheme: "http", Client: e2e.Client, Log: &e2e.LogBuffer{}}
		environment := "TERM=xterm NO_COLOR="
		if !colors {
			environment += "1"
		}
		command := fmt.Sprintf("%s exec %s serve --addr 127.0.0.1:0 --s3-addr off --data %s", environment, e2e.Sluice, filepath.Join(t.TempDir(), "data"))
		shown := interruptedIf(t, command, func(line string) bool {
			if at := regexp.MustCompile(`^  Service  (http://(\S+))`).FindStringSubmatch(line); at != nil {
				s.URL, s.Host = at[1], at[2]
			}
			if strings.Contains(line, "Ctrl-C stops the server.") {
				s.Must(204, "PUT", e2e.BlobTarget("team", "a\u202eb"), []byte("hello"))
				s.Must(204, "PUT", e2e.BlobTarget("team", long), []byte("hello"))
				s.Must(400, "GET", "/v1/blobs/team/%1B[2J", nil)
				s.Must(404, "GET", "/v1/sessions/"+id, nil)
				s.Must(200, "GET", "/v1/info", nil)
			}
			return strings.Contains(line, "/v1/info ")
		})
		plain := regexp.MustCompile("\x1b\\[(2|3[123]|0)m").ReplaceAllString(strings.ReplaceAll(shown, "\r", ""), "")
		if removed := plain != strings.ReplaceAll(shown, "\r", ""); removed != colors {
			t.Errorf("colors are shown: %t, want %t\n%q", removed, colors, shown)
		}
		for _, want := range []string{
			`PUT +/v1/blobs/team/a\\u202eb +204 +5 B +[0-9.]+m?s`,
			`PUT +/v1/blobs/team/long/\S*\.\.\.\S+/end +204 +5 B +[0-9.]+m?s`,
			`GET +/v1/blobs/team/\\x1b\[2J +bad_name 400 +\d+ B +[0-9.]+m?s`,
			`GET +/v1/sessions/QNECKX\.\.\. +session_not_found 404 +\d+ B +[0-9.]+m?s`,
			`GET +/v1/info +200 +[0-9.]+ k?B +[0-9.]+m?s`,
		} {
			line := regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d ` + want + `$`).FindString(plain)
			if columns := runewidth.StringWidth(line); line == "" || columns > 80 {
				t.Errorf("a line of %d columns for %s: %q in\n%s", columns, want, line, plain)
			}
		}
		for _, unwanted := range []string{"\x1b", "\u202e", id, "msg=request", "msg=settings"} {
			if strings.Contains(plain, unwanted) {
				t.Errorf("%q is shown:\n%q", unwanted, shown)
			}
		}
	}
}

// untilInterrupted runs a command on a terminal until it has shown a text, presses Ctrl-C, and
// returns all output until the command ended. The exit code must be 0.
func untilInterrupted(t *testing.T, command, until string) string {
	t.Helper()
	return interruptedIf(t, command, func(line string) bool { return strings.Contains(line, until) })
}

// interruptedIf is untilInterrupted for a function, which is called with each line that is shown,
// and reports whether to press Ctrl-C.
func interruptedIf(t *testing.T, command string, ends func(line string) bool) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), e2e.Patience)
	defer cancel()
	c := terminalCommand(ctx, command)
	keys, err := c.StdinPipe()
	testenv.OK(t, err)
	out, err := c.StdoutPipe()
	testenv.OK(t, err)
	testenv.OK(t, c.Start())
	var shown strings.Builder
	for scanner := bufio.NewScanner(out); scanner.Scan(); {
		shown.WriteString(scanner.Text() + "\n")
		if ends(scanner.Text()) {
			if _, err := io.WriteString(keys, "\x03"); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := c.Wait(); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, shown.String())
	}
	return shown.String()
}
