package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sluice/cmd/sluice/internal/cli"
	"sluice/cmd/sluice/internal/contexts"
	"sluice/database"
	"sluice/test/testenv"
)

func TestExitCodes(t *testing.T) {
	for _, test := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{errors.New("failed"), 1},
		{cli.ExitWith(cli.ExitUsage, errors.New("usage")), 2},
		{fmt.Errorf("a key: %w", database.ErrNotFound), 3},
		{fmt.Errorf("%w: prod", contexts.ErrUnknown), 3},
		{fmt.Errorf("wrapped: %w", cli.ExitWith(cli.ExitRefused, errors.New("refused"))), 4},
		{errors.Join(errors.New("one"), cli.ExitWith(cli.ExitPartly, errors.New("some"))), 5},
		{cli.ExitWith(cli.ExitInterrupted, errors.New("interrupted")), 130},
	} {
		testenv.Equal(t, cli.ExitCode(test.err), test.want, "exit code of the error %v", test.err)
	}
}

// TestExitCodesAreDocumented checks that docs/cli.md has the exit codes' meanings.
func TestExitCodesAreDocumented(t *testing.T) {
	text := testenv.Must(os.ReadFile("../../docs/cli.md"))(t)
	for _, c := range cli.ExitCodes {
		if line := fmt.Sprintf("\n| %d | %s |\n", c.Code, c.Meaning); !strings.Contains(string(text), line) {
			t.Errorf("docs/cli.md lacks the line %q", line)
		}
	}
}

// TestErrorsCannotControlTheTerminal checks that an error is one line of characters that are shown.
func TestErrorsCannotControlTheTerminal(t *testing.T) {
	var out strings.Builder
	if code := (messages{stderr: &out}).fail(errors.New("no such blob: \x1b[2J\nsecond\r"), cli.ExitNotFound); code != cli.ExitNotFound || out.String() != `sluice: no such blob: \x1b[2J; second\r`+"\n" {
		t.Errorf("%d, %q", code, out.String())
	}
}

// TestFailedStartsAreLogged checks that serve's output when it does not start has the log's format,
// and that other commands' output has not.
func TestFailedStartsAreLogged(t *testing.T) {
	file := filepath.Join(testenv.MemoryDir(t), "file")
	testenv.OK(t, os.WriteFile(file, nil, 0o600))
	for _, test := range []struct {
		args string
		code int
		json bool
	}{
		{"serve --addr localhost:0 --log-format json --data " + file, cli.ExitFailed, true},
		{"serve --log-format json --drain-deadline 0s", cli.ExitUsage, true},
		{"serve --log-format=json --no-such-flag", cli.ExitUsage, false}, // the flags are not known
		{"serve --addr localhost:0 --data " + file, cli.ExitFailed, false},
		{"ls --no-such-flag", cli.ExitUsage, false},
	} {
		t.Run(test.args, func(t *testing.T) {
			t.Setenv("SLUICE_NO_SUCH_SETTING", "1") // a warning
			r := sluice(strings.Fields(test.args)...)
			testenv.Equal(t, r.code, test.code, "exit code")
			var levels []string
			for line := range strings.Lines(r.stderr) {
				if !test.json {
					if !strings.HasPrefix(line, "sluice: ") {
						t.Errorf("the line %q", line)
					}
					continue
				}
				var record struct{ Time, Level, Msg string }
				if err := json.Unmarshal([]byte(line), &record); err != nil || record.Time == "" || record.Msg == "" {
					t.Errorf("the line %q: %v", line, err)
				}
				levels = append(levels, record.Level)
			}
			if test.json && !slices.Equal(levels, []string{"WARN", "ERROR"}) {
				t.Errorf("lines of the levels %q:\n%s", levels, r.stderr)
			}
		})
	}
}

func TestInterruption(t *testing.T) {
	var i interruption
	failure := errors.New("failed")
	if err := i.explain(failure); !errors.Is(err, failure) || cli.ExitCode(err) != cli.ExitFailed {
		t.Errorf("without a context: %v", err)
	}
	if i.context().Err() != nil || cli.ExitCode(i.explain(failure)) != cli.ExitFailed {
		t.Errorf("before a signal: %v", i.explain(failure))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	i.ctx = ctx
	for _, err := range []error{fmt.Errorf("get: %w", context.Canceled), errors.New("run the same command again to resume")} {
		if got := i.explain(err); cli.ExitCode(got) != cli.ExitInterrupted {
			t.Errorf("%v after a signal: %v with exit code %d", err, got, cli.ExitCode(got))
		}
	}
	if err := i.explain(nil); err != nil {
		t.Errorf("a command that completed: %v", err)
	}
}

// TestErrorsSayNothingTwice checks the line for an error of several lines, as the driver of
// PostgreSQL returns it.
func TestErrorsSayNothingTwice(t *testing.T) {
	const dial = "127.0.0.1:5432 (localhost): dial error: connection refused"
	err := errors.New("failed to connect:\n\t" + dial + "\n\t" + dial + "\n\t[::1]:5432 (localhost): dial error\n\nclient: " + dial)
	testenv.Equal(t, cli.LineOf(err), "failed to connect: "+dial+"; [::1]:5432 (localhost): dial error", "the line")
}
