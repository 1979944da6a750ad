package commands

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"sluice/e2e"
	"sluice/test/testenv"
)

// TestFind checks the output and exit codes of find.
func TestFind(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{})
	for name, size := range map[string]int{"a.jpg": 10, "b.txt": 2000, "dir/c.jpg": 3000, "dir/deep/d.jpg": 0, "dir/deep/e f": 5, "dirt": 7, "\u202eodd": 1} {
		s.Must(204, "PUT", "/v1/blobs/team/"+strings.ReplaceAll(name, " ", "%20"), make([]byte, size))
	}
	const odd = "team/\u202eodd"
	for _, test := range []struct {
		args           string
		code           int
		stdout, stderr string
	}{
		{"find team/dir/", 0, "team/dir/c.jpg\nteam/dir/deep/d.jpg\nteam/dir/deep/e f\n", ""},
		{"find team/dir", 0, "team/dir/c.jpg\nteam/dir/deep/d.jpg\nteam/dir/deep/e f\nteam/dirt\n", ""},
		{"find team --name *.jpg", 0, "team/a.jpg\nteam/dir/c.jpg\nteam/dir/deep/d.jpg\n", ""},
		{"find team --name /*.jpg --name b.*", 0, "team/a.jpg\nteam/b.txt\n", ""},
		{"find team --name deep/*", 0, "team/dir/deep/d.jpg\nteam/dir/deep/e f\n", ""},
		{"find team/dir/ --name /deep/**", 0, "team/dir/deep/d.jpg\nteam/dir/deep/e f\n", ""},
		{"find team --larger 10 --name *.*", 0, "team/b.txt\nteam/dir/c.jpg\n", ""},
		{"find team --larger 9 --smaller 2kB", 0, "team/a.jpg\n", ""},
		{"find team --smaller 1", 0, "team/dir/deep/d.jpg\n", ""},
		{"find team --larger 0 --smaller 2", 0, `"` + `team/\u202eodd"` + "\n", ""},
		{"find team --larger 0 --smaller 2 -0", 0, odd + "\x00", ""},
		{"find team --newer-than 1h --name dirt", 0, "team/dirt\n", ""},
		{"find team --older-than 1h", 0, "", ""},
		{"find team --name none", 0, "", ""},
		{"find nobody", 0, "", "there are no blobs in nobody/\n"},
		{"find -q nobody", 0, "", ""},
		{"find team/none/", 3, "", "sluice: there are no blobs below team/none/\n"},
		{"find team/none", 3, "", "sluice: there are no blobs with names that begin with team/none\n"},
		{"find team --name cache/", 2, "", "sluice: --name cache/: no blob has such a name: cache/** matches the blobs in the folder\n"},
		{"find team --name [", 2, "", "sluice: --name: the request is invalid: the pattern \"[\" has a [ without characters and a ]\n"},
		{"find team --larger much", 2, "", "sluice: --larger: want a size, such as 10MiB, not \"much\"\n"},
		{"find team --older-than=-1h", 2, "", "sluice: --older-than -1h0m0s: must not be negative\n"},
		{"find team --json -0", 2, "", "sluice: --print0 and --json both choose how blobs are printed: use one of them\n"},
	} {
		r := s.Sluice(strings.Fields(test.args)...)
		if r.Code != test.code || r.Stdout != test.stdout || r.Stderr != test.stderr {
			t.Errorf("%s: %+v, want exit code %d, %q and %q", test.args, r, test.code, test.stdout, test.stderr)
		}
	}
	for args, want := range map[string]string{
		"find --json team/dir/ --name *.jpg": "dir/c.jpg dir/deep/d.jpg",
	} {
		var names []string
		for line := range strings.Lines(s.Sluice(strings.Fields(args)...).Stdout) {
			var printed struct{ Account, Name, Prefix string }
			testenv.OK(t, json.Unmarshal([]byte(line), &printed))
			testenv.Equal(t, printed.Account, "team", "the account that %s prints", args)
			names = append(names, printed.Name+printed.Prefix)
		}
		testenv.Equal(t, strings.Join(names, " "), want, "the names that %s prints", args)
	}
}

// TestFindByAge lists blobs that were stored at known times.
func TestFindByAge(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		const entry = `{"name":%q,"size":0,"etag":"\"0\"","lastModified":%q}`
		_, err := fmt.Fprintf(w, `{"blobs":[`+entry+`,`+entry+`],"prefixes":[]}`, "future", "2999-01-01T00:00:00Z", "old", "2001-01-01T00:00:00Z")
		if err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	for args, want := range map[string]string{
		"--older-than 3650d": "team/old\n",
		"--older-than 0s":    "team/old\n",
		"--newer-than 3650d": "team/future\n",
	} {
		r := e2e.SluiceRuns(t, slices.Concat([]string{"find", "team", "--url", server.URL}, strings.Fields(args))...)
		testenv.Equal(t, r, e2e.Result{Stdout: want}, "find %s", args)
	}
}

// TestFindPrintsWhileItLists checks that find prints the names on a page although the next
// one fails.
func TestFindPrintsWhileItLists(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text := `{"blobs":[{"name":"a","size":0,"etag":"\"0\"","lastModified":"2001-01-01T00:00:00Z"}],"prefixes":[],"next":"a"}`
		if r.URL.Query().Has("after") {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusForbidden)
			text = `{"code":"forbidden","detail":"No more.","status":403}`
		}
		if _, err := io.WriteString(w, text); err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	r := e2e.SluiceRuns(t, "find", "team", "--url", server.URL)
	if r.Code != 4 || r.Stdout != "team/a\n" || !strings.Contains(r.Stderr, "sluice: team/: list blobs: No more (403 forbidden") {
		t.Errorf("%+v, want exit code 4 and the first page", r)
	}
}
