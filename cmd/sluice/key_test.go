package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"sluice/cmd/sluice/internal/cli"
	"sluice/internal/datadir"
	"sluice/storage"
	"sluice/test/testenv"
	"sluice/wire"
)

// ran is a command's outcome.
type ran struct {
	code           int
	stdout, stderr string
}

// sluice runs a command in this process.
func sluice(args ...string) ran {
	var stdout, stderr strings.Builder
	code := run(args, &stdout, &stderr)
	return ran{code, stdout.String(), stderr.String()}
}

// must runs a command that must succeed.
func must(t *testing.T, args ...string) ran {
	t.Helper()
	r := sluice(args...)
	if r.code != 0 {
		t.Fatalf("%q: exit code %d: %s", args, r.code, r.stderr)
	}
	return r
}

// keyCommandOn returns a key command's arguments with a data folder.
func keyCommandOn(data, command string, args ...string) []string {
	return append([]string{"key", command, "--data", data}, args...)
}

// shown parses lines of JSON.
func shown(t *testing.T, r ran) (keys []wire.IssuedKey) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(r.stdout))
	for d.More() {
		var k wire.IssuedKey
		if err := d.Decode(&k); err != nil {
			t.Fatalf("%v in %q", err, r.stdout)
		}
		keys = append(keys, k)
	}
	return keys
}

var credentialLine = regexp.MustCompile(`^sluice_([a-z2-7]{16})_[a-z2-7]+\n$`)

// makeKey creates a key and returns its credential and its id.
func makeKey(t *testing.T, data string, args ...string) (credential, id string) {
	t.Helper()
	r := must(t, keyCommandOn(data, "create", args...)...)
	found := credentialLine.FindStringSubmatch(r.stdout)
	if found == nil {
		t.Fatalf("standard output is %q, want the secret alone", r.stdout)
	}
	if strings.Contains(r.stderr, strings.TrimSpace(r.stdout)) || !strings.Contains(r.stderr, found[1]) {
		t.Errorf("standard error is %q, want the id and not the secret", r.stderr)
	}
	return strings.TrimSpace(r.stdout), found[1]
}

// opened opens a data folder as a node does, until the test ends.
func opened(t *testing.T, data string) *storage.Stores {
	t.Helper()
	s := testenv.Must(storage.Open(t.Context(), storage.Location{Data: data}, storage.Options{}))(t)
	testenv.AtEnd(t, s.Close)
	return s
}

// TestKeyIsCreatedShownAndRevoked creates, shows and revokes a key.
func TestKeyIsCreatedShownAndRevoked(t *testing.T) {
	data := filepath.Join(testenv.MemoryDir(t), "data")
	before := time.Now()
	credential, id := makeKey(t, data, "--scopes", "write,read", "--accounts", "0xAB,bob,ab", "--group", "team", "--label", `the "first" one`, "--expires", "720h",
		"--requests-per-second", "7", "--bytes-in-per-second", "unlimited", "--stored-bytes", "5GiB", "--stored-objects", "8", "--channels", "9")
	want := wire.IssuedKey{Key: wire.Key{
		ID: id, State: "active", Group: "team", Label: `the "first" one`,
		Grants: []wire.Grant{{Scopes: []string{"read", "write"}, Accounts: []string{"0x00000000000000000000000000000000000000000000000000000000000000ab", "ab", "bob"}}},
		Limits: map[string]int64{"requestsPerSecond": 7, "bytesInPerSecond": -1, "storedBytes": 5 << 30, "storedObjects": 8, "channels": 9},
	}}
	show := func(command, id string) wire.IssuedKey {
		t.Helper()
		keys := shown(t, must(t, keyCommandOn(data, command, "--json", id)...))
		if len(keys) != 1 {
			t.Fatalf("%d keys, want one", len(keys))
		}
		return keys[0]
	}
	got := show("show", id)
	if life := got.Expires.Sub(before); life < 720*time.Hour-time.Second || life > 721*time.Hour || got.Created.IsZero() {
		t.Errorf("created %v, expires %v, want 720h", got.Created, got.Expires)
	}
	want.Created, want.Expires, want.ETag = got.Created, got.Expires, got.ETag
	if !reflect.DeepEqual(got, want) {
		t.Errorf("shown is %+v, want %+v", got, want)
	}
	// The credential is accepted as well as the id: a script may have nothing else.
	revoked := show("revoke", credential)
	if revoked.State != "revoked" || revoked.Revoked.IsZero() || revoked.Secret != "" {
		t.Errorf("revoked is %+v", revoked)
	}
	if again := show("revoke", id); !reflect.DeepEqual(again, revoked) {
		t.Errorf("revoked again is %+v, want %+v", again, revoked)
	}
}

