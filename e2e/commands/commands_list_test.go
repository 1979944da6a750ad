package commands

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"sluice/e2e"
	"sluice/test/testenv"
)

// TestListingCommands checks the output of ls, stat, cat and du.
func TestListingCommands(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{})
	for name, text := range map[string]string{"a.txt": "first ", "dir/b": "second", "dir/c/d": "", "\u202eodd": "x"} {
		s.Must(204, "PUT", "/v1/blobs/team/"+name, []byte(text), "Content-Type", "text/plain", "Blob-Meta-Color", "blue")
	}
	s.Must(204, "PUT", "/v1/blobs/described/a", []byte("x"), "Content-Type", "text/plain", "Cache-Control", "max-age=60", "Content-Disposition", "inline", "Content-Language", "de", "Blob-Expires", "2100-01-01T00:00:00Z")
	const long = ` +[0-9.]+ B  \d{4}-\d\d-\d\d \d\d:\d\d:\d\d  `
	const request = `, request \w+\)\n`
	for _, test := range []struct {
		args           string
		code           int
		stdout, stderr string // patterns
	}{
		{args: "ls team", stdout: `a\.txt\ndir/\n"\\u202eodd"\n`},
		{args: "ls team/", stdout: `a\.txt\ndir/\n"\\u202eodd"\n`},
		{args: "ls team/dir/", stdout: `b\nc/\n`},
		{args: "ls team/d", stdout: `dir/\n`},
		{args: "list -r team/dir", stdout: `dir/b\ndir/c/d\n`},
		{args: "ls team/none/", code: 3, stderr: `sluice: there are no blobs below team/none/\n`},
		{args: "ls -l team", stdout: long + `a\.txt\n +-  +-  dir/\n` + long + `"\\u202eodd"\n`},
		{args: "ls --json team/dir/", stdout: `\{"account":"team","name":"dir/b","size":6,"etag":"\\"6-[0-9a-f]{16}\\"","contentType":"text/plain","modified":"[^"]+Z"\}\n\{"account":"team","prefix":"dir/c/"\}\n`},
		{args: "ls te%20am!", code: 2, stderr: `sluice: te%20am!/: the account must be an address or consist of .*\n`},
		{args: "ls -lh team/dir/b", stdout: long + `b\n`},
		{args: "du -h team/dir/", stdout: `6 B  2 blobs  team/dir/\n`},
		{args: "ls", stdout: `described/\nteam/\n`},
		{args: "ls -l", stdout: ` +1 B +1 blob  described/\n +13 B +4 blobs  team/\n`},
		{args: "ls --json", stdout: `\{"account":"described","prefix":"","blobs":1,"bytes":1\}\n\{"account":"team",.*"bytes":13\}\n`},
		{args: "ls -r", stdout: `described/a\nteam/a\.txt\nteam/dir/b\nteam/dir/c/d\n"team/\\u202eodd"\n`},
		{args: "du", stdout: `1 B   1 blob   described/\n13 B  4 blobs  team/\n`},
		{args: "find --name b", stdout: `team/dir/b\n`},
		{args: "stat team/dir", code: 3, stderr: `sluice: team/dir: the blob does not exist; there are blobs below team/dir/: sluice ls lists them\n`},
		{args: "cat team/dir", code: 3, stderr: `sluice: team/dir: get a blob: .*; there are blobs below team/dir/: sluice ls lists them\n`},
		{args: "rm team/dir", code: 3, stderr: `sluice: team/dir: the blob does not exist; there are blobs below team/dir/: use -r\n`},
		{args: "mv team/dir team/other", code: 3, stderr: `sluice: team/dir: the blob does not exist; there are blobs below team/dir/: use -r\n`},
		{args: "cp :team/dir :team/other", code: 3, stderr: `sluice: team/dir: the blob does not exist; there are blobs below team/dir/: use -r\n`},
		{args: "rm -r -n team/dir/", stderr: `(would delete team/dir/(b|c/d)\n){2}dry run: 2 to delete\n`},
		{args: "rm -n team/none", code: 3, stderr: `sluice: team/none: the blob does not exist\n`},
		{args: "ls -r team/dir/", stdout: `b\nc/d\n`},
		{args: "cat team/a.txt team/dir/b", stdout: `first second`},
		{args: "cat team/a.txt team/none team/dir/b", code: 5, stdout: `first `, stderr: `sluice: team/none: get a blob: The blob does not exist \(404 blob_not_found` + request},
		{args: "stat team/dir/b", stdout: `blob +team/dir/b\nsize +6 bytes \(6 B\)\netag +"6-[0-9a-f]{16}"\ncontent type +text/plain\nmodified +[0-9: -]+\nmeta color +blue\n`},
		{args: "stat --json team/dir/b", stdout: `\{"account":"team","name":"dir/b","size":6,"etag":"[^}]+","contentType":"text/plain","modified":"[^"]+","metadata":\{"color":"blue"\}\}\n`},
		{args: "stat described/a", stdout: `blob +described/a\nsize .*\netag .*\ncontent type +text/plain\nmodified .*\ncache control +max-age=60\ncontent disposition +inline\ncontent language +de\nexpires +(2100|2099)-.*\n`},
		{args: "stat --json described/a", stdout: `.*"cacheControl":"max-age=60","contentDisposition":"inline","contentLanguage":"de".*\n`},
		{args: "stat team/none", code: 3, stderr: `sluice: team/none: the blob does not exist\n`},
		{args: "stat --json team/none team/dir/b", code: 5, stdout: `\{"account":"team","name":"dir/b",.*\}\n`, stderr: `sluice: team/none: the blob does not exist\n`},
		{args: "du team team/dir/", stdout: `13 B  4 blobs  team/\n6 B   2 blobs  team/dir/\n`},
		{args: "du --json team/d", stdout: `\{"account":"team","prefix":"d","blobs":2,"bytes":6\}\n`},
		{args: "du team/none", code: 3, stderr: `sluice: there are no blobs with names that begin with team/none\n`},
	} {
		r := s.Sluice(strings.Fields(test.args)...)
		matches := func(pattern, text string) bool { return regexp.MustCompile("^" + pattern + "$").MatchString(text) }
		if r.Code != test.code || !matches(test.stdout, r.Stdout) || !matches(test.stderr, r.Stderr) {
			t.Errorf("%s: %+v, want exit code %d, %s, %s", test.args, r, test.code, test.stdout, test.stderr)
		}
	}
}

