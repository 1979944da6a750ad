package commands

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"sluice/e2e"
	"sluice/test/testenv"
)

// filesWith returns the names of files below a folder that have a suffix, with slashes.
func filesWith(t testing.TB, dir, suffix string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && strings.HasSuffix(path, suffix) {
			name, relErr := filepath.Rel(dir, path)
			names, err = append(names, filepath.ToSlash(name)), relErr
		}
		return err
	})
	testenv.OK(t, err)
	return names
}

// printedTransfer is a JSON line that a copying command prints.
type printedTransfer struct {
	Status, Source, Target, ETag, Reason string
	Size                                 int64
}

// transfers parses a command's output with --json.
func transfers(t testing.TB, r e2e.Result) (lines []printedTransfer) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(r.Stdout))
	for d.More() {
		var line printedTransfer
		if err := d.Decode(&line); err != nil {
			t.Fatalf("%v in %q", err, r.Stdout)
		}
		lines = append(lines, line)
	}
	return lines
}

func TestPutCommand(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{})
	dir := e2e.MakeTree(t, map[string]string{"page.html": "plain text", "picture": "\x89PNG\x0D\x0A\x1A\x0A", "empty": ""})
	page, picture := filepath.Join(dir, "page.html"), filepath.Join(dir, "picture")
	for _, test := range []struct {
		args   []string
		stdout string
		stderr string
		code   int
	}{
		{args: []string{"put", page, "team/"}, stderr: page + " -> team/page.html\n"},
		{args: []string{"put", page, "team"}, stderr: page + " -> team/page.html\n"},
		{args: []string{"upload", picture, "team/photos/", "-q"}},
		{args: []string{"put", filepath.Join(dir, "empty"), "team/a//b", "--json"}, stdout: `{"status":"copied","source":"` + filepath.Join(dir, "empty") + `","target":"team/a//b","size":0,"etag":"\"0-0000000000000000\""}` + "\n"},
		{args: []string{"put", page, "team/described", "-q", "-e", "2100-01-31", "--content-type", "text/x-own", "--cache-control", "max-age=60", "--content-disposition", "inline", "--content-language", "de", "--meta", "Color=light blue", "--meta", "n=a,b"}},
		{args: []string{"put", page, "team/x", "--meta", "a=1", "--meta", "A=2"}, code: 2, stderr: "sluice: --meta: A is set twice\n"},
		{args: []string{"put", page, "te am/x"}, code: 2, stderr: "sluice: te am/x: the account must be "},
	} {
		if r := s.Sluice(test.args...); r.Code != test.code || r.Stdout != test.stdout || (test.code == 0 && r.Stderr != test.stderr) || !strings.HasPrefix(r.Stderr, test.stderr) {
			t.Errorf("%q: %+v, want %+v", test.args, r, test)
		}
	}
	head := func(name string) http.Header {
		t.Helper()
		resp, err := http.Head(s.URL + "/v1/blobs/team/" + name)
		testenv.OK(t, err)
		if err := resp.Body.Close(); err != nil || resp.StatusCode != 200 {
			t.Fatalf("%s: %s, %v", name, resp.Status, err)
		}
		return resp.Header
	}
	if got := head("page.html").Get("Content-Type"); got != "text/html; charset=utf-8" {
		t.Errorf("by name the type is %s", got)
	}
	if got := head("photos/picture").Get("Content-Type"); got != "image/png" {
		t.Errorf("by content the type is %s", got)
	}
	h := head("described")
	for name, want := range map[string]string{"Content-Type": "text/x-own", "Blob-Expires": "2100-01-31T00:00:00Z", "Content-Disposition": "inline", "Content-Language": "de", "Blob-Meta-Color": "light blue", "Blob-Meta-N": "a,b"} {
		if h.Get(name) != want {
			t.Errorf("%s is %q, want %q", name, h.Get(name), want)
		}
	}
}