// TestGrants describes a key by its grants: it creates everywhere in two accounts and deletes locks
// only. The printed grants describe the same key.
func TestGrants(t *testing.T) {
	data := filepath.Join(testenv.MemoryDir(t), "data")
	limited := shown(t, must(t, keyCommandOn(data, "create", "--scopes", "read", "--accounts", "bob", "--prefix", "a b/", "--json")...))[0]
	want := []wire.Grant{{Scopes: []string{"read"}, Accounts: []string{"bob"}, Prefix: "a b/"}}
	same := func(key wire.IssuedKey) {
		t.Helper()
		if !reflect.DeepEqual(key.Grants, want) {
			t.Errorf("its grants are %+v, want %+v", key.Grants, want)
		}
	}
	same(limited)
	update := func(args ...string) wire.IssuedKey {
		t.Helper()
		return shown(t, must(t, keyCommandOn(data, "update", append(args, "--json", limited.ID)...)...))[0]
	}
	want[0].Prefix = ""
	same(update("--prefix="))
	want[0].Prefix = "c"
	same(update("--prefix", "c"))
	want = []wire.Grant{
		{Scopes: []string{"read", "create"}, Accounts: []string{"bob", "eve"}},
		{Scopes: []string{"write"}, Accounts: []string{"bob", "eve"}, Prefix: "locks/x@y, z/"}, {Scopes: []string{"admin"}},
	}
	flags := []string{"--grant", "create,read@eve", "--grant", "write@eve/locks/x@y, z/", "--grant", "read,create@bob", "--grant", "write@bob/locks/x@y, z/", "--grant", "admin@*"}
	updated := update(flags...)
	same(updated)
	printed := must(t, keyCommandOn(data, "show", limited.ID)...).stdout
	var again []string
	for line := range strings.Lines(printed) {
		if text, ok := strings.CutPrefix(line, "grant"); ok {
			again = append(again, "--grant", testenv.Must(strconv.Unquote(strings.TrimSpace(text)))(t))
		}
	}
	same(shown(t, must(t, keyCommandOn(data, "create", append(again, "--json")...)...))[0])
	if r := sluice(keyCommandOn(data, "update", "--prefix", "x", limited.ID)...); r.code == 0 || !strings.Contains(r.stderr, "it has 3 grants") {
		t.Errorf("a prefix for a key with several grants: %+v", r)
	}
	if list := must(t, keyCommandOn(data, "list")...).stdout; !strings.Contains(list, "several grants") {
		t.Errorf("listed are %s", list)
	}
}

