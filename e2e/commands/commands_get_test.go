package commands

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"sluice/e2e"
	"sluice/internal/testenv"
)

// readTree returns, by name, the digest of each file below a folder and the target of each symbolic
// link.
func readTree(t testing.TB, dir string) map[string]string {
	t.Helper()
	tree := map[string]string{}
	for _, name := range filesWith(t, dir, "") {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if link, err := os.Readlink(path); err == nil {
			tree[name] = "-> " + link
			continue
		}
		data, err := os.ReadFile(path)
		testenv.OK(t, err)
		tree[name] = fmt.Sprintf("%d bytes, %x", len(data), sha256.Sum256(data))
	}
	return tree
}

// textOf returns what readTree returns for a file with this text.
func textOf(text string) string {
	return fmt.Sprintf("%d bytes, %x", len(text), sha256.Sum256([]byte(text)))
}

func TestGetCommand(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{})
	for name, text := range map[string]string{"a": "text", "dir/b": "", "a/../b": "hostile"} {
		s.Must(204, "PUT", "/v1/blobs/team/"+strings.ReplaceAll(name, "..", "%2e%2e"), []byte(text))
	}
	for _, test := range []struct {
		args           []string
		stdout, stderr string
		code           int
		files          map[string]string
	}{
		{args: []string{"team/a", "DIR"}, stderr: "team/a -> DIR/a\n", files: map[string]string{"a": "text"}},
		{args: []string{"team/a", "DIR/x", "-q"}, files: map[string]string{"x": "text"}},
		{args: []string{"team/a", "DIR/new/", "-q"}, files: map[string]string{"new/a": "text"}},
		{args: []string{"team/a/../b", "DIR", "-q"}, files: map[string]string{"b": "hostile"}},
		{args: []string{"team/dir/b", "DIR", "-q"}, files: map[string]string{"b": ""}},
		{args: []string{"team/a", "-", "-q"}, stdout: "text"},
		{args: []string{"team/a", "-"}, stdout: "text", stderr: "team/a -> -\n"},
		{args: []string{"-r", "team/dir", "DIR/x/y", "-q"}, files: map[string]string{"x/y/b": ""}},
		{args: []string{"team/none", "DIR"}, code: 3, stderr: "sluice: team/none: get a blob: The blob does not exist (404 blob_not_found, request "},
		{args: []string{"team/none", "-"}, code: 3, stderr: "sluice: team/none: get a blob: The blob does not exist (404 blob_not_found, request "},
		{args: []string{"-r", "team/none", "DIR"}, code: 3, stderr: "sluice: there are no blobs below team/none/\n"},
		{args: []string{"-r", "team", "-"}, code: 2, stderr: "sluice: team/ cannot be written to standard output: want a single blob; sluice cat writes several\n"},
		{args: []string{"team/dir/", "DIR"}, code: 2, stderr: "sluice: team/dir/ is not a blob: use -r to read all blobs below it\n"},
		{args: []string{"team/a", "DIR/none/x"}, code: 2, stderr: "sluice: there is no folder DIR/none\n"},
		{args: []string{"team/x/..", "DIR"}, code: 2, stderr: "sluice: x/.. cannot be the name of a file: name the file after the blob\n"},
	} {
		dir := t.TempDir()
		replace := func(text string) string { return strings.ReplaceAll(text, "DIR", dir) }
		args := []string{"get"}
		for _, arg := range test.args {
			args = append(args, replace(arg))
		}
		r := s.Sluice(args...)
		tree := map[string]string{}
		for name, text := range test.files {
			tree[name] = textOf(text)
		}
		if got := readTree(t, dir); r.Code != test.code || r.Stdout != test.stdout || !strings.HasPrefix(r.Stderr, replace(test.stderr)) || test.stderr == "" && r.Stderr != "" || !maps.Equal(got, tree) {
			t.Errorf("%q: %+v with %v, want %+v", test.args, r, got, test)
		}
	}
}

