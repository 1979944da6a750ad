package commands

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"sluice/e2e"
	"sluice/test/testenv"
)

// contextsOf makes a test's commands use contexts for servers.
func contextsOf(t *testing.T, servers map[string]*e2e.Server) {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"XDG_CONFIG_HOME", "HOME", "AppData"} { // as os.UserConfigDir uses them
		t.Setenv(name, dir)
	}
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		if r := e2e.SluiceRuns(t, "context", "add", name, servers[name].URL); r.Code != 0 {
			t.Fatalf("%+v", r)
		}
	}
}

// TestCopyCommand copies between this machine and two servers.
func TestCopyCommand(t *testing.T) {
	one, two := e2e.Start(t, e2e.Options{}), e2e.Start(t, e2e.Options{})
	contextsOf(t, map[string]*e2e.Server{"one": one, "two": two}) // one is the current one
	one.Must(204, "PUT", "/v1/blobs/team/dir/a", []byte("text"), "Content-Type", "text/x-own", "Cache-Control", "max-age=9", "Content-Language", "de", "Blob-Meta-Color", "blue", "Blob-Expires", "2100-01-01T00:00:00Z")
	one.Must(204, "PUT", "/v1/blobs/team/dir/sub/b", e2e.Content(1, 100_000))
	dir := t.TempDir()
	for _, test := range []struct {
		args           string
		code           int
		stdout, stderr string
	}{
		{args: "one:team/dir/a DIR", stderr: "one:team/dir/a -> DIR/a\n"},
		{args: ":team/dir/a DIR/x", stderr: "team/dir/a -> DIR/x\n"},
		{args: "DIR/a two:me/", stderr: "DIR/a -> two:me/a\n"},
		{args: ":team/dir/a -", stdout: "text", stderr: "team/dir/a -> -\n"},
		{args: "one:team/dir/a two:you/", stderr: "one:team/dir/a -> two:you/a\n"},
		{args: "-r one:team two:all/", stderr: "one:team/dir/a -> two:all/dir/a\none:team/dir/sub/b -> two:all/dir/sub/b\n2 copied (98 KiB)\n"},
		{args: "-r one:team two:all", stderr: "2 unchanged\n"},
		{args: "-r two:all/ DIR/tree -q"},
		{args: "-r DIR/tree :copy -q"},
		{args: "one:team/none two:team/", code: 3, stderr: "sluice: one:team/none: the blob does not exist\n"},
		{args: "one:team/di two:team/", code: 3, stderr: "sluice: one:team/di: the blob does not exist\n"},
		{args: "-r one:team/none two:team/", code: 3, stderr: "sluice: there are no blobs below one:team/none/\n"},
		{args: "one:team/dir/ two:team/", code: 2, stderr: "sluice: one:team/dir/ is not a blob: use -r to copy all blobs below it\n"},
	} {
		replace := func(text string) string { return strings.ReplaceAll(text, "DIR", dir) }
		r := e2e.SluiceRuns(t, append([]string{"cp"}, strings.Fields(replace(test.args))...)...)
		lines := strings.SplitAfter(r.Stderr, "\n")
		slices.Sort(lines[:max(0, len(lines)-2)]) // the order of concurrent transfers
		if got := strings.Join(lines, ""); r.Code != test.code || r.Stdout != test.stdout || got != replace(test.stderr) {
			t.Errorf("%s: %+v, want %+v", test.args, r, test)
		}
	}
	want := map[string]string{"dir/a": textOf("text"), "dir/sub/b": textOf(string(e2e.Content(1, 100_000)))}
	if got := readTree(t, filepath.Join(dir, "tree")); !maps.Equal(got, want) {
		t.Errorf("over two servers: %v", got)
	}
	if got := one.Names("copy"); !slices.Equal(got, []string{"dir/a", "dir/sub/b"}) {
		t.Errorf("stored are %q", got)
	}
	h := two.Must(200, "HEAD", "/v1/blobs/you/a", nil).Header
	for name, want := range map[string]string{"Content-Type": "text/x-own", "Content-Language": "de", "Blob-Meta-Color": "blue", "Blob-Expires": "2100-01-01T00:00:00Z"} {
		if h.Get(name) != want {
			t.Errorf("%s of the copy is %q, want %q", name, h.Get(name), want)
		}
	}
	if list := string(two.Must(200, "GET", "/v1/blobs/you?include=metadata", nil).Body); !strings.Contains(list, "max-age=9") {
		t.Errorf("the copy has no Cache-Control: %s", list)
	}
}

