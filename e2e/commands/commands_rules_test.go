package commands

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"sluice/e2e"
	"sluice/test/testenv"
)

// TestRules sets rules from a file after it has shown what they remove, and sees their run. A name
// restores what a rule has removed, and a prefix only as of a time.
// Invariant 214.
func TestRules(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{})
	dir := e2e.MakeTree(t, map[string]string{"logs/a": "log a", "logs/b": "log b", "kept": "kept"})
	rules := filepath.Join(e2e.MakeTree(t, map[string]string{"rules.json": `[{"id":"logs","prefix":"logs/","expireOn":"2026-01-01T00:00:00Z"},{"id":"off","disabled":true,"tags":{"k":"v"},"below":1024,"dropBeyond":3}]`}), "rules.json")
	run := func(code int, args ...string) e2e.Result {
		t.Helper()
		r := s.Sluice(args...)
		if r.Code != code {
			t.Fatalf("%q: %+v, want exit code %d", args, r, code)
		}
		return r
	}
	run(0, "bucket", "versions", "team", "on")
	run(0, "put", "-q", "-r", dir, "team/")
	const text = "RULE  BLOBS                         EFFECT                                  REMOVES\n" +
		"logs  logs/*                        expire on 2026-01-01                    2 blobs, 10 B\n" +
		"off   tags [k:v], below 1.0 KiB     disabled, drop versions beyond 3        nothing\n"
	squeezed := func(s string) string { return regexp.MustCompile(` +`).ReplaceAllString(s, " ") }
	testenv.Equal(t, squeezed(run(0, "bucket", "rules", "team", rules, "--preview").Stdout), squeezed(text), "the preview")
	if r := run(2, "bucket", "rules", "team", rules); !strings.Contains(r.Stderr, "use --yes") || !strings.HasPrefix(squeezed(r.Stderr), squeezed(text)) {
		t.Errorf("without a terminal: %+v", r)
	}
	if r := run(0, "bucket", "rules", "team"); r.Stdout != "" || r.Stderr != "the account team has no rules\n" {
		t.Errorf("before: %+v", r)
	}
	run(0, "bucket", "rules", "team", rules, "--yes")
	s.Eventually("the rules are not applied", func() bool { return len(s.Names("team")) == 1 })
	s.Eventually("the run is not shown", func() bool { return squeezed(run(0, "bucket", "rules", "team").Stdout) == squeezed(text) })
	if r := run(3, "undelete", "team/logs/"); !strings.Contains(r.Stderr, "nothing to restore below team/logs/") {
		t.Errorf("a prefix without other deletions: %+v", r)
	}
	run(0, "undelete", "team/logs/a")
	lines := strings.Split(strings.TrimSpace(run(0, "ls", "--versions", "--json", "team/logs/b").Stdout), "\n")
	var stored versionLine
	testenv.OK(t, json.Unmarshal([]byte(lines[len(lines)-1]), &stored))
	if r := run(0, "ls", "-l", "--versions", "team/logs/b"); !strings.Contains(r.Stdout, "rule:logs") {
		t.Errorf("the mark: %+v", r)
	}
	run(0, "undelete", "team/logs/", "--at", stored.Modified.Format(time.RFC3339Nano))
	s.ListsOnly("team", "kept", "logs/a", "logs/b")
	if r := run(0, "bucket", "rules"); !regexp.MustCompile(`(?s)^ACCOUNT .*\nteam +2 +20\S+ +20\S+\n$`).MatchString(r.Stdout) {
		t.Errorf("the accounts: %+v", r)
	}
	testenv.OK(t, os.WriteFile(rules, []byte(run(0, "bucket", "rules", "team", "--json").Stdout), 0o600))
	run(0, "bucket", "rules", "team", rules, "--yes")
	testenv.OK(t, os.WriteFile(rules, []byte("[]"), 0o600))
	if r := run(0, "bucket", "rules", "team", rules, "--yes"); r.Stdout != "" {
		t.Errorf("removed: %+v", r)
	}
}
