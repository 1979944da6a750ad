package folder_test

import (
	"slices"
	"strings"
	"testing"

	"sluice/client"
	"sluice/client/folder"
	"sluice/test/testenv"
)

// TestFilter checks rules against names. The results are rsync's.
func TestFilter(t *testing.T) {
	names := []string{"a.jpg", "a.txt", "dir/b.jpg", "dir/b.txt", "dir/sub/c.jpg", "other/dir/d.txt", "dir.txt", "x[1]"}
	for _, test := range []struct {
		rules string // + includes, - excludes
		want  string
	}{
		{"", "a.jpg a.txt dir/b.jpg dir/b.txt dir/sub/c.jpg other/dir/d.txt dir.txt x[1]"},
		{"-*.jpg", "a.txt dir/b.txt other/dir/d.txt dir.txt x[1]"},
		{"-/*.jpg", "a.txt dir/b.jpg dir/b.txt dir/sub/c.jpg other/dir/d.txt dir.txt x[1]"},
		{"-dir/", "a.jpg a.txt dir.txt x[1]"},
		{"-/dir/", "a.jpg a.txt other/dir/d.txt dir.txt x[1]"},
		{"-dir", "a.jpg a.txt dir.txt x[1]"},
		{"-dir*", "a.jpg a.txt x[1]"},
		{"-a.jpg/", "a.jpg a.txt dir/b.jpg dir/b.txt dir/sub/c.jpg other/dir/d.txt dir.txt x[1]"},
		{"+*.jpg -*", "a.jpg"}, // the folders are excluded, too
		{"+*/ +*.jpg -*", "a.jpg dir/b.jpg dir/sub/c.jpg"},
		{"-* +*.jpg", ""}, // the first one that matches decides
		{"+b.jpg -*.jpg", "a.txt dir/b.jpg dir/b.txt other/dir/d.txt dir.txt x[1]"},
		{"-dir/*.txt", "a.jpg a.txt dir/b.jpg dir/sub/c.jpg dir.txt x[1]"},
		{"-/dir/*.txt", "a.jpg a.txt dir/b.jpg dir/sub/c.jpg other/dir/d.txt dir.txt x[1]"},
		{"-/dir/**", "a.jpg a.txt other/dir/d.txt dir.txt x[1]"},
		{"-/dir/*", "a.jpg a.txt other/dir/d.txt dir.txt x[1]"},
		{"-/**/c.jpg", "a.jpg a.txt dir/b.jpg dir/b.txt other/dir/d.txt dir.txt x[1]"},
		{"-/*/c.jpg", "a.jpg a.txt dir/b.jpg dir/b.txt dir/sub/c.jpg other/dir/d.txt dir.txt x[1]"},
		{"-?.txt", "a.jpg dir/b.jpg dir/sub/c.jpg dir.txt x[1]"},
		{"-[ab].*", "dir/sub/c.jpg other/dir/d.txt dir.txt x[1]"},
		{"-[!ab].*", "a.jpg a.txt dir/b.jpg dir/b.txt dir.txt x[1]"},
		{`-x\[1]`, "a.jpg a.txt dir/b.jpg dir/b.txt dir/sub/c.jpg other/dir/d.txt dir.txt"},
		{"-.", "a.jpg a.txt dir/b.jpg dir/b.txt dir/sub/c.jpg other/dir/d.txt dir.txt x[1]"},
	} {
		var rules []folder.Rule
		for _, text := range strings.Fields(test.rules) {
			rules = append(rules, folder.Rule{Pattern: text[1:], Exclude: text[0] == '-'})
		}
		f := testenv.Must(folder.NewFilter(rules))(t)
		var got []string
		for _, name := range names {
			if f.Includes(name) {
				got = append(got, name)
			}
		}
		if !slices.Equal(got, strings.Fields(test.want)) {
			t.Errorf("%q: %q, want %q", test.rules, got, test.want)
		}
	}
	if !(*folder.Filter)(nil).Includes("a") {
		t.Error("no filter excludes a name")
	}
	for _, pattern := range []string{"", "/", "[", "[]", "a[b", "[z-a]"} {
		testenv.Is(t, testenv.Error(folder.NewFilter([]folder.Rule{{Pattern: pattern}})), client.ErrInvalid, "the pattern %q", pattern)
	}
}

// TestFilteredTransfers checks that excluded names are neither transferred nor deleted, in each
// direction.
func TestFilteredTransfers(t *testing.T) {
	s := newService(t)
	filter := testenv.Must(folder.NewFilter([]folder.Rule{{Pattern: "*.tmp", Exclude: true}, {Pattern: "cache/", Exclude: true}}))(t)
	o := syncOptions{Options: folder.Options{Filter: filter}, Delete: true}
	files := map[string]string{"a": "1", "b.tmp": "2", "cache/c": "3", "dir/d": "4"}
	names := func(prefix string) (all []string) {
		for e, err := range s.List(t.Context(), "team", client.ListOptions{Prefix: prefix}) {
			testenv.OK(t, err)
			all = append(all, strings.TrimPrefix(e.Name, prefix))
		}
		return all
	}
	for _, name := range []string{"old.tmp", "cache/old", "gone"} {
		testenv.OK(t, testenv.Error(s.Put(t.Context(), "team", "up/"+name, strings.NewReader("x"), client.PutOptions{})))
	}
	wantRun(mirror(t.Context(), folder.Dir(newFiles(t, files)), s.team("up/"), o))(t, "up", folder.Summary{Copied: 2, Bytes: 2, Deleted: 1}, nil)
	testenv.Equal(t, strings.Join(names("up/"), " "), "a cache/old dir/d old.tmp", "the blobs after sync")
	wantRun(copyBlobs(t.Context(), s.team("up/"), s.team("copy/"), o.Options))(t, "copy", folder.Summary{Copied: 2, Bytes: 2}, nil)
	testenv.Equal(t, strings.Join(names("copy/"), " "), "a dir/d", "the blobs after copy")
	wantRun(mirror(t.Context(), s.team("up/"), s.team("across/"), o))(t, "across", folder.Summary{Copied: 2, Bytes: 2}, nil)
	wantRun(upload(t.Context(), folder.Dir(newFiles(t, files)), s.team("put/"), o.Options))(t, "upload", folder.Summary{Copied: 2, Bytes: 2}, nil)
	wantRun(download(t.Context(), s.team("up/"), folder.Dir(t.TempDir()), o.Options))(t, "download", folder.Summary{Copied: 2, Bytes: 2}, nil)
	wantRun(mirror(t.Context(), s.team("up/"), folder.Dir(newFiles(t, map[string]string{"x.tmp": "", "cache/y": "", "z": ""})), o))(t, "down", folder.Summary{Copied: 2, Bytes: 2, Deleted: 1}, nil)
}