// TestNamesOfOtherBytes checks that operands that are not UTF-8 name the file or the blob that they
// say.
func TestNamesOfOtherBytes(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{})
	dir := e2e.MakeTree(t, map[string]string{"a\xff": "small", "b\xff": string(e2e.Content(5, 20<<20)), "b\xfe": string(e2e.Content(6, 20<<20))})
	s.Must(204, "PUT", "/v1/blobs/team/a%EF%BF%BD", []byte("other")) // U+FFFD
	source, target := filepath.Join(dir, "a\xff"), filepath.Join(dir, "c\xff")
	if r := s.Sluice("put", "-q", source, "team/b"); r.Code != 0 {
		t.Errorf("%+v", r)
	}
	if r := s.Sluice("get", "-q", "team/b", target); r.Code != 0 {
		t.Errorf("%+v", r)
	}
	if got, err := os.ReadFile(target); err != nil || string(got) != "small" {
		t.Errorf("%q, %v", got, err)
	}
	if r := s.Sluice("rm", "team/a\xff"); r.Code == 0 {
		t.Errorf("%+v", r)
	}
	for _, args := range [][]string{{"put", source, "team/a\xff"}, {"put", "-r", dir, "team/"}} {
		if r := s.Sluice(args...); r.Code == 0 || !strings.Contains(r.Stderr, "not valid UTF-8") {
			t.Errorf("%q: %+v", args, r)
		}
	}
	if r := s.Sluice("ls", "team/"); r.Stdout != "a\uFFFD\nb\n" {
		t.Errorf("%+v", r)
	}
}

// TestFolderRoundTrip stores a folder and reads it back.
func TestFolderRoundTrip(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{})
	source := e2e.MakeTree(t, map[string]string{
		"empty": "", "small": "text", "big": string(e2e.Content(5, 20<<20)), "with space/ü": "u", "a/b/c/d/e": "deep",
		"\u202ereversed": "b", "100%": "%", "semi;colon": ";", "dotted.": ".", "-flag": "-",
	})
	if r := s.Sluice("put", "-r", source, "team/dir", "-q"); r.Code != 0 || r.Stderr != "" {
		t.Fatalf("%+v", r)
	}
	target := filepath.Join(t.TempDir(), "new", "target")
	for i, want := range []string{"copied", "unchanged"} {
		r := s.Sluice("get", "-r", "team/dir/", target, "--json")
		if r.Code != 0 || r.Stderr != "" || strings.Contains(r.Stdout, "\u202e") {
			t.Fatalf("%+v", r)
		}
		for _, line := range transfers(t, r) {
			if line.Status != want {
				t.Errorf("run %d: %+v, want %s", i, line, want)
			}
		}
		if got, want := readTree(t, target), readTree(t, source); !maps.Equal(got, want) {
			t.Errorf("run %d: got %v\nwant %v", i, got, want)
		}
	}
	testenv.OK(t, os.WriteFile(filepath.Join(target, "small"), []byte("TEXT"), 0o600))
	if r := s.Sluice("get", "-r", "team/dir", target); r.Code != 0 || r.Stderr != "team/dir/small -> "+filepath.Join(target, "small")+"\n1 copied (4 B), 9 unchanged\n" {
		t.Errorf("after a change: %+v", r)
	}
}