// TestSyncCommand makes prefixes and folders like each other, and checks when --delete deletes.
func TestSyncCommand(t *testing.T) {
	one, two := e2e.Start(t, e2e.Options{}), e2e.Start(t, e2e.Options{})
	contextsOf(t, map[string]*e2e.Server{"one": one, "two": two})
	dir := e2e.MakeTree(t, map[string]string{"source/a": "a", "source/sub/b": "b", "empty/.x.0.sluice-part": "", "hostile/sub/y": "mine"})
	one.Must(204, "PUT", "/v1/blobs/team/extra", []byte("x"))
	one.Must(204, "PUT", "/v1/blobs/team/a", []byte("old"))
	for _, name := range []string{"%2e%2e/x", "good", "readme", "README"} {
		one.Must(204, "PUT", "/v1/blobs/hostile/"+name, []byte("h"))
	}
	if runtime.GOOS != "windows" {
		testenv.OK(t, errors.Join(os.Symlink("a", filepath.Join(dir, "source", "extra")), os.Symlink("sub", filepath.Join(dir, "hostile", "link"))))
	} else if err := os.Mkdir(filepath.Join(dir, "hostile", "link"), 0o777); err != nil {
		t.Fatal(err)
	}
	local := func(name string) []string { return filesWith(t, filepath.Join(dir, name), "") }
	same := func(step string, got []string, want ...string) {
		t.Helper()
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("after %s: %q, want %q", step, got, want)
		}
	}
	run := func(code int, stderr, line string) {
		t.Helper()
		replace := func(text string) string { return strings.ReplaceAll(text, "DIR", dir) }
		if r := e2e.SluiceRuns(t, append([]string{"sync"}, strings.Fields(replace(line))...)...); r.Code != code || !strings.Contains(r.Stderr, replace(stderr)) || r.Stdout != "" {
			t.Errorf("%s: %+v, want exit code %d, %s", line, r, code, stderr)
		}
	}
	if runtime.GOOS != "windows" {
		run(5, "skipped: DIR/source/extra: it is a symbolic link\n", "--delete DIR/source :team")
		same("a source with a link", one.Names("team"), "a", "extra", "sub/b") // a skipped name is not deleted
		testenv.OK(t, os.Remove(filepath.Join(dir, "source", "extra")))

		// The server refuses control characters.
		bad := filepath.Join(dir, "source", "bad\x01")
		testenv.OK(t, os.WriteFile(bad, nil, 0o600))
		run(5, "nothing was deleted, because some of the source could not be listed or copied: use --force to delete nevertheless\n", "--delete DIR/source :team")
		same("a failed transfer", one.Names("team"), "a", "extra", "sub/b")
		testenv.OK(t, os.Remove(bad))
	}
	one.Must(204, "PUT", "/v1/blobs/team/a", []byte("old"))
	run(0, "would copy DIR/source/a -> team/a\nwould delete team/extra\ndry run: 1 to copy (1 B), 1 unchanged, 1 to delete\n", "--delete --dry-run DIR/source :team")
	same("a dry run", one.Names("team"), "a", "extra", "sub/b")
	run(0, "1 copied (1 B), 1 unchanged\n", "DIR/source :team")
	same("sync without --delete", one.Names("team"), "a", "extra", "sub/b")
	run(0, "deleted team/extra\n2 unchanged, 1 deleted\n", "--delete DIR/source :team/")
	same("sync", one.Names("team"), "a", "sub/b")

	run(4, "sluice: the source is empty, so the 2 of the target were not deleted: use --force to delete them\n", "--delete DIR/empty :team")
	same("an empty source", one.Names("team"), "a", "sub/b")
	run(4, "the source is empty", "--delete :none DIR/source")
	same("an empty prefix", local("source"), "a", "sub/b")
	run(4, "the source is empty", "--delete one:none one:team")
	same("an empty prefix of a server", one.Names("team"), "a", "sub/b")

	run(0, "2 copied", "one:team two:copy")
	two.Must(204, "PUT", "/v1/blobs/copy/more", []byte("x"))
	run(0, "deleted two:copy/more\n2 unchanged, 1 deleted\n", "--delete one:team two:copy")
	same("sync between servers", two.Names("copy"), "a", "sub/b")
	run(0, "2 copied", "two:copy DIR/new")
	testenv.OK(t, os.WriteFile(filepath.Join(dir, "new", "sub", "more"), nil, 0o600))
	run(0, "deleted DIR/new/sub/more\n2 unchanged, 1 deleted\n", "--delete two:copy DIR/new")
	same("sync to a folder", local("new"), "a", "sub/b")

	// A file that differs from a blob in the case of letters may be the same file.
	testenv.OK(t, os.WriteFile(filepath.Join(dir, "hostile", "ReadMe"), nil, 0o600))
	run(5, "skipped: hostile/../x: the name is not a path within a folder\n", "--delete :hostile DIR/hostile")
	want := []string{"README", "ReadMe", "good"}
	if runtime.GOOS != "windows" {
		want = append(want, "link")
		same("hostile names", local("hostile"), want...)
	}
	run(0, "2 deleted\n", "--delete --force DIR/empty :team")
	same("force", one.Names("team"))
}

