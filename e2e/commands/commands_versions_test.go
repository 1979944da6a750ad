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

// versionLine is a line of ls --versions --json.
type versionLine struct {
	Name, Version, By string
	Size              int64
	Current, Deleted  bool
	Modified          time.Time
}

// TestUndelete is the story of a script that deletes a folder with its key. Another machine finds
// out which key did it, and brings the folder back as it was before the script ran, by one command.
// Invariant 210.
func TestUndelete(t *testing.T) {
	t.Parallel()
	for engine, flags := range map[string][]string{"SQLite": nil, "PostgreSQL": {"--meta", testenv.StartPostgres(t).DSN()}} {
		t.Run(engine, func(t *testing.T) { undelete(t, flags) })
	}
}

// undelete is the story on a database that flags name.
func undelete(t *testing.T, database []string) {
	s := e2e.StartHosted(t, "key", database...)
	keys := map[string]string{}
	file := func(name, scopes string) string {
		key := s.NewKey(append([]string{"--scopes", scopes, "--accounts", "team"}, database...)...)
		keys[name] = strings.Split(key, "_")[1]
		return filepath.Join(e2e.MakeTree(t, map[string]string{"key": key}), "key")
	}
	owner, script, reader, admin := file("owner", "read,write"), file("script", "read,write"), file("reader", "read"), file("admin", "admin,read,write")
	run := func(key string, code int, args ...string) e2e.Result {
		t.Helper()
		r := s.Sluice(append(args, "--key-file", key)...)
		if r.Code != code {
			t.Fatalf("%q: %+v, want exit code %d", args, r, code)
		}
		return r
	}
	run(owner, 4, "bucket", "versions", "team", "on")
	run(admin, 0, "bucket", "versions", "team", "on", "--for", "30d")
	dir := e2e.MakeTree(t, map[string]string{"a": "first", "sub/b": "b"})
	run(owner, 0, "put", "-r", dir, "team/photos/")
	versions := func(prefix string) (all []versionLine) {
		t.Helper()
		for line := range strings.Lines(run(reader, 0, "ls", "-r", "--versions", "--json", prefix).Stdout) {
			var v versionLine
			if err := json.Unmarshal([]byte(line), &v); err != nil {
				t.Fatal(err)
			}
			all = append(all, v)
		}
		return all
	}
	stored := versions("team/photos/")
	noon := stored[0].Modified
	if later := stored[1].Modified; later.After(noon) {
		noon = later
	}
	changed := filepath.Join(e2e.MakeTree(t, map[string]string{"a": "changed by the script"}), "a")
	run(script, 0, "put", changed, "team/photos/a")
	run(script, 0, "put", changed, "team/photos/new")
	run(script, 0, "rm", "-r", "--yes", "team/photos/")

	for _, v := range versions("team/photos/") {
		want := keys["script"]
		if v.Version == stored[0].Version || v.Version == stored[1].Version {
			want = keys["owner"]
		}
		if v.By != want || v.Current {
			t.Errorf("%+v: want it by %s", v, want)
		}
	}
	long := run(reader, 0, "ls", "-l", "--versions", "team/photos/").Stdout
	if !regexp.MustCompile(`(?m)^ +-  [0-9: -]+  [0-9a-f]{32}  deleted  ` + keys["script"] + `  +a$`).MatchString(long) {
		t.Errorf("ls -l --versions prints %s", long)
	}
	if r := run(owner, 3, "undelete", "team/photos"); r.Stderr != "sluice: team/photos: no such version of the blob is kept; there are versions below team/photos/: use -r\n" {
		t.Errorf("the folder's name without -r: %+v", r)
	}
	at := noon.Format(time.RFC3339Nano)
	if r := run(owner, 0, "undelete", "team/photos/", "--at", at, "--dry-run"); strings.Count(r.Stderr, "would restore team/photos/") != 2 || !strings.HasSuffix(r.Stderr, "\ndry run: 2 to restore\n") {
		t.Errorf("a dry run: %+v", r)
	}
	run(reader, 4, "undelete", "team/photos/", "--at", at)
	r := run(owner, 0, "undelete", "team/photos/", "--at", at, "--json")
	if lines := strings.Split(r.Stdout, "\n"); len(lines) != 3 || !strings.Contains(r.Stdout, `{"status":"restored","source":"team/photos/a","size":5,"etag":`) {
		t.Errorf("undelete prints %+v", r)
	}
	if got := run(owner, 0, "cat", "team/photos/a", "team/photos/sub/b").Stdout; got != "firstb" {
		t.Errorf("the folder has %q", got)
	}
	for _, test := range []struct {
		args, stderr string
		code         int
	}{
		{"undelete -r team/photos", "restored team/photos/new\n2 unchanged, 1 restored\n", 0},
		{"undelete team/photos/new", "", 0},
		{"undelete team/photos/new --at " + at, "sluice: team/photos/new: no such version of the blob is kept\n", 3},
		{"undelete team/none/", "sluice: nothing to restore below team/none/; sluice bucket versions shows whether the account keeps deleted blobs\n", 3},
		{"undelete team/photos/ --at 2100-01-01", "sluice: --at: 2100-01-01 is in the future\n", 2},
	} {
		if r := run(owner, test.code, strings.Fields(test.args)...); r.Stderr != test.stderr {
			t.Errorf("%s: %+v, want %q", test.args, r, test.stderr)
		}
	}
}

