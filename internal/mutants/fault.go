package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// fault is a mistake that a programmer could make in one place.
type fault struct {
	name     string
	file     string   // relative to the root
	tests    []string // arguments of go test, packages included
	old, new string   // whole lines
	survives string   // why no test can detect it; empty: one must
}

// readFaults reads the list.
func readFaults(root string) ([]fault, error) {
	text, err := os.ReadFile(filepath.Join(root, "internal", "mutants", "faults.txt"))
	if err != nil {
		return nil, err
	}
	return parseFaults(string(text))
}

// parseFaults parses faults that are separated by empty lines. Lines that begin with "//" are
// comments. A fault begins with its name, and has lines of the forms "file: PATH", "tests:
// ARGUMENTS of go test" and, if no test can detect it, "survives: REASON"; then the lines that it
// replaces, each after "-", and the new lines, each after "+".
func parseFaults(text string) ([]fault, error) {
	var faults []fault
	for _, block := range strings.Split(text, "\n\n") {
		f, err := parseFault(block)
		if err != nil {
			return nil, fmt.Errorf("faults.txt: %w in\n%s", err, block)
		}
		if f.name != "" {
			faults = append(faults, f)
		}
	}
	return faults, nil
}

func parseFault(block string) (fault, error) {
	var f fault
	for line := range strings.SplitSeq(block, "\n") {
		key, value, _ := strings.Cut(line, ": ")
		switch {
		case line == "" || strings.HasPrefix(line, "//"):
		case line[0] == '-':
			f.old += line[1:] + "\n"
		case line[0] == '+':
			f.new += line[1:] + "\n"
		case f.name == "":
			f.name = line
		case key == "file":
			f.file = value
		case key == "tests":
			f.tests = strings.Fields(value)
		case key == "survives":
			f.survives = value
		default:
			return f, fmt.Errorf("the line %q is not of a known form", line)
		}
	}
	if f.name != "" && (f.file == "" || len(f.tests) == 0 || f.old == "") {
		return f, errors.New("a file, tests or the lines to replace are missing")
	}
	return f, nil
}

// apply returns the file's text with the fault in it. The text must contain the lines to replace
// exactly once.
func (f fault) apply(text string) (string, error) {
	// With a line break before the text the first line is found like the others.
	text, old := "\n"+text, "\n"+f.old
	at := strings.Index(text, old)
	if at < 0 || strings.Contains(text[at+1:], old) {
		return "", fmt.Errorf("%s: %s does not contain the lines to replace exactly once", f.name, f.file)
	}
	return (text[:at] + "\n" + f.new + text[at+len(old):])[1:], nil
}

// planter runs tests on faults.
type planter struct {
	root  string
	limit time.Duration
	out   io.Writer
}

// plant runs the fault's tests on the tree with the fault in it, and reports whether they failed.
// It returns an error if the fault does not compile.
func (p planter) plant(ctx context.Context, f fault) (detected bool, err error) {
	overlay, remove, err := p.overlay(f)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	if out, err := p.goCommand(ctx, overlay, "build", "./"+filepath.Dir(f.file)).CombinedOutput(); err != nil {
		return false, fmt.Errorf("the fault does not compile: %w\n%s", err, out)
	}
	began := time.Now()
	args := append([]string{"test", "-count=1", "-failfast", "-vet=off", "-timeout=" + p.limit.String()}, f.tests...)
	out, err := p.goCommand(ctx, overlay, args...).CombinedOutput()
	var failed *exec.ExitError
	if err != nil && (!errors.As(err, &failed) || ctx.Err() != nil || strings.Contains(string(out), "[build failed]")) {
		return false, fmt.Errorf("%w\n%s", err, out)
	}
	verdict := "survives"
	if err != nil {
		verdict = "detected by " + failedTests(string(out))
	}
	_, perr := fmt.Fprintf(p.out, "%s: %s (%s)\n", f.name, verdict, time.Since(began).Round(time.Second))
	return err != nil, perr
}

// overlay writes the file with the fault in it, and the overlay that replaces the file in the tree
// by it.
func (p planter) overlay(f fault) (name string, remove func() error, err error) {
	file := filepath.Join(p.root, f.file)
	text, err := os.ReadFile(file)
	if err != nil {
		return "", nil, err
	}
	faulty, err := f.apply(string(text))
	if err != nil {
		return "", nil, err
	}
	dir, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return "", nil, err
	}
	remove = func() error { return os.RemoveAll(dir) }
	name, err = writeOverlay(dir, map[string][]byte{file: []byte(faulty)})
	if err != nil {
		return "", nil, errors.Join(err, remove())
	}
	return name, remove, nil
}

// goCommand returns a go command with an overlay. The overlay is in the environment, so that it
// also applies to the binaries that tests build.
func (p planter) goCommand(ctx context.Context, overlay string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, "go", args...)
	c.Dir = p.root
	c.Env = append(c.Environ(), "GOFLAGS="+os.Getenv("GOFLAGS")+" -overlay="+overlay)
	return c
}

// failedTests returns the failed tests' names. There is none if a test did not end.
func failedTests(out string) string {
	var names []string
	for line := range strings.SplitSeq(out, "\n") {
		if rest, ok := strings.CutPrefix(line, "--- FAIL: "); ok {
			name, _, _ := strings.Cut(rest, " ")
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return "a test that did not end"
	}
	return strings.Join(names, ", ")
}
