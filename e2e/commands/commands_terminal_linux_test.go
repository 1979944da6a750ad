package commands

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"sluice/e2e"
	"sluice/test/testenv"
)

// terminalCommand returns a shell command on a terminal, by script(1) from the essential Debian
// package bsdutils. The shell is not the user's, and has no locale to warn about.
func terminalCommand(ctx context.Context, command string) *exec.Cmd {
	c := exec.CommandContext(ctx, "script", "-qec", command, "/dev/null")
	c.Env = append(os.Environ(), "SHELL=/bin/sh", "LC_ALL=C.UTF-8")
	return c
}

// startOnTerminal starts a shell command on a terminal. It returns the terminal's output, as it is
// drawn, and a function that waits for the command's end.
func startOnTerminal(t testing.TB, command string) (shown *e2e.LogBuffer, wait func() error) {
	t.Helper()
	c := terminalCommand(t.Context(), command)
	out, err := c.StdoutPipe()
	testenv.OK(t, err)
	testenv.OK(t, c.Start())
	shown = &e2e.LogBuffer{}
	read := make(chan error, 1)
	go func() { read <- testenv.Error(io.Copy(shown, out)) }()
	return shown, func() error { return errors.Join(<-read, c.Wait()) }
}

// onTerminal types this text to a shell command on a terminal, and returns the terminal's output.
func onTerminal(t testing.TB, command, typed string) string {
	t.Helper()
	c := terminalCommand(t.Context(), command)
	c.Stdin = strings.NewReader(typed)
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	return string(out)
}

// TestTransfersOnATerminal checks that the lines and the summary of transfers remain on a terminal
// with its progress line, and that rm -r asks there.
func TestTransfersOnATerminal(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{})
	dir := e2e.MakeTree(t, map[string]string{"a": "a", "b": "b"})
	put := fmt.Sprintf("%s put -r %s team/x --url %s", e2e.Sluice, dir, s.URL)
	for _, want := range []string{"2 copied (2 B)", "2 unchanged"} {
		if shown := onTerminal(t, put, ""); !strings.Contains(shown, want) {
			t.Errorf("%q does not show %q", shown, want)
		}
	}
	get := fmt.Sprintf("%s get team/x/a - --url %s", e2e.Sluice, s.URL)
	if shown := onTerminal(t, get, ""); shown != "a" {
		t.Errorf("a blob on the terminal is %q", shown)
	}
	rm := fmt.Sprintf("%s rm -r team/x --url %s", e2e.Sluice, s.URL)
	shown := onTerminal(t, rm+" || test $? = 1", "n\n")
	if !strings.Contains(shown, "Delete 2 blobs (2 B)? [y/N] ") || !strings.Contains(shown, "nothing was changed") || !slices.Equal(s.Names("team"), []string{"x/a", "x/b"}) {
		t.Errorf("%q, stored are %q", shown, s.Names("team"))
	}
	if shown := onTerminal(t, rm, "y\n"); !strings.Contains(shown, "2 deleted") || len(s.Names("team")) > 0 {
		t.Errorf("%q, stored are %q", shown, s.Names("team"))
	}
}

// TestBenchOnATerminal checks that a measurement shows how many operations there were so far, and
// their rate.
func TestBenchOnATerminal(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{})
	shown := onTerminal(t, fmt.Sprintf("stty cols 100 rows 24 && %s bench put --duration 2s --url %s", e2e.Sluice, s.URL), "")
	if !regexp.MustCompile(`put +\d+ +\d+/s`).MatchString(shown) || !strings.Contains(shown, "per second") {
		t.Errorf("shown is %q", shown)
	}
}

// TestMovesOnATerminal looks at the progress of moves while the server has answered some, on
// terminals of several widths: it counts blobs, because no bytes are sent, and shows where the
// names differ.
func TestMovesOnATerminal(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{})
	long := strings.Repeat("long-name/", 8)
	for i := range 12 {
		s.Must(204, "PUT", fmt.Sprintf("/v1/blobs/team/0/%s%02d", long, i), e2e.Content(uint64(i), 1000))
	}
	for i, columns := range []int{60, 80, 200} {
		p := e2e.NewCountingProxy(t, s)
		answered := p.After(3)
		release := sync.OnceFunc(p.Resume)
		t.Cleanup(release)
		shown, wait := startOnTerminal(t, fmt.Sprintf("stty cols %d rows 24 && %s mv -r team/%d team/%d --url %s", columns, e2e.Sluice, i, i+1, p.URL))
		<-answered
		total := regexp.MustCompile(`(?m)^Total +(\[=+ *\] +)?\d+% +[1-9]\d? of 12 `)
		name := regexp.MustCompile(`(?m)^\S+long-name/\d\d\r?$`)
		e2e.Await(t, "the progress is not shown", func() bool { return total.MatchString(lines(shown)) && name.MatchString(lines(shown)) })
		release()
		testenv.OK(t, wait())
		for line := range strings.SplitSeq(lines(shown), "\n") {
			if !strings.Contains(line, " -> ") && len(line) > columns || strings.Contains(line, "kB") {
				t.Errorf("%d columns: %q", columns, line)
			}
		}
		if !strings.HasSuffix(lines(shown), "\n12 moved\n") {
			t.Errorf("%d columns: the end is %q", columns, e2e.Tail(lines(shown)))
		}
	}
}

// TestResumeOnATerminal interrupts an upload, and looks at the progress of the next run on a wide
// terminal while the server has received no more: it begins with the parts that the server has.
func TestResumeOnATerminal(t *testing.T) {
	t.Parallel()
	const part, parts, columns = 256 << 10, 20, 200
	s := e2e.Start(t, e2e.Options{})
	p := e2e.NewCountingProxy(t, s)
	dir := e2e.MakeTree(t, map[string]string{"big": string(e2e.Content(5, part*parts))})
	line := []string{"put", filepath.Join(dir, "big"), "team/big", "--part-size", "256KiB", "--url", p.URL}
	if r := endAfter(p, t, parts/2, syscall.SIGINT, line...); r.Code != 130 {
		t.Fatalf("%+v", r)
	}
	stored := len(p.Acknowledged())
	answered := p.After(1) // which states the bytes that the server has
	release := sync.OnceFunc(p.Resume)
	t.Cleanup(release)
	shown, wait := startOnTerminal(t, fmt.Sprintf("stty cols %d rows 24 && %s %s", columns, e2e.Sluice, strings.Join(line, " ")))
	<-answered
	progress := regexp.MustCompile(`(?m)^.*big +\[=+ *\] +(\d+)% .*$`)
	e2e.Await(t, "the progress is not shown", func() bool { return progress.MatchString(lines(shown)) })
	release()
	testenv.OK(t, wait())
	for _, drawn := range progress.FindAllStringSubmatch(lines(shown), -1) {
		percent, err := strconv.Atoi(drawn[1])
		testenv.OK(t, err)
		if percent < 100*stored/parts || len(drawn[0]) != columns-1 {
			t.Errorf("%d of %d parts were stored, and the terminal has %d columns: %q", stored, parts, columns, drawn[0])
		}
	}
	s.Holds(e2e.BlobTarget("team", "big"), e2e.Content(5, part*parts))
}

var controlSequence = regexp.MustCompile("\x1b\\[[0-9]*[A-Za-z]|\r")

// lines returns the output with each drawing below the last one.
func lines(shown *e2e.LogBuffer) string { return controlSequence.ReplaceAllString(shown.String(), "") }
