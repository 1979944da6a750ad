package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/cmd/sluice/internal/cli"
	"sluice/test/testenv"
)

// TestShareCommand makes links with each source for the secret.
func TestShareCommand(t *testing.T) {
	ownContexts(t)
	const id, secret = "abcdefghijklmnop", "the-secret"
	file := filepath.Join(testenv.MemoryDir(t), "team.s3")
	testenv.OK(t, os.WriteFile(file, []byte("sluice_"+id+"_x\n"+"AWS_ACCESS_KEY_ID"+"="+id+"\n"+"AWS_SECRET_ACCESS_KEY"+"="+secret+"\n"), 0o600))
	in := func(args ...string) []string {
		return append([]string{"share", "--url", "https://h.example/sluice"}, args...)
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "")
	if r := sluice(in("team/a")...); r.code != cli.ExitUsage || !strings.Contains(r.stderr, "AWS_SECRET_ACCESS_KEY") {
		t.Errorf("without a secret: %d, %q", r.code, r.stderr)
	}
	one := must(t, in("team/a b", "--secret-file", file, "--for", "1h")...)
	if !strings.HasPrefix(one.stdout, "https://h.example/sluice/v1/blobs/team/a%20b?sluice-link=1.read.0."+id+".") || strings.Count(one.stdout, "\n") != 1 || !strings.HasPrefix(one.stderr, "GET reads the blob, until ") {
		t.Errorf("printed is %q, and beside it %q", one.stdout, one.stderr)
	}
	t.Setenv("AWS_ACCESS_KEY_ID", id)
	t.Setenv("AWS_SECRET_ACCESS_KEY", secret)
	below := must(t, in("team/a/")...)
	if !strings.Contains(below.stdout, "/team/a/?sluice-link=1.read.2.") || !strings.Contains(below.stderr, "/v1/blobs/team?prefix=a%2F&sluice-link=1.read.2.") {
		t.Errorf("printed is %q, and beside it %q", below.stdout, below.stderr)
	}
	create := must(t, in("--write", "team/new", "-q")...)
	if !strings.Contains(create.stdout, "=1.create.0.") || create.stderr != "" {
		t.Errorf("printed is %q, and beside it %q", create.stdout, create.stderr)
	}
	var printed struct {
		Expires time.Time
		List    string
	}
	testenv.OK(t, json.Unmarshal([]byte(must(t, in("--json", "team/a/")...).stdout), &printed))
	if left := time.Until(printed.Expires); left > 7*24*time.Hour || left < 7*24*time.Hour-time.Minute || printed.List == "" {
		t.Errorf("printed is %+v", printed)
	}
	testenv.OK(t, os.WriteFile(file, []byte("AWS_ACCESS_KEY_ID"+"="+id+"\n"), 0o600))
	for want, args := range map[string][]string{
		"whole account":            {"team"},
		"single blob":              {"--write", "team/a/"},
		"1s to 7d":                 {"--for", "8d", "team/a"},
		"does not have the lines ": {"--secret-file", file, "team/a"},
	} {
		if r := sluice(in(args...)...); r.code != cli.ExitUsage || !strings.Contains(r.stderr, want) || r.stdout != "" {
			t.Errorf("%q: %d, %q, %q", args, r.code, r.stdout, r.stderr)
		}
	}
}
