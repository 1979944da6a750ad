package commands

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"sluice/e2e"
)

// TestLock is the story of a backup whose snapshots no key can lose: rm, rm --version and undelete
// around locks in both modes, with each kind of key.
// Invariant 216.
func TestLock(t *testing.T) {
	t.Parallel()
	s := e2e.StartHosted(t, "key")
	files := map[string]string{}
	for name, scopes := range map[string]string{"owner": "read,write", "keeper": "read,write,retain", "bypass": "read,retain,bypass", "admin": "admin,read,write"} {
		files[name] = filepath.Join(e2e.MakeTree(t, map[string]string{"key": s.NewKey("--scopes", scopes, "--accounts", "team")}), "key")
	}
	dir := e2e.MakeTree(t, map[string]string{"a": "snapshot a", "b": "snapshot b"})
	day := func(days int) string { return time.Now().AddDate(0, 0, days).Format("2006-01-02") }
	var id string
	for _, test := range []struct {
		key, args      string
		code           int
		stdout, stderr string // patterns; ID is the id of a version
	}{
		{"keeper", "lock team/a --until 30d", 3, "", ".*does not exist.*"},
		{"owner", "put -r " + dir + " team/snap/ -q", 0, "", ""},
		{"keeper", "lock team/snap/a --until 30d", 1, "", ".*the account keeps no versions.*"},
		{"admin", "bucket versions team on --locks", 2, "", ".*use --yes.*"},
		{"admin", "bucket versions team on --locks --yes", 0, `.* on +done\n`, ""},
		{"owner", "put -r " + dir + " team/new/ -q", 0, "", ""},
		{"owner", "lock team/new/a --until 30d", 4, "", ".*scope_missing.*"},
		{"keeper", "lock -r team/new --until 30d --dry-run", 0, "", "(would change the lock of team/new/.\n){2}dry run: 2 locks to change\n"},
		{"owner", "ls --versions team/new/b", 0, ` +ID +current +b\n`, ""},
		{"keeper", "lock -r team/new --for 30d", 0, "", "(changed the lock of team/new/.\n){2}2 locks changed\n"},
		{"keeper", "lock -r team/none --hold", 3, "", ".*there are no blobs below team/none/; nothing was changed\n"},
		{"owner", "ls --versions team/new/b", 0, ` +ID +current, governance until ` + day(30) + `.* +b\n`, ""},
		{"owner", "stat team/new/b", 0, `.*\nlock +governance until ` + day(30) + `.*\n`, ""},
		{"owner", "stat --json team/new/b --version ID", 0, `.*"retention":\{"mode":"governance","until":"` + day(30) + `.*\n`, ""},
		{"owner", "rm -r -y team/new", 0, "", ".*2 deleted\n"},
		{"admin", "rm team/new/b --version ID", 4, "", ".*is locked in the mode governance until.*\n"},
		{"keeper", "lock team/new/b --version ID --end --bypass", 4, "", ".*scope_missing.*"},
		{"bypass", "lock team/new/b --version ID --end", 4, "", ".*is locked in the mode governance.*"},
		{"bypass", "lock team/new/b --version ID --end --bypass", 0, "", "changed the lock of team/new/b\n"},
		{"keeper", "lock team/new/b --version ID --hold --json", 0, `\{"status":"changed","source":"team/new/b"\}\n`, ""},
		{"admin", "rm team/new/b --version ID --bypass", 4, "", ".*legal hold.*\n"},
		{"keeper", "lock team/new/b --version ID --no-hold --until 2d --mode compliance --yes", 0, "", "changed the lock.*\n"},
		{"owner", "stat team/new/b --version ID", 0, `.*\nlock +compliance until ` + day(2) + `.*\nstate +kept, compliance until.*`, ""},
		{"admin", "lock team/new/b --version ID --end --bypass", 4, "", ".*is locked in the mode compliance.*"},
		{"admin", "rm team/new/b --version ID --bypass", 4, "", ".*is locked in the mode compliance.*\n"},
		{"owner", "put -r " + dir + " team/put --until 30d", 4, "", ".*scope_missing.*"},
		{"keeper", "put -r " + dir + " team/put --until 30d -q", 0, "", ""},
		{"owner", "stat team/put/a", 0, `.*\nlock +governance until ` + day(30) + `.*`, ""},
		{"keeper", "put -r " + dir + " team/put --hold -q", 0, "", ""}, // the same content
		{"owner", "stat team/put/b", 0, `.*\nlock +legal hold\n.*`, ""},
		{"keeper", "put -r " + dir + " team/put --mode compliance", 2, "", ".*needs --until.*"},
		{"keeper", "put -r " + dir + " team/put --until 2d --mode compliance", 2, "", ".*use --yes.*"},
		{"keeper", "put -r " + dir + " team/put --until 2d --mode compliance -n", 0, "", "(would .*\n){2}.*"},
		{"keeper", "cp -r team/put/ team/copied/ --for 2d --mode compliance --yes -q", 0, "", ""},
		{"owner", "stat team/copied/b", 0, `.*\nlock +compliance until ` + day(2) + `.*`, ""},
		{"keeper", "cp team/put/a " + dir + "/c --hold", 2, "", ".*target is local.*"},
		{"admin", "bucket versions team off", 4, "", ".*keeps them.*for ever.*\n"},
		{"owner", "undelete team/new/", 0, "", ".*2 restored\n"},
		{"owner", "cat team/new/b", 0, "snapshot b", ""},
	} {
		line := strings.ReplaceAll(test.args, "ID", id)
		r := s.Sluice(append(strings.Fields(line), "--key-file", files[test.key])...)
		if id == "" && strings.HasPrefix(line, "ls --versions") {
			id = strings.Fields(r.Stdout)[0]
		}
		matches := func(pattern, text string) bool {
			return regexp.MustCompile("(?s)^" + strings.ReplaceAll(pattern, "ID", id) + "$").MatchString(text)
		}
		if r.Code != test.code || !matches(test.stdout, r.Stdout) || !matches(test.stderr, r.Stderr) {
			t.Errorf("%s by %s: %+v, want exit code %d, %s, %s", line, test.key, r, test.code, test.stdout, test.stderr)
		}
	}
}