// TestSeveralSources stores, reads and copies several files and blobs with one command, with flags
// between the operands.
func TestSeveralSources(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{})
	dir := e2e.MakeTree(t, map[string]string{"a": "a", "b": "b", "-c": "c", "sub/d": "d", "other/e": "e", "other/sub/f": "f"})
	sorted := func(text string) string {
		lines := strings.Split(text, "\n")
		slices.Sort(lines) // the order of concurrent transfers
		return strings.Join(lines, "\n")
	}
	for _, test := range []struct {
		line string
		code int
		want []string // lines on stderr; ERROR is any failure, because they are concurrent
	}{
		{"put a --expires 2100-01-01 b team/x/ -q", 0, nil},
		{"put --json -- a -c team/json/", 0, nil},
		{"put a none sub b team/y/", 5, []string{"a -> team/y/a", "b -> team/y/b", "failed: there is no file none", "failed: sub is a folder: use -r to store the files in it",
			"2 copied (2 B), 2 failed", "sluice: 2 of 4 were not done; the first error is: ERROR"}},
		{"put none sub team/y/", 3, []string{"failed: there is no file none", "failed: sub is a folder: use -r to store the files in it", "2 failed", "sluice: nothing was done: ERROR"}},
		{"put -r a sub other/ team", 0, []string{"a -> team/a", "sub/d -> team/sub/d", "other/e -> team/other/e", "other/sub/f -> team/other/sub/f", "4 copied (4 B)"}},
		{"put a -r sub other team/", 0, []string{"4 unchanged"}},
		{"get team/x/a -q team/x/b new/", 0, nil},
		{"get team/x/a team/none team/x/b team/x/ new", 5, []string{"team/x/a -> new/a", "team/x/b -> new/b", "failed: team/none: get a blob: The blob does not exist (404 blob_not_found, request ID)",
			"failed: team/x/ is not a blob: use -r to read all blobs below it", "2 copied (2 B), 2 failed", "sluice: 2 of 4 were not done; the first error is: ERROR"}},
		{"get team/a team/y/a team/A new", 5, []string{"team/a -> new/a", `failed: team/y/a: it collides with "a": read it by itself`, `failed: team/A: it collides with "a": read it by itself`,
			"1 copied (1 B), 2 failed", `sluice: 2 of 3 were not done; the first error is: ERROR`}},
		{"get -r team/sub/ team/other team/none tree", 5, []string{"team/sub/d -> tree/sub/d", "team/other/e -> tree/other/e", "team/other/sub/f -> tree/other/sub/f", "failed: there are no blobs below team/none/",
			"3 copied (3 B), 1 failed", "sluice: 1 of 4 were not done; the first error is: there are no blobs below team/none/"}},
		{"get -r team/sub team/other/ tree", 0, []string{"3 unchanged"}},
		{"cp a b :copy/", 0, []string{"a -> copy/a", "b -> copy/b", "2 copied (2 B)"}},
		{"cp :copy/a :team/none :copy/b :copy/of/", 5, []string{"copy/a -> copy/of/a", "copy/b -> copy/of/b", "failed: team/none: the blob does not exist",
			"2 copied (2 B), 1 failed", "sluice: 1 of 3 were not done; the first error is: team/none: the blob does not exist"}},
		{"cp -r :team/sub :team/other/ :copy/tree/", 0, []string{"team/sub/d -> copy/tree/sub/d", "team/other/e -> copy/tree/other/e", "team/other/sub/f -> copy/tree/other/sub/f", "3 copied (3 B)"}},
		{"cp :copy/a :copy/b both/", 0, []string{"copy/a -> both/a", "copy/b -> both/b", "2 copied (2 B)"}},
	} {
		args := strings.Fields(test.line)
		r := e2e.SluiceIn(t, dir, slices.Insert(args, 1, "--url", s.URL)...)
		got := regexp.MustCompile(`request [A-Z2-7]+`).ReplaceAllString(strings.TrimSuffix(r.Stderr, "\n"), "request ID")
		for _, want := range test.want {
			if known, open := strings.CutSuffix(want, "ERROR"); open {
				got = regexp.MustCompile("(?m)^"+regexp.QuoteMeta(known)+".*$").ReplaceAllString(got, want)
			}
		}
		if want := strings.Join(test.want, "\n"); r.Code != test.code || sorted(got) != sorted(want) {
			t.Errorf("%s: exit code %d, want %d\n%s\nwant\n%s", test.line, r.Code, test.code, got, want)
		}
	}
	want := []string{"a", "json/-c", "json/a", "other/e", "other/sub/f", "sub/d", "x/a", "x/b", "y/a", "y/b"}
	if got := s.Names("team"); !slices.Equal(got, want) {
		t.Errorf("stored are %q, want %q", got, want)
	}
	want = []string{"a", "b", "of/a", "of/b", "tree/other/e", "tree/other/sub/f", "tree/sub/d"}
	if got := s.Names("copy"); !slices.Equal(got, want) {
		t.Errorf("copied are %q, want %q", got, want)
	}
	if got := s.Must(200, "HEAD", "/v1/blobs/team/x/b", nil).Header.Get("Blob-Expires"); got != "2100-01-01T00:00:00Z" {
		t.Errorf("it expires %q", got)
	}
}

