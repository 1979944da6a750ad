package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"sluice/internal/contexts"
	"sluice/metastore"
)

func TestExitCodes(t *testing.T) {
	for _, test := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{errors.New("failed"), 1},
		{exitWith(exitUsage, errors.New("usage")), 2},
		{fmt.Errorf("a key: %w", metastore.ErrNotFound), 3},
		{fmt.Errorf("%w: prod", contexts.ErrUnknown), 3},
		{fmt.Errorf("wrapped: %w", exitWith(exitRefused, errors.New("refused"))), 4},
		{errors.Join(errors.New("one"), exitWith(exitPartly, errors.New("some"))), 5},
		{exitWith(exitInterrupted, errors.New("interrupted")), 130},
	} {
		if got := exitCode(test.err); got != test.want {
			t.Errorf("%v: exit code %d, want %d", test.err, got, test.want)
		}
	}
}

// TestExitCodesAreDocumented checks that docs/cli.md has the meanings of the exit codes.
func TestExitCodesAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range exitCodes {
		if line := fmt.Sprintf("\n| %d | %s |\n", c.code, c.meaning); !strings.Contains(string(text), line) {
			t.Errorf("docs/cli.md lacks the line %q", line)
		}
	}
}

// TestErrorsCannotControlTheTerminal checks that an error is one line of characters that are shown.
func TestErrorsCannotControlTheTerminal(t *testing.T) {
	var out strings.Builder
	if code := fail(&out, errors.New("no such blob: \x1b[2J\nsecond\r"), exitNotFound); code != exitNotFound || out.String() != `sluice: no such blob: \x1b[2J; second\r`+"\n" {
		t.Errorf("%d, %q", code, out.String())
	}
}

func TestInterruption(t *testing.T) {
	var i interruption
	failure := errors.New("failed")
	if err := i.explain(failure); !errors.Is(err, failure) || exitCode(err) != exitFailed {
		t.Errorf("without a context: %v", err)
	}
	if i.context().Err() != nil || exitCode(i.explain(failure)) != exitFailed {
		t.Errorf("before a signal: %v", i.explain(failure))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	i.ctx = ctx
	for _, err := range []error{fmt.Errorf("get: %w", context.Canceled), errors.New("run the same command again to resume")} {
		if got := i.explain(err); exitCode(got) != exitInterrupted {
			t.Errorf("%v after a signal: %v with exit code %d", err, got, exitCode(got))
		}
	}
	if err := i.explain(nil); err != nil {
		t.Errorf("a command that completed: %v", err)
	}
}