// TestNamesCannotControlTheTerminal lists a server's blobs. The server sends escape sequences in
// every field.
func TestNamesCannotControlTheTerminal(t *testing.T) {
	t.Parallel()
	const hostile = "\x1b]0;owned\a\u009b2J\r\nx"
	quoted, err := json.Marshal(hostile)
	testenv.OK(t, err)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Query().Get("limit") == "1":
			_, err = fmt.Fprintf(w, `{"prefixes":[%[1]s]}`, quoted)
		case strings.Contains(r.URL.Path, "multipart"):
			_, err = fmt.Fprintf(w, `{"uploads":[{"uploadId":%[1]s,"account":%[1]s,"name":%[1]s,"created":"2026-01-01T00:00:00Z","expires":"2026-01-01T00:00:00Z"}]}`, quoted)
		case strings.HasSuffix(r.URL.Path, "/team"):
			_, err = fmt.Fprintf(w, `{"blobs":[{"name":%[1]s,"size":1,"etag":%[1]s,"contentType":%[1]s,"lastModified":"2026-01-01T00:00:00Z"}],"prefixes":[%[1]s]}`, quoted)
		default:
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(404)
			_, err = fmt.Fprintf(w, `{"code":"blob_not_found","detail":%[1]s,"status":404,"requestId":%[1]s}`, quoted)
		}
		if err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	for _, line := range []string{"ls team", "ls -l team", "ls --json team", "find team", "find --json team", "upload ls team", "upload ls --json team", "cat team/a", "get team/a -", "get -r team", "du team", "rm -r --yes team", "rm -r --yes --json team"} {
		r := e2e.SluiceRuns(t, append(strings.Fields(line), "--url", server.URL)...)
		if strings.ContainsAny(r.Stdout+r.Stderr, "\x1b\a\r\u009b") || !strings.Contains(r.Stdout+r.Stderr, "owned") && line != "du team" {
			t.Errorf("%s: %+v", line, r)
		}
	}
}

func TestDeletingCommands(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{})
	for _, name := range []string{"a", "b", "dir/c", "dir/d", "dirt"} {
		s.Must(204, "PUT", "/v1/blobs/team/"+name, []byte("x"))
	}
	upload := s.Begin("team", "open", 1<<20)
	for _, test := range []struct {
		args           string
		code           int
		stdout, stderr string
		left           string // blobs
	}{
		{args: "rm team/a", stderr: "deleted team/a\n", left: "b dir/c dir/d dirt"},
		{args: "rm team/a", code: 3, stderr: "sluice: team/a: the blob does not exist\n", left: "b dir/c dir/d dirt"},
		{args: "rm -q team/a team/b", code: 5, stderr: "failed: team/a: the blob does not exist\nsluice: 1 of 2 were not done; the first error is: team/a: the blob does not exist\n", left: "dir/c dir/d dirt"},
		{args: "rm -r team/dir", code: 2, stderr: "sluice: standard input is not a terminal to confirm on: use --yes to do it without a question; nothing was changed\n", left: "dir/c dir/d dirt"},
		{args: "rm -r -y team/none", code: 3, stderr: "sluice: there are no blobs below team/none/; nothing was changed\n", left: "dir/c dir/d dirt"},
		{args: "rm -r --yes -q team/dir", left: "dirt"},
		{args: "rm --json team/dirt", stdout: `{"status":"deleted","source":"team/dirt"}` + "\n"},
		{args: "upload abort " + upload},
		{args: "upload abort none", code: 3, stderr: "sluice: none: abort an upload: The upload does not exist"},
	} {
		r := s.Sluice(strings.Fields(test.args)...)
		if r.Code != test.code || r.Stdout != test.stdout || !strings.HasPrefix(r.Stderr, test.stderr) || test.stderr == "" && r.Stderr != "" {
			t.Errorf("%s: %+v, want %+v", test.args, r, test)
		}
		if left := s.Names("team"); !slices.Equal(left, strings.Fields(test.left)) {
			t.Errorf("after %s: %q, want %s", test.args, left, test.left)
		}
	}
	if r := s.Sluice("upload", "ls", "team"); r.Code != 0 || r.Stdout != "" {
		t.Errorf("%+v, want no upload", r)
	}
}

