package commands

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/e2e"
	"sluice/test/testenv"
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

// textOf returns readTree's entry for a file with this text.
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
