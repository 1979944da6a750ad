package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// planter plants faults whose tests are in the same packages.
type planter struct {
	root     string
	packages []string
	spare    time.Duration // that tests may take in addition to a multiple of the time that they take without the fault
	limit    time.Duration // for tests without a fault

	temp      string
	sound     []binary            // the packages' tests without a fault
	broken    string              // why there is none
	baselines map[string]baseline // by pattern
}

// baseline is the tests' result without a fault.
type baseline struct {
	took   []time.Duration // by package
	broken string          // why they prove nothing; empty: all of them pass
}

// Variables of tests. The tests' needs, see package testenv, are required without a fault and not
// required with it. So if a server is missing, then the baseline fails, or the fault survives, but
// it does not look like a fault that was detected.
const (
	required    = "SLUICE_TEST_REQUIRE=all"
	notRequired = "SLUICE_TEST_REQUIRE="
	// A history that fails with a fault is not kept in the tree, where later tests would replay it.
	noFailFile = "RAPID_NOFAILFILE=true"
)

// open builds the packages' tests. The caller must close the planter, even after an error.
func (p *planter) open(ctx context.Context) (err error) {
	p.baselines = map[string]baseline{}
	if p.temp, err = tempDir(""); err != nil {
		return err
	}
	p.sound, p.broken, err = p.build(ctx, p.temp, "")
	return err
}

func (p *planter) close() error { return os.RemoveAll(p.temp) }