func TestListOfKeys(t *testing.T) {
	data := filepath.Join(testenv.MemoryDir(t), "data")
	if r := must(t, keyCommandOn(data, "create", "--scopes", "read", "--all-accounts", "--label", "everywhere")...); r.stderr == "" {
		t.Error("create prints nothing about the key")
	}
	_, id := makeKey(t, data, "--scopes", "write", "--accounts", "bob,eve")
	must(t, keyCommandOn(data, "revoke", id)...)
	keys := shown(t, must(t, keyCommandOn(data, "list", "--json")...))
	if len(keys) != 2 || keys[0].ID >= keys[1].ID {
		t.Fatalf("listed are %+v", keys)
	}
	lines := strings.Split(must(t, keyCommandOn(data, "list")...).stdout, "\n")
	if len(lines) != 4 || !strings.HasPrefix(lines[0], "ID ") || lines[3] != "" {
		t.Fatalf("the table is %q", lines)
	}
	for i, key := range keys {
		line, words := lines[1+i], []string{key.ID, "active", "read", "all", `"everywhere"`}
		if key.ID == id {
			words = []string{key.ID, "revoked", "write", " 2 ", `""`}
		}
		for _, word := range words {
			if !strings.Contains(line, word) {
				t.Errorf("the line %q lacks %q", line, word)
			}
		}
	}
}

// TestKeyCommandCreatesNoDatabaseWhileAServerRuns checks that no database is created while a
// node is starting, which creates its own.
func TestKeyCommandCreatesNoDatabaseWhileAServerRuns(t *testing.T) {
	t.Parallel() // it waits for the lock
	data := testenv.MemoryDir(t)
	dir := testenv.Must(datadir.Open(data))(t)
	testenv.AtEnd(t, dir.Close)
	if r := sluice(keyCommandOn(data, "create", "--scopes", "read", "--all-accounts")...); r.code != 1 || r.stdout != "" {
		t.Errorf("exit code %d, %q, want 1 and nothing", r.code, r.stdout)
	}
	if _, err := os.Stat(filepath.Join(data, datadir.Database)); err == nil {
		t.Error("a database was created")
	}
}

func TestKeyRefusals(t *testing.T) {
	data := filepath.Join(testenv.MemoryDir(t), "data")
	for _, args := range [][]string{{"list"}, {"show", "id"}, {"revoke", "id"}} {
		r := sluice(keyCommandOn(data, args[0], args[1:]...)...)
		if r.code != cli.ExitNotFound || !strings.Contains(r.stderr, "--data") {
			t.Errorf("%q without data: exit code %d, %s", args, r.code, r.stderr)
		}
	}
	if _, err := os.Stat(data); err == nil {
		t.Error("a command that only reads created a data folder")
	}
	makeKey(t, data, "--scopes", "read", "--all-accounts", "--group", "team", "--open-uploads", "3")
	valid := []string{"--scopes", "read", "--all-accounts"}
	for want, args := range map[string][]string{
		"--scopes":                    {"--all-accounts"},
		"owner":                       {"--scopes", "read,owner", "--all-accounts"},
		"--all-accounts: exactly":     {"--scopes", "read", "--all-accounts", "--accounts", "bob"},
		"--accounts: ":                {"--scopes", "read", "--accounts", "bob,a/b"},
		"--prefix: ":                  {"--scopes", "read,channels", "--all-accounts", "--prefix", "a/"},
		"--grant: set it without":     {"--scopes", "read", "--grant", "read@bob"},
		"--grant: \"read\" must be":   {"--grant", "read"},
		"--grant: the account":        {"--grant", "read@"},
		"--grant: the key is invalid": {"--grant", "owner@bob"},
		"must be in lower case":       {"--grant", "read@Bob/x"},
		"Z is in the past":            append(valid, "--expires", "2001-01-01T00:00:00Z"),
		"-1h is in the past":          append(valid, "--expires=-1h"),
		"--open-uploads":              append(valid, "--open-uploads", "0"),
		"the group has other limits":  append(valid, "--group", "team", "--open-uploads", "4"),
		"its label must be printable": append(valid, "--label", "\x1b[31m"),
		"its group must be":           append(valid, "--group", "a b"),
	} {
		r := sluice(keyCommandOn(data, "create", args...)...)
		code := cli.ExitUsage
		switch {
		case strings.HasPrefix(want, "its "):
			code = cli.ExitFailed // only Create checks these
		case strings.HasPrefix(want, "the group"):
			code = cli.ExitRefused
		}
		if r.code != code || r.stdout != "" || !strings.Contains(r.stderr, want) || strings.Count(r.stderr, "\n") != 1 {
			t.Errorf("%q: exit code %d, %q, %q; want %d and a line that says %q", args, r.code, r.stdout, r.stderr, code, want)
		}
	}
	const secret = "sluice_aaaaaaaaaaaaaaaa_bbbbbbbbbbbbbbbb"
	if r := sluice(keyCommandOn(data, "revoke", secret)...); r.code != cli.ExitNotFound || strings.Contains(r.stderr, "bbbb") || !strings.Contains(r.stderr, "no such key") {
		t.Errorf("an unknown key: exit code %d, %s", r.code, r.stderr)
	}
}

