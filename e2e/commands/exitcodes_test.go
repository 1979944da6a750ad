package commands

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/e2e"
	"sluice/test/testenv"
)

// TestExitCodesOfFailures makes commands fail, and checks that each returns the exit code that
// docs/cli.md states for the failure and prints a sentence about it.
func TestExitCodesOfFailures(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{})
	s.Must(204, "PUT", "/v1/blobs/team/a", []byte("text"))
	s.Must(204, "PUT", "/v1/blobs/team/dir/b", []byte("text"))
	dir := e2e.MakeTree(t, map[string]string{"file": "text"})
	testenv.OK(t, os.Mkdir(filepath.Join(dir, "empty"), 0o777))
	testenv.OK(t, os.WriteFile(filepath.Join(dir, "large"), bytes.Repeat([]byte{1}, 100_001), 0o600))
	const route = "The route does not exist (404 route_not_found, "
	for _, test := range []struct {
		args   string // DIR is a folder, NONE a path at which there is nothing, and LF a line break
		code   int
		stderr string // a part of it; "" if it must be empty
	}{
		// 0: success, with a remark if there was nothing to do.
		{"ls team", 0, ""},
		{"ls nobody", 0, "there are no blobs in nobody/\n"},
		{"ls -q nobody", 0, ""},
		{"du nobody", 0, "there are no blobs in nobody/\n"},
		{"get -r nobody DIR/got", 0, "there are no blobs in nobody/\n"},
		{"cp -r :nobody :other", 0, "there are no blobs in nobody/\n"},
		{"mv -r nobody other", 0, "there are no blobs in nobody/\n"},
		{"rm -r --yes nobody", 0, "there are no blobs in nobody/\n"},
		{"rm -r nobody", 0, "there are no blobs in nobody/\n"},
		{"sync :nobody DIR/new", 0, "there are no blobs in nobody/\n"},
		{"sync DIR/empty :nobody", 0, "there are no files in DIR/empty\n"},
		{"sync --force :team/none/ DIR/new", 0, ""},
		{"put -r DIR/empty team/", 0, "there are no files in DIR/empty\n"},

		// 1: a reason without a code of its own.
		{"ls UPPER", 2, "the account must be in lower case, unless it is an address: want ACCOUNT/NAME"},
		{"put DIR/file team/x --cache-control=max-age=x", 1, "(400 "},
		{"ls team --url http://127.0.0.1:1", 1, "connection refused; sluice serve starts a server"},

		// 2: a flag is wrong, and nothing was done.
		{"ls team --url http://h --context prod", 2, "--url and --context both name a server"},
		{"ls team --url URL/wrong", 2, route},
		{"ls team --url URL/wrong", 2, "of a hosted network ends in its base path"},
		{"stat team/a --url URL/wrong", 2, "of a hosted network ends in its base path"},
		{"rm team/a --url URL/wrong", 2, "of a hosted network ends in its base path"},
		{"put DIR/file team/x --content-type text/LFplain", 2, "the value of Content-Type has a line break"},
		{"put DIR/file team/x --meta a=bLFc", 2, "the value of Blob-Meta-a has a line break"},
		{"put DIR/large team/x --part-size 1000 --meta a=bLFc", 2, "the value of Blob-Meta-a has a line break"},
		{"put DIR/large team/x --part-size 1", 2, "--part-size sets the size of the parts"},

		// 3: a named blob, folder or account does not exist.
		{"ls team/none/", 3, "there are no blobs below team/none/\n"},
		{"ls -r team/none", 3, "there are no blobs with names that begin with team/none\n"},
		{"ls --json team/none", 3, "there are no blobs with names that begin with team/none\n"},
		{"du team/none/", 3, "there are no blobs below team/none/\n"},
		{"get -r team/none DIR/got", 3, "there are no blobs below team/none/\n"},
		{"cp -r :team/none :other", 3, "there are no blobs below team/none/\n"},
		{"mv -r team/none team/other", 3, "there are no blobs below team/none/\n"},
		{"rm -r --yes team/none", 3, "there are no blobs below team/none/; nothing was changed\n"},
		{"sync :team/none/ DIR/new", 3, "there are no blobs below team/none/\n"},
		{"get team/none DIR/got/x", 3, "The blob does not exist (404 blob_not_found"},
		{"cat team/none", 3, "The blob does not exist (404 blob_not_found"},
		{"stat team/none", 3, "team/none: "},
		{"rm team/none", 3, "team/none: the blob does not exist\n"},
		{"put NONE team/", 3, "there is no file NONE\n"},
		{"put NONE NONE2 team/", 3, "there is no file NONE\n"},
		{"get team/a NONE/x", 3, "there is no folder NONE\n"},
		{"sync NONE :team", 3, "there is no folder NONE\n"},
		{"upload abort none", 3, "The upload does not exist"},
		{"session show none", 3, "(404 session_not_found"},
		{"channel show none", 3, "(404 channel_not_found"},
		{"key list --data NONE", 3, "there is no data in the folder NONE: name another with --data"},
		{"check --books --data NONE", 3, "there is no data in the folder NONE: name another with --data"},
		{"check --data NONE", 3, "it is not the data folder of an instance\n"},
		{"check --recorded --data NONE", 3, "there is no data in the folder NONE"},
		{"recover --data NONE", 3, "it is not the data folder of an instance\n"},
		{"restore NONE --to NONE2", 3, "there is no folder NONE"},
		{"backup NONE2 --data NONE", 3, "there is no data in the folder NONE, which has no "},
		{"backup ls NONE", 3, "there is no folder NONE\n"},
		{"context use none", 3, "there is no such context"},

		// 4: refused.
		{"sync --delete :nobody DIR", 4, " of the target were not deleted"},

		// 5: partly done, which includes an output that ends early.
		{"cat team/a team/none", 5, "team/none: get a blob: The blob does not exist"},
		{"stat team/a team/none", 5, "team/none: "},
		{"du team team/none/", 5, "there are no blobs below team/none/\n"},
		{"rm team/none team/dir/b", 5, "1 of 2 were not done"},
		{"put DIR/file NONE team/", 5, "1 of 2 were not done"},
	} {
		none := filepath.Join(dir, "none")
		names := strings.NewReplacer("DIR", dir, "NONE", none, "URL", s.URL, "LF", "\n")
		var args []string
		for _, arg := range strings.Fields(test.args) {
			args = append(args, names.Replace(arg))
		}
		local := strings.Contains(test.args, "--data") || strings.Contains(test.args, "--url") || args[0] == "backup" || args[0] == "restore" || args[0] == "context"
		if !local {
			args = append(args, "--url", s.URL)
		}
		r := e2e.SluiceRuns(t, args...)
		want := names.Replace(test.stderr)
		if r.Code != test.code || !strings.Contains(r.Stderr, want) || (want == "") != (r.Stderr == "") {
			t.Errorf("%s: %+v, want exit code %d and %q", test.args, r, test.code, want)
		}
		if strings.Contains(r.Stderr, "unknown whether") {
			t.Errorf("%s: nothing was sent: %s", test.args, r.Stderr)
		}
	}
}