// TestRemoveWithAKeyForWrites deletes blobs with keys of different scopes. One that only permits
// writes cannot look for a blob before.
func TestRemoveWithAKeyForWrites(t *testing.T) {
	t.Parallel()
	s := e2e.StartHosted(t, "key")
	writer, reader := s.NewKey("--scopes", "write", "--accounts", "team"), s.NewKey("--scopes", "read", "--accounts", "team")
	s.As(writer).Must(204, "PUT", "/v1/blobs/team/a", []byte("x"))
	for _, test := range []struct {
		key    string
		code   int
		stderr string // a part
	}{
		{"", 4, "(401 credential_required, "},
		{reader, 4, `team/a: delete a blob: The key lacks the scope: this needs "write" (403 scope_missing, `},
		{writer, 0, "deleted team/a\n"},
		{reader, 3, "sluice: team/a: the blob does not exist\n"},
	} {
		var key []string
		if test.key != "" {
			key = []string{"--key-file", filepath.Join(e2e.MakeTree(t, map[string]string{"key": test.key}), "key")}
		}
		if r := s.Sluice(append([]string{"rm", "team/a"}, key...)...); r.Code != test.code || !strings.Contains(r.Stderr, test.stderr) {
			t.Errorf("with the key %.12q: %+v, want exit code %d and %q", test.key, r, test.code, test.stderr)
		}
	}
	s.As(reader).Must(404, "GET", "/v1/blobs/team/a", nil)
}

// TestCommandsWithoutAServerOrAKey checks that commands explain where a server and a key come from
// if there is none.
func TestCommandsWithoutAServerOrAKey(t *testing.T) {
	t.Parallel()
	s := e2e.StartHosted(t, "key")
	const key = "; the key comes from --key-file, the context, SLUICE_KEY or SLUICE_KEY_FILE\n"
	const server = ": connection refused; sluice serve starts a server, and --url or --context names another\n"
	lines := []string{"ls team", "cat team/a", "stat team/a", "rm team/a", "upload ls team", "channel open"}
	for _, line := range lines {
		if r := s.Sluice(strings.Fields(line)...); r.Code != 4 || !strings.HasSuffix(r.Stderr, key) || strings.Count(r.Stderr, "\n") != 1 {
			t.Errorf("%s without a key: %+v, want %q", line, r, key)
		}
	}
	s.Stop()
	var commands sync.WaitGroup
	for _, line := range append(lines, "info", "health", "session show a") {
		commands.Go(func() {
			if r := s.Sluice(strings.Fields(line)...); r.Code != 1 || !strings.HasSuffix(r.Stderr, server) || strings.Count(r.Stderr, "\n") != 1 {
				t.Errorf("%s without a server: %+v, want %q", line, r, server)
			}
		})
	}
	commands.Wait()
}

// TestOutcomesThatAreUnknown loses every response to a write. Commands must not report that nothing
// was done, nor that some were not done.
func TestOutcomesThatAreUnknown(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Flags: []string{"--fault", "DELETE blob: drop-reply", "--fault", "PUT blob: drop-reply"}})
	dir := e2e.MakeTree(t, map[string]string{"a": "x", "b": "y"})
	below := "team/" + filepath.Base(dir) + "/"
	for _, test := range []struct {
		args []string
		code int
		want string
		left string // blobs
	}{
		{[]string{"put", "-r", dir, dir + "/none", "team/"}, 1, "the outcome is unknown: ", "a b"},
		{[]string{"sync", dir, ":" + below}, 5, "1 of 3 were not done, or it is unknown whether they were; the first error is: ", "a b c"},
		{[]string{"rm", below + "a", below + "b"}, 1, "the outcome is unknown: ", "c"},
	} {
		if r := s.Sluice(append(test.args, "--retry-for", "0s")...); r.Code != test.code || !strings.Contains(r.Stderr, "\nsluice: "+test.want) {
			t.Errorf("%q: %+v, want exit code %d and %q", test.args, r, test.code, test.want)
		}
		var left []string
		for _, name := range s.Names("team") {
			left = append(left, path.Base(name))
		}
		if got := strings.Join(left, " "); got != test.left {
			t.Errorf("after %q: %s, want %s", test.args, got, test.left)
		}
		testenv.OK(t, os.WriteFile(filepath.Join(dir, "c"), []byte("z"), 0o600))
	}
}