// TestCopyBetweenServersResumes interrupts the command while it copies a large blob from one server
// to another. The next run must send no acknowledged part again, and read only the bytes that it
// sends.
// Invariant 150.
func TestCopyBetweenServersResumes(t *testing.T) {
	testenv.Require(t, testenv.Unix)
	const parts = 20
	one, two := e2e.Start(t, e2e.Options{}), e2e.Start(t, e2e.Options{})
	source, target := e2e.NewCountingProxy(t, one), e2e.NewCountingProxy(t, two)
	contextsOf(t, map[string]*e2e.Server{"one": {URL: source.URL}, "two": {URL: target.URL}})
	cache := t.TempDir()
	for _, name := range []string{"XDG_CACHE_HOME", "LocalAppData"} { // as os.UserCacheDir uses them
		t.Setenv(name, cache)
	}
	data := e2e.Content(9, parts<<20-3)
	one.Must(204, "PUT", "/v1/blobs/team/big", data)
	line := []string{"cp", "one:team/big", "two:team/copy", "--part-size", "1MiB"}
	if r := endAfter(target, t, parts/2, syscall.SIGINT, line...); r.Code != 130 || r.Stderr != "sluice: interrupted: "+resumable {
		t.Fatalf("%+v", r)
	}
	source.Mu.Lock()
	source.Ranges = map[string]int{}
	source.Mu.Unlock()
	if r := e2e.SluiceRuns(t, line...); r.Code != 0 {
		t.Fatalf("%+v", r)
	}
	target.Mu.Lock()
	defer target.Mu.Unlock()
	for path, n := range target.Parts {
		if n != 1 {
			t.Errorf("%s was acknowledged %d times", path, n)
		}
	}
	source.Mu.Lock()
	defer source.Mu.Unlock()
	if n := len(source.Ranges); n == 0 || n > parts/2 {
		t.Errorf("the next run read %d ranges of %d", n, parts)
	}
	if got := two.Must(200, "GET", "/v1/blobs/team/copy", nil).Body; !bytes.Equal(got, data) {
		t.Errorf("the copy has %d bytes, want %d", len(got), len(data))
	}
	if left := filesWith(t, cache, ""); len(left) > 0 {
		t.Errorf("the cache has %q", left)
	}
}

// TestOperandsWithoutColon copies and syncs between this machine and the current server by operands
// without a colon, and uses those with a context in commands that have remote operands only.
func TestOperandsWithoutColon(t *testing.T) {
	one, two := e2e.Start(t, e2e.Options{}), e2e.Start(t, e2e.Options{})
	contextsOf(t, map[string]*e2e.Server{"one": one, "two": two})
	dir := e2e.MakeTree(t, map[string]string{"d/many/a": "text", "docs/b": "text"})
	for _, test := range []struct {
		args           string
		code           int
		stdout, stderr string
	}{
		{args: "sync d 0x1/many/", stderr: "d/many/a -> 0x1/many/many/a\n"},
		{args: "cp d/many/a 0x1/a", stderr: "d/many/a -> 0x1/a\n"},
		{args: "cp 0x1/a 0x1/b", stderr: "0x1/a and 0x1/b are on URL: a local path begins with ./\n0x1/a -> 0x1/b\n"},
		{args: "cp 0x1/a docs/c", stderr: "docs/c is local, because its first folder exists here: write :docs/c for the server's\n0x1/a -> docs/c\n"},
		{args: "cp 0x1/a c", stderr: "0x1/a -> c\n"},
		{args: "cp -q 0x1/a me/c"},
		{args: "cp 0x1/a -", stdout: "text", stderr: "0x1/a -> -\n"},
		{args: "cp d/many/a docs/d", code: 2, stderr: "sluice: d/many/a and docs/d are both local: did you mean :docs/d, which is on the current server? CONTEXT:ACCOUNT/NAME is on another\n"},
		{args: "cp docs/none ./c", code: 2, stderr: "sluice: docs/none and ./c are both local: did you mean :docs/none, which is on the current server? CONTEXT:ACCOUNT/NAME is on another\n"},
		{args: "cp docs/none me/d", code: 3, stderr: "sluice: there is no file docs/none; cp and sync take :docs/none for the server's\n"},
		{args: "ls", stdout: "0x1/\nme/\n"},
		{args: "put c two:0x2/", stderr: "c -> two:0x2/c\n"},
		{args: "find two:0x2", stdout: "two:0x2/c\n"},
		{args: "mv two:0x2/c two:0x2/d", stderr: "two:0x2/c -> two:0x2/d\n"},
		{args: "cat two:0x2/d :0x1/a", code: 2, stderr: "sluice: two:0x2/d and 0x1/a are not on one server: name one after another\n"},
		{args: "get two:0x2/d -", stdout: "text", stderr: "two:0x2/d -> -\n"},
		{args: "rm two:0x2/d", stderr: "deleted two:0x2/d\n"},
		{args: "upload ls two:0x2"},
	} {
		r := e2e.SluiceIn(t, dir, strings.Fields(test.args)...)
		if r.Code != test.code || r.Stdout != test.stdout || r.Stderr != strings.ReplaceAll(test.stderr, "URL", one.URL) {
			t.Errorf("%s: %+v, want %+v", test.args, r, test)
		}
	}
	if got := one.Names("0x1"); !slices.Equal(got, []string{"a", "b", "many/many/a"}) {
		t.Errorf("stored are %q", got)
	}
}