// TestVersionFlag reads, copies and deletes a version by each command that has the flag.
func TestVersionFlag(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{})
	dir := e2e.MakeTree(t, map[string]string{"old": "old", "new": "newer"})
	for _, line := range []string{"bucket versions team on", "put " + dir + "/old team/a", "put " + dir + "/new team/a", "rm team/a"} {
		if r := s.Sluice(strings.Fields(line)...); r.Code != 0 {
			t.Fatalf("%s: %+v", line, r)
		}
	}
	var ids []string
	for line := range strings.Lines(s.Sluice("ls", "--versions", "team/a").Stdout) {
		ids = append(ids, strings.Fields(line)[0])
	}
	for _, test := range []struct {
		args           string // OLD, NEW and MARK are ids
		code           int
		stdout, stderr string // patterns
	}{
		{"cat team/a --version OLD", 0, "old", ""},
		{"get team/a - --version OLD -q", 0, "old", ""},
		{"get team/a " + dir + "/got --version OLD -q", 0, "", ""},
		{"cp team/a " + dir + "/copied --version NEW -q", 0, "", ""},
		{"cp :team/a :team/copy --version OLD", 0, "", "team/a -> team/copy\n"},
		{"cat team/copy", 0, "old", ""},
		{"stat team/a --version NEW", 0, `blob +team/a\nsize +5 bytes(.|\n)*version +NEW\nstate +kept\ncurrent until .*\n`, ""},
		{"stat team/a --version MARK", 0, `(.|\n)*state +deleted\n`, ""},
		{"stat --json team/a --version MARK", 0, `.*"version":"MARK","current":false,"deleted":true.*\n`, ""},
		{"cat team/a --version MARK", 3, "", ".*404 blob_not_found.*\n"},
		{"cp :team/a :team/copy --version MARK", 3, "", ".*no such version.*\n"},
		{"stat team/a --version 0000000000000000000000000000000f", 3, "", ".*no such version.*\n"},
		{"rm team/a --version 0000000000000000000000000000000f", 3, "", ".*no such version.*\n"},
		{"cat team/a team/copy --version OLD", 2, "", ".*it is for a single blob\n"},
		{"rm -r team/a --version OLD", 2, "", ".*it is for a single blob\n"},
		{"get team/a --version x", 2, "", ".*want the 32 hexadecimal digits.*\n"},
		{"ls team/a --version", 2, "", ".*--versions.*\n"},
		{"du", 0, `3 B  1 blob, 3 versions with 8 B  team/\n`, ""},
		{"du team team/a", 0, `3 B  1 blob, 3 versions with 8 B   team/\n0 B  0 blobs, 3 versions with 8 B  team/a\n`, ""},
		{"du --json team/a", 0, `{"account":"team","prefix":"a","blobs":0,"bytes":0,"versions":3,"versionBytes":8}\n`, ""},
		{"du --json", 0, `{"account":"team","prefix":"","blobs":1,"bytes":3,"versions":3,"versionBytes":8}\n`, ""},
		{"ls -l", 0, ` +3 B +1 blob, 3 versions with 8 B +team/\n`, ""},
		{"rm team/a --version MARK", 0, "", "deleted team/a\n"},
		{"cat team/a", 0, "newer", ""},
		{"rm team/a --version OLD", 0, "", "deleted team/a\n"},
		{"ls --versions team/a", 0, "  NEW  current  a\n", ""},
	} {
		fill := strings.NewReplacer("MARK", ids[0], "NEW", ids[1], "OLD", ids[2]).Replace
		r := s.Sluice(strings.Fields(fill(test.args))...)
		matches := func(pattern, text string) bool {
			return regexp.MustCompile("^" + fill(pattern) + "$").MatchString(text)
		}
		if r.Code != test.code || !matches(test.stdout, r.Stdout) || !matches(test.stderr, r.Stderr) {
			t.Errorf("%s: %+v, want exit code %d, %s, %s", test.args, r, test.code, test.stdout, test.stderr)
		}
	}
	for name, want := range map[string]string{"got": "old", "copied": "newer"} {
		if got := string(testenv.Must(os.ReadFile(filepath.Join(dir, name)))(t)); got != want {
			t.Errorf("%s has %q", name, got)
		}
	}
}

// TestDuOfAPublicAccount counts an account that everybody may list, by a key that may list its
// versions too, and without a key.
func TestDuOfAPublicAccount(t *testing.T) {
	t.Parallel()
	s := e2e.StartHosted(t, "public")
	key := s.NewKey("--scopes", "admin,read,write", "--all-accounts")
	file := filepath.Join(e2e.MakeTree(t, map[string]string{"key": key}), "key")
	for _, line := range []string{"bucket versions team on", "place set team public --lists public", "put - team/a", "put - team/a"} {
		if r := s.Sluice(append(strings.Fields(line), "--key-file", file)...); r.Code != 0 {
			t.Fatalf("%s: %+v", line, r)
		}
	}
	if r := s.Sluice("du", "team", "--key-file", file); r.Stdout != "0 B  1 blob, 1 version with 0 B  team/\n" {
		t.Errorf("with a key: %+v", r)
	}
	s.Eventually("the place is not open", func() bool { return s.Sluice("du", "team").Stdout == "0 B  1 blob  team/\n" })
}