// TestGetNeverLeavesItsFolder reads names that are not paths within a folder, names that collide,
// and into a folder with symbolic links.
func TestGetNeverLeavesItsFolder(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{})
	for _, name := range []string{"../../x", "../x", "a/../b", "a//b", "/abs", "./c", "a/./d", "foo", "foo/bar", "README", "readme", "out/x", "within/x", "link", "good", ".x.0.sluice-download", ".x.0.sluice-part"} {
		s.Must(204, "PUT", "/v1/blobs/team/"+strings.ReplaceAll(name, ".", "%2e"), []byte("from the server"))
	}
	parent := t.TempDir()
	target, outside := filepath.Join(parent, "some", "target"), filepath.Join(parent, "outside")
	testenv.OK(t, errors.Join(os.MkdirAll(filepath.Join(target, "real"), 0o777), os.MkdirAll(outside, 0o777), os.WriteFile(filepath.Join(outside, "file"), []byte("mine"), 0o600)))
	want := map[string]string{"outside/file": textOf("mine")}
	for _, name := range []string{"foo", "README", "good", "link"} {
		want["some/target/"+name] = textOf("from the server")
	}
	failed := []string{}
	if runtime.GOOS != "windows" {
		testenv.OK(t, errors.Join(os.Symlink(outside, filepath.Join(target, "out")), os.Symlink("real", filepath.Join(target, "within")), os.Symlink(filepath.Join(outside, "file"), filepath.Join(target, "link"))))
		failed = []string{"team/out/x: out is a symbolic link, which is not followed", "team/within/x: within is a symbolic link, which is not followed"}
		want["some/target/out"], want["some/target/within"] = "-> "+outside, "-> real"
	} else {
		want["some/target/out/x"], want["some/target/within/x"] = textOf("from the server"), textOf("from the server")
	}
	const notLocal, temporary = ": the name is not a path within a folder", ": the name belongs to a temporary file of a transfer"
	skipped := []string{
		"team/../../x" + notLocal, "team/../x" + notLocal, "team/./c" + notLocal, "team/.x.0.sluice-download" + temporary, "team/.x.0.sluice-part" + temporary, "team//abs" + notLocal,
		"team/a/../b" + notLocal, "team/a/./d" + notLocal, "team/a//b" + notLocal, `team/foo/bar: it collides with "foo"`, `team/readme: it collides with "README"`,
	}
	r := s.Sluice("get", "-r", "team", target)
	var gotSkipped, gotFailed []string
	for line := range strings.Lines(r.Stderr) {
		if reason, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "skipped: "); ok {
			gotSkipped = append(gotSkipped, reason)
		} else if reason, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "failed: "); ok {
			gotFailed = append(gotFailed, reason)
		}
	}
	slices.Sort(gotSkipped)
	slices.Sort(skipped)
	slices.Sort(gotFailed)
	if r.Code != 5 || !slices.Equal(gotSkipped, skipped) || !slices.Equal(gotFailed, failed) {
		t.Errorf("%+v\nwant skipped %q, failed %q", r, skipped, failed)
	}
	if got := readTree(t, parent); !maps.Equal(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
}

// TestGetResumes interrupts the command within a download. The next run must receive only what is
// missing.
func TestGetResumes(t *testing.T) {
	t.Parallel()
	testenv.Require(t, testenv.Unix)
	const ranges = 7 // of 16 MiB
	s := e2e.Start(t, e2e.Options{})
	p := e2e.NewCountingProxy(t, s)
	data := e2e.Content(6, ranges<<24-3)
	s.Must(204, "PUT", "/v1/blobs/team/big", data)
	dir := t.TempDir()
	line := []string{"get", "team/big", dir, "--url", p.URL}
	// The command receives at most 4 ranges concurrently.
	if r := endAfter(p, t, ranges-1, syscall.SIGTERM, line...); r.Code != 130 || r.Stderr != "sluice: interrupted: "+resumable {
		t.Fatalf("%+v", r)
	}
	if _, err := os.Stat(filepath.Join(dir, "big")); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("the file exists: %v", err)
	}
	before := p.Requested()
	if r := e2e.SluiceRuns(t, line...); r.Code != 0 {
		t.Fatalf("%+v", r)
	}
	again := 0
	for request, n := range p.Requested() {
		again += n - before[request]
	}
	if again == 0 || again >= ranges-1 {
		t.Errorf("the next run requested %d ranges of %d", again, ranges)
	}
	got, err := os.ReadFile(filepath.Join(dir, "big"))
	if err != nil || !bytes.Equal(got, data) {
		t.Errorf("the file has %d bytes, %v, want %d", len(got), err, len(data))
	}
	if left := filesWith(t, dir, ""); len(left) != 1 {
		t.Errorf("the folder has %q", left)
	}
}