// TestKeyExpiresByTheDatabasesClock runs the command on a machine with a wrong clock
// by three days.
func TestKeyExpiresByTheDatabasesClock(t *testing.T) {
	const ahead = 72 * time.Hour
	dsn, _ := testenv.MovedPostgres(t, ahead)
	valid := []string{"--meta", dsn, "--scopes", "read", "--all-accounts", "--expires"}
	made := shown(t, must(t, keyCommandOn(testenv.MemoryDir(t), "create", append(valid, "1h", "--json")...)...))
	if want := time.Now().Add(ahead + time.Hour); len(made) != 1 || made[0].Expires.Sub(want).Abs() > time.Minute {
		t.Errorf("%+v, want a key that expires at about %v", made, want)
	}
	r := sluice(keyCommandOn(testenv.MemoryDir(t), "create", append(valid, time.Now().Add(ahead/2).Format(time.RFC3339))...)...)
	if r.code != cli.ExitUsage || !strings.Contains(r.stderr, "is in the past") {
		t.Errorf("a key that has expired by the database's clock: %+v", r)
	}
}

// TestKeyIgnoresSettings checks that environment variables and the configuration file set where the
// data is, but not a key's permissions.
func TestKeyIgnoresSettings(t *testing.T) {
	data := filepath.Join(testenv.MemoryDir(t), "data")
	t.Setenv("SLUICE_SCOPES", "admin")
	t.Setenv("SLUICE_ALL_ACCOUNTS", "true")
	if r := sluice(keyCommandOn(data, "create")...); r.code != cli.ExitUsage {
		t.Errorf("variables created a key: %+v", r)
	}
	file := configFileOf(t, "data: "+data+"\nchunkset-price: 3\nreads: paid\n")
	if r := must(t, "key", "create", "--config", file, "--scopes", "read", "--all-accounts"); !credentialLine.MatchString(r.stdout) {
		t.Errorf("with the file of serve: %+v", r)
	}
	t.Setenv("SLUICE_CONFIG", file)
	if keys := shown(t, must(t, "key", "list", "--json")); len(keys) != 1 {
		t.Errorf("with the file of serve in a variable: %+v", keys)
	}
	for _, line := range []string{"all-accounts: true", "json: true", "label: x", "config: other.yaml"} {
		if r := sluice("key", "list", "--config", configFileOf(t, line)); r.code != cli.ExitUsage || !strings.Contains(r.stderr, "unknown key") {
			t.Errorf("a file with %q: %+v", line, r)
		}
	}
}

// TestKeyCreateNamesANewInstance checks that create reports a new instance and its
// folder on stderr.
func TestKeyCreateNamesANewInstance(t *testing.T) {
	data := filepath.Join(testenv.MemoryDir(t), "mistyped")
	args := keyCommandOn(data, "create", "--scopes", "read", "--all-accounts")
	want := "There was no data in the folder " + data + ": created a new instance there.\n"
	if r := must(t, args...); !strings.Contains(r.stderr, want) || strings.Count(r.stdout, "\n") != 1 {
		t.Errorf("the first key: %+v, want %q", r, want)
	}
	if r := must(t, args...); strings.Contains(r.stderr, "new instance") {
		t.Errorf("the second key: %+v", r)
	}
}
