package commands

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"sluice/e2e"
	"sluice/test/testenv"
)

// TestMoveCommand moves blobs, and checks the command's output.
func TestMoveCommand(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{})
	s.Must(204, "PUT", "/v1/blobs/team/a.txt", []byte("text"), "Blob-Meta-Color", "blue")
	for _, name := range []string{"dir/b", "dir/sub/c"} {
		s.Must(204, "PUT", "/v1/blobs/team/"+name, []byte(name))
	}
	etag := s.Must(200, "HEAD", "/v1/blobs/team/a.txt", nil).Header.Get("ETag")
	moved := `\{"status":"moved","source":"team/d/a.txt","target":"team/e/a.txt","size":4,"etag":` + regexp.QuoteMeta(fmt.Sprintf("%q", etag)) + `\}\n`
	for _, test := range []struct {
		args           string
		code           int
		stdout, stderr string   // regular expressions
		names          []string // afterwards
	}{
		{"-n team/a.txt team/b.txt", 0, "", `would move team/a.txt -> team/b.txt\n`, []string{"a.txt", "dir/b", "dir/sub/c"}},
		{"team/a.txt team/b.txt", 0, "", `team/a.txt -> team/b.txt\n`, []string{"b.txt", "dir/b", "dir/sub/c"}},
		{"team/a.txt team/b.txt", 3, "", `sluice: team/a.txt: the blob does not exist; team/b.txt does, stored at \d+-\d\d-\d\d \d\d:\d\d:\d\d, so an earlier command may have moved it\n`, []string{"b.txt", "dir/b", "dir/sub/c"}},
		{"team/a.txt team/c.txt", 3, "", `sluice: team/a.txt: the blob does not exist\n`, []string{"b.txt", "dir/b", "dir/sub/c"}},
		{"team/b.txt team/a.txt", 0, "", `team/b.txt -> team/a.txt\n`, []string{"a.txt", "dir/b", "dir/sub/c"}},
		{"team/a.txt team/d/", 0, "", `team/a.txt -> team/d/a.txt\n`, []string{"d/a.txt", "dir/b", "dir/sub/c"}},
		{"--json -n team/d/a.txt team/e/", 0, moved, "", []string{"d/a.txt", "dir/b", "dir/sub/c"}},
		{"--json team/d/a.txt team/e/", 0, moved, "", []string{"dir/b", "dir/sub/c", "e/a.txt"}},
		{"--json team/d/a.txt team/e/", 3, `\{"status":"failed","source":"team/d/a.txt","target":"team/e/a.txt","reason":"the blob does not exist; team/e/a.txt does, .*"\}\n`, `sluice: team/d/a.txt: the blob does not exist; .*\n`, []string{"dir/b", "dir/sub/c", "e/a.txt"}},
		{"-r -n team/dir team/new", 0, "", `(would move team/dir/\S+ -> team/new/\S+\n){2}dry run: 2 to move\n`, []string{"dir/b", "dir/sub/c", "e/a.txt"}},
		{"-r team/dir team/new", 0, "", `(team/dir/\S+ -> team/new/\S+\n){2}2 moved\n`, []string{"e/a.txt", "new/b", "new/sub/c"}},
		{"-r team/dir team/new", 3, "", `sluice: there are no blobs below team/dir/\n`, []string{"e/a.txt", "new/b", "new/sub/c"}},
	} {
		r := s.Sluice(append([]string{"mv"}, strings.Fields(test.args)...)...)
		if r.Code != test.code || !matches(test.stdout, r.Stdout) || !matches(test.stderr, r.Stderr) {
			t.Errorf("mv %s: %+v, want %+v", test.args, r, test)
		}
		s.ListsOnly("team", test.names...)
	}
	testenv.Equal(t, s.Must(200, "HEAD", "/v1/blobs/team/e/a.txt", nil).Header.Get("Blob-Meta-Color"), "blue", "the metadata")
}

// matches reports whether an expression matches a whole text.
func matches(expression, text string) bool {
	return regexp.MustCompile(`(?s)\A` + expression + `\z`).MatchString(text)
}