// plant runs the fault's tests on the tree with the fault in it.
func (p *planter) plant(ctx context.Context, f fault) (r result, err error) {
	before, err := p.baseline(ctx, f.pattern)
	if err != nil {
		return result{}, err
	}
	if before.broken != "" {
		return result{Verdict: unproven, Detail: before.broken}, nil
	}
	began := time.Now()
	defer func() { r.Seconds = time.Since(began).Round(time.Second / 10).Seconds() }()
	dir, err := os.MkdirTemp(p.temp, "fault-")
	if err != nil {
		return result{}, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	overlay, err := f.overlay(p.root, dir)
	if err != nil {
		return result{}, err
	}
	binaries, broken, err := p.buildFaulty(ctx, f, dir, overlay)
	if err != nil {
		return result{}, err
	}
	if broken != "" {
		return result{Verdict: notBuilt, Detail: broken}, nil
	}
	for i, b := range binaries {
		limit := p.spare + slower*before.took[i]
		out, err := b.exec(ctx, limit, []string{notRequired, noFailFile, goFlags(overlay)}, arguments(f.pattern)...)
		v, err := verdictOf(ctx, out, err)
		if err != nil || v != survived {
			return result{Verdict: v, Test: failedTest(string(out))}, err
		}
	}
	return result{Verdict: survived}, nil
}

// overlay writes the file with the fault in it into a folder, and the overlay that replaces the
// file in the tree by it. It returns the overlay's name.
func (f fault) overlay(root, dir string) (string, error) {
	file := filepath.Join(root, f.file)
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	faulty, err := f.apply(string(text))
	if err != nil {
		return "", err
	}
	return writeOverlay(dir, map[string][]byte{file: []byte(faulty)})
}

// buildFaulty builds the tests with a fault. It first compiles the faulty package by itself: where
// tests build a binary of their own, a package that does not compile would look like a fault that
// they detect. A file that is embedded, such as a migration, is compiled with the tests.
func (p *planter) buildFaulty(ctx context.Context, f fault, dir, overlay string) ([]binary, string, error) {
	if filepath.Ext(f.file) == ".go" {
		broken, err := p.goRun(ctx, overlay, "build", "-o", os.DevNull, "./"+filepath.Dir(f.file))
		if err != nil || broken != "" {
			return nil, broken, err
		}
	}
	return p.build(ctx, dir, overlay)
}

// build builds the packages' test binaries into a folder. If one cannot be built, it returns the
// reason.
func (p *planter) build(ctx context.Context, dir, overlay string) (binaries []binary, broken string, err error) {
	for i, pkg := range p.packages {
		b := binary{name: filepath.Join(dir, fmt.Sprintf("%d.test", i)), dir: filepath.Join(p.root, pkg)}
		broken, err := p.goRun(ctx, overlay, "test", "-c", "-o", b.name, pkg)
		if err != nil || broken != "" {
			return nil, broken, err
		}
		binaries = append(binaries, b)
	}
	return binaries, "", nil
}

// goRun runs the go command with an overlay. If the command fails, it returns the output.
func (p *planter) goRun(ctx context.Context, overlay string, args ...string) (failure string, err error) {
	c := exec.CommandContext(ctx, "go", args...)
	c.Dir = p.root
	c.Env = append(c.Environ(), goFlags(overlay))
	out, err := c.CombinedOutput()
	if failed := (*exec.ExitError)(nil); errors.As(err, &failed) && ctx.Err() == nil {
		return fmt.Sprintf("go %s: %s", args[0], tail(out)), nil
	}
	return "", err
}

// goFlags returns the variable with the go command's flags. The overlay is in the environment, so
// that it also applies to the binaries that tests build. A binary without debugging information
// takes less time to link.
func goFlags(overlay string) string {
	flags := "GOFLAGS=" + os.Getenv("GOFLAGS") + " -ldflags=-w"
	if overlay != "" {
		flags += " -overlay=" + overlay
	}
	return flags
}

// arguments returns a test binary's arguments for the tests that match a pattern.
func arguments(pattern string) []string {
	args := []string{"-test.v", "-test.failfast"}
	if pattern != "" {
		args = append(args, "-test.run="+pattern)
	}
	return args
}

// baseline returns the result without a fault for the tests that match a pattern.
func (p *planter) baseline(ctx context.Context, pattern string) (baseline, error) {
	if p.broken != "" {
		return baseline{broken: p.broken}, nil
	}
	known, ok := p.baselines[pattern]
	if ok {
		return known, nil
	}
	var b baseline
	for i, tests := range p.sound {
		began := time.Now()
		out, err := tests.exec(ctx, p.limit, []string{required, noFailFile, goFlags("")}, arguments(pattern)...)
		v, err := verdictOf(ctx, out, err)
		if err != nil {
			return baseline{}, err
		}
		b.took = append(b.took, time.Since(began))
		switch {
		case v != survived:
			b.broken = fmt.Sprintf("%s is %s without the fault: %s", failedTest(string(out)), v, tail(out))
		case !passed(string(out), pattern):
			b.broken = fmt.Sprintf("no test of %s matches %s", p.packages[i], pattern)
		}
	}
	p.baselines[pattern] = b
	return b, nil
}

// passed reports whether a test passed that is as deep as the pattern: without its subtests a test
// may prove nothing.
func passed(out, pattern string) bool {
	depth := strings.Count(pattern, "/")
	for alternative := range strings.SplitSeq(pattern, "|") {
		depth = min(depth, strings.Count(alternative, "/"))
	}
	for line := range strings.SplitSeq(out, "\n") {
		name, ok := strings.CutPrefix(strings.TrimSpace(line), "--- PASS: ")
		if name, _, _ = strings.Cut(name, " "); ok && strings.Count(name, "/") >= depth {
			return true
		}
	}
	return false
}

// failedTest returns the name of the first test that failed, with its subtests as far as they
// failed, or of the test that did not end.
func failedTest(out string) string {
	name := ""
	for line := range strings.SplitSeq(out, "\n") {
		rest, ok := strings.CutPrefix(strings.TrimSpace(line), "--- FAIL: ")
		rest, _, _ = strings.Cut(rest, " ")
		if ok && (name == "" || strings.HasPrefix(rest, name+"/")) {
			name = rest
		}
	}
	if _, running, ok := strings.Cut(out, "running tests:\n"); ok && name == "" {
		name, _, _ = strings.Cut(strings.TrimSpace(running), " ")
	}
	if name == "" {
		return "a process that ended early"
	}
	return name
}

// tail returns a command's last output, without the tests that passed.
func tail(out []byte) string {
	var kept []string
	for line := range strings.SplitSeq(string(out), "\n") {
		if text := strings.TrimSpace(line); text != "" && !strings.HasPrefix(text, "--- PASS") && !strings.HasPrefix(text, "=== ") {
			kept = append(kept, line)
		}
	}
	text := strings.Join(kept, "\n")
	return text[max(0, len(text)-1000):]
}
