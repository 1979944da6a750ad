package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sluice/cmd/sluice/internal/cli"
	"sluice/test/testenv"
)

var s3Lines = regexp.MustCompile(`^(?:sluice_[a-z2-7]{16}_[a-z2-7]+\n)?AWS_ACCESS_KEY_ID=([a-z2-7]{16})\nAWS_SECRET_ACCESS_KEY=([a-z2-7]{40})\n$`)

// masterFile returns a new file with master keys, each with one byte 32 times.
func masterFile(t *testing.T, masters ...string) string {
	t.Helper()
	name := filepath.Join(testenv.MemoryDir(t), "s3.key")
	var text strings.Builder
	for _, m := range masters {
		text.WriteString(strings.Repeat(m, 32) + "\n")
	}
	testenv.OK(t, os.WriteFile(name, []byte(text.String()), 0o600))
	return name
}

// TestKeysHaveS3Secrets creates, shows, replaces, seals again and removes S3 secrets. Each is shown
// once, and the data folder has none.
// Invariant 36.
func TestKeysHaveS3Secrets(t *testing.T) {
	data := filepath.Join(testenv.MemoryDir(t), "data")
	file := masterFile(t, "01")
	in := func(command string, args ...string) []string { return keyCommandOn(data, command, args...) }
	created := must(t, in("create", "--scopes", "read", "--all-accounts", "--s3", "--s3-secret-key-file", file)...)
	found := s3Lines.FindStringSubmatch(created.stdout)
	if found == nil || strings.Contains(created.stderr, found[2]) {
		t.Fatalf("printed is %q, and beside it %q", created.stdout, created.stderr)
	}
	id, first := found[1], found[2]
	if key := shown(t, must(t, in("show", "--json", id)...))[0]; !key.S3 || key.S3Secret != "" || key.Secret != "" {
		t.Errorf("shown is %+v", key)
	}
	if text := must(t, in("show", id)...).stdout; !strings.Contains(text, "has a secret") {
		t.Errorf("shown is %s", text)
	}
	updated := must(t, in("update", id, "--s3", "--s3-secret-key-file", file, "--label", "x")...)
	found = s3Lines.FindStringSubmatch(updated.stdout)
	if found == nil || found[1] != id || found[2] == first {
		t.Fatalf("printed is %q", updated.stdout)
	}
	second := found[2]
	asJSON := shown(t, must(t, in("update", "--json", id, "--s3", "--s3-secret-key-file", file)...))[0]
	if len(asJSON.S3Secret) != 40 || asJSON.Label != "x" || asJSON.Secret != "" {
		t.Errorf("printed is %+v", asJSON)
	}
	resealed := must(t, in("reseal", "--s3-secret-key-file", masterFile(t, "02", "01"))...)
	again := must(t, in("reseal", "--json", "--s3-secret-key-file", masterFile(t, "02", "01"))...)
	if resealed.stdout != "sealed again  1\n" || again.stdout != "{\"sealed\":0}\n" || resealed.stderr+again.stderr != "" {
		t.Errorf("printed is %+v, and then %+v", resealed, again)
	}
	r := sluice(in("reseal", "--s3-secret-key-file", file)...)
	if r.code != cli.ExitFailed || !strings.Contains(r.stderr, id) {
		t.Errorf("sealed again without the key that has sealed it: %d, %q", r.code, r.stderr)
	}
	testenv.OK(t, filepath.WalkDir(data, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		for _, secret := range []string{first, second, asJSON.S3Secret} {
			if bytes.Contains(text, []byte(secret)) {
				t.Errorf("%s has an S3 secret", path)
			}
		}
		return err
	}))
	must(t, in("update", id, "--no-s3")...)
	if key := shown(t, must(t, in("show", "--json", id)...))[0]; key.S3 {
		t.Errorf("shown is %+v", key)
	}
}

// TestS3SecretsNeedTheirFile: without a file that only its owner may access, no key is created.
func TestS3SecretsNeedTheirFile(t *testing.T) {
	data := filepath.Join(testenv.MemoryDir(t), "data")
	open := masterFile(t, "ab") // names of folders have no such digits
	testenv.OK(t, os.Chmod(open, 0o644))
	short := filepath.Join(filepath.Dir(open), "short")
	testenv.OK(t, os.WriteFile(short, []byte("abab\n"), 0o600))
	for want, args := range map[string][]string{
		"openssl rand -hex 32": nil,
		"chmod 600":            {"--s3-secret-key-file", open},
		"64 hexadecimal":       {"--s3-secret-key-file", short},
		"no such file":         {"--s3-secret-key-file", filepath.Join(filepath.Dir(open), "none")},
	} {
		r := sluice(keyCommandOn(data, "create", append([]string{"--scopes", "read", "--all-accounts", "--s3"}, args...)...)...)
		if r.code != cli.ExitUsage || !strings.Contains(r.stderr, want) || strings.Contains(r.stderr, "abab") {
			t.Errorf("%q: exit code %d, %q, want %q", args, r.code, r.stderr, want)
		}
	}
	if _, err := os.Stat(data); err == nil {
		t.Error("an instance was created")
	}
}