// TestPutOfStandardInput stores a stream of several parts, and checks that an interrupted one
// leaves no blob and no upload.
func TestPutOfStandardInput(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{})
	data := e2e.Content(7, 3<<20)
	command := exec.CommandContext(t.Context(), e2e.Sluice, "put", "-", "team/stream", "--part-size", "1MiB", "--url", s.URL, "--json")
	command.Stdin = strings.NewReader(string(data))
	out, err := command.Output()
	if err != nil || !strings.Contains(string(out), `"size":3145728`) {
		t.Fatalf("%s, %v", out, err)
	}
	if runtime.GOOS == "windows" {
		return
	}
	p := e2e.NewCountingProxy(t, s)
	reached := p.After(1)
	r, w, err := os.Pipe()
	testenv.OK(t, err)
	cut := exec.CommandContext(t.Context(), e2e.Sluice, "put", "-", "team/cut", "--part-size", "1MiB", "--url", p.URL)
	var stderr strings.Builder
	cut.Stdin, cut.Stderr = r, &stderr
	testenv.OK(t, errors.Join(cut.Start(), r.Close()))
	if _, err := w.Write(data[:1<<20+100]); err != nil { // and no end: the command waits for more
		t.Fatal(err)
	}
	<-reached
	p.Release()
	testenv.OK(t, cut.Process.Signal(syscall.SIGINT))
	_ = cut.Wait() // the exit code is checked
	if want := "sluice: interrupted: nothing was stored, as standard input cannot be read again\n"; cut.ProcessState.ExitCode() != 130 || stderr.String() != want {
		t.Errorf("exit code %d, %s", cut.ProcessState.ExitCode(), stderr.String())
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	if names, uploads := s.Names("team"), s.OpenUploads("team"); !slices.Equal(names, []string{"stream"}) || len(uploads) != 0 {
		t.Errorf("stored are %q, open are %q", names, uploads)
	}
}

// resumable is a command's hint that it can be run again to go on.
const resumable = "transferred parts of large files are kept; run the same command again to go on\n"

// TestOutageSaysHowToGoOn ends the server within an upload, and before one. Only the command that
// has transferred something prints that it can be run again to go on, and it can.
func TestOutageSaysHowToGoOn(t *testing.T) {
	t.Parallel()
	testenv.Require(t, testenv.Unix)
	const part, parts = 256 << 10, 20
	s := e2e.Start(t, e2e.Options{Addr: testenv.ReserveAddress(t), Dirty: true})
	p := e2e.NewCountingProxy(t, s)
	dir := e2e.MakeTree(t, map[string]string{"big": string(e2e.Content(3, part*parts-5))})
	line := []string{"put", filepath.Join(dir, "big"), "team/big", "--part-size", "256KiB", "--url", p.URL}
	r := p.DuringCommand(t, parts/2, func(*exec.Cmd) {
		s.Kill()
		p.Resume()
	}, line...)
	p.Wait()
	if r.Code != 1 || !strings.HasSuffix(r.Stderr, "; "+resumable) {
		t.Errorf("the server ended within the upload: %+v", r)
	}
	if r := e2e.SluiceRuns(t, "put", filepath.Join(dir, "big"), "team/other", "--url", p.URL); r.Code != 1 || strings.Contains(r.Stderr, "again") {
		t.Errorf("there is no server: %+v", r)
	}
	s.Restart()
	if r := e2e.SluiceRuns(t, line...); r.Code != 0 {
		t.Errorf("the next run: %+v", r)
	}
	for path, n := range p.Acknowledged() {
		if n != 1 {
			t.Errorf("%s was acknowledged %d times", path, n)
		}
	}
}

// TestPutFolder checks which files the command stores from a folder and which it skips, and that a
// second run sends only changed files.
func TestPutFolder(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{})
	dir := e2e.MakeTree(t, map[string]string{"a.txt": "a", "sub/b.txt": "b", "sub/.c.0.sluice-upload": "state", "\u202eodd": "c"})
	if runtime.GOOS != "windows" {
		testenv.OK(t, os.Symlink("a.txt", filepath.Join(dir, "link")))
	}
	for i, test := range []struct {
		args string
		code int
		want []string
	}{
		{"", 5, []string{"copied a.txt", "copied sub/b.txt", "copied \u202eodd", "skipped link"}},
		{"", 0, []string{"copied a.txt", "unchanged sub/b.txt", "unchanged \u202eodd"}},
		{"--meta a=b -e 2100-01-01", 0, []string{"copied a.txt", "copied sub/b.txt", "copied \u202eodd"}},
		{"--meta A=b -e 2100-01-01", 0, []string{"unchanged a.txt", "unchanged sub/b.txt", "unchanged \u202eodd"}},
	} {
		r := s.Sluice(append([]string{"put", "-r", dir, "team/f", "--json"}, strings.Fields(test.args)...)...)
		var list []string
		for _, line := range transfers(t, r) {
			name, _ := filepath.Rel(dir, line.Source) // it is compared
			list = append(list, line.Status+" "+filepath.ToSlash(name))
		}
		slices.Sort(list)
		if r.Code != test.code || !slices.Equal(list, test.want) || test.code == 5 && r.Stderr != "sluice: 1 skipped\n" {
			t.Errorf("run %d with %q: %q, %+v, want %q", i, test.args, list, r, test.want)
		}
		if strings.Contains(r.Stdout, "\u202e") {
			t.Errorf("the output contains a character that changes the direction: %q", r.Stdout)
		}
		if i == 0 {
			testenv.OK(t, errors.Join(os.WriteFile(filepath.Join(dir, "a.txt"), []byte("A"), 0o600), os.Remove(filepath.Join(dir, "link"))))
		}
	}
}
