package tree_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sluice/client/folder/tree"
	"sluice/test/testenv"
)

func TestNames(t *testing.T) {
	for _, test := range []struct {
		names []string
		want  string // error for the last of them; "": none
	}{
		{[]string{"a"}, ""},
		{[]string{"a/b", "a/c", "a.b"}, ""},
		{[]string{"foo", "foo.txt", "foo-bar/x"}, ""},
		{[]string{""}, "not a path"},
		{[]string{"."}, "not a path"},
		{[]string{".."}, "not a path"},
		{[]string{"../../x"}, "not a path"},
		{[]string{"a/../b"}, "not a path"},
		{[]string{"a/./b"}, "not a path"},
		{[]string{"a//b"}, "not a path"},
		{[]string{"/etc/passwd"}, "not a path"},
		{[]string{"a/"}, "not a path"},
		{[]string{"a\x00b"}, "not a path"},
		{[]string{"a\xff"}, "not a path"},
		{[]string{"a", "a"}, `collides with "a"`},
		{[]string{"README", "readme"}, `collides with "README"`},
		{[]string{"Dir/a", "dir/b"}, `collides with "Dir"`},
		{[]string{"foo", "foo/bar"}, `collides with "foo"`},
		{[]string{"foo/bar", "foo"}, `collides with "foo"`},
		{[]string{"foo/bar", "FOO"}, `collides with "foo"`},
		{[]string{"straße", "STRASSE"}, `collides with "straße"`},
		{[]string{"caf\u00e9", "cafe\u0301"}, `collides with "café"`},
		{[]string{"a", "a."}, `collides with "a"`},
	} {
		var n tree.Names
		for i, name := range test.names {
			path, err := n.Add(name)
			last := i == len(test.names)-1
			switch {
			case last && test.want != "":
				if err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("%q: %q, %v, want %s", test.names, path, err, test.want)
				}
			case err != nil || path != filepath.FromSlash(name):
				t.Errorf("%q: %q, %v", name, path, err)
			}
		}
	}
}

// TestRefusedNamesTakeNothing checks that a name that collides does not reserve its folders.
func TestRefusedNamesTakeNothing(t *testing.T) {
	var n tree.Names
	for _, step := range []struct {
		name string
		ok   bool
	}{{"a/x", true}, {"b/A/..", false}, {"A/y/z", false}, {"b", true}} {
		if _, err := n.Add(step.name); (err == nil) != step.ok {
			t.Errorf("%s: %v", step.name, err)
		}
	}
	for name, want := range map[string]bool{"a/x": true, "A/X": true, "a": true, "b": true, "A/y/z": false, "c": false, "a/x/y": false} {
		testenv.Equal(t, n.Has(name), want, "Has(%q)", name)
	}
}

// FuzzNames checks that a name's path is local, and that no two names get the same one.
func FuzzNames(f *testing.F) {
	f.Add("a/b", "a/B")
	f.Add("../x", "..")
	f.Add("c:x", `a\b`)
	f.Fuzz(func(t *testing.T, first, second string) {
		var n tree.Names
		var paths []string
		for _, name := range []string{first, second} {
			path, err := n.Add(name)
			if err != nil {
				continue
			}
			if !filepath.IsLocal(path) || filepath.Clean(path) != path || filepath.ToSlash(path) != name {
				t.Fatalf("%q becomes %q", name, path)
			}
			paths = append(paths, path)
		}
		if len(paths) == 2 && strings.EqualFold(paths[0], paths[1]) {
			t.Fatalf("%q and %q were both added", first, second)
		}
	})
}

// newRoot returns a folder that has a link to a folder outside of it.
func newRoot(t *testing.T) (root *os.Root, outside string) {
	t.Helper()
	testenv.Require(t, testenv.Unix)
	dir, outside := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{"a": "1", "dir/b": "22", "dir/deep/c": "333", ".omitted": "x"} {
		path := filepath.Join(dir, name)
		testenv.OK(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, []byte(text), 0o600)))
	}
	root, err := os.OpenRoot(dir)
	testenv.OK(t, errors.Join(err, os.Symlink(outside, filepath.Join(dir, "out")), os.Symlink("dir", filepath.Join(dir, "within")), os.Symlink("a", filepath.Join(dir, "link"))))
	testenv.AtEnd(t, root.Close)
	return root, outside
}

func TestList(t *testing.T) {
	root, _ := newRoot(t)
	files, skipped, err := tree.List(root, func(base string) bool { return base == ".omitted" })
	if want := []tree.File{{"a", 1}, {"dir/b", 2}, {"dir/deep/c", 3}}; err != nil || !slices.Equal(files, want) {
		t.Errorf("%v, %v, want %v", files, err, want)
	}
	if want := []tree.Skipped{{"link", tree.ErrSymlink}, {"out", tree.ErrSymlink}, {"within", tree.ErrSymlink}}; !slices.Equal(skipped, want) {
		t.Errorf("skipped are %v, want %v", skipped, want)
	}
}

// TestListIsIncomplete checks that a folder that cannot be read is an error, and not an empty one.
func TestListIsIncomplete(t *testing.T) {
	root, _ := newRoot(t)
	testenv.OK(t, os.Chmod(filepath.Join(root.Name(), "dir"), 0))
	testenv.AtEnd(t, func() error { return os.Chmod(filepath.Join(root.Name(), "dir"), 0o700) })
	testenv.WithoutPrivileges(func() {
		files, _, err := tree.List(root, func(string) bool { return false })
		if len(files) != 2 || !errors.Is(err, fs.ErrPermission) {
			t.Errorf("%v, %v", files, err)
		}
	})
}

// checkRefusals fails the test unless call refuses each path for its reason.
func checkRefusals(t *testing.T, reasons map[string]string, call func(path string) error) {
	t.Helper()
	for path, want := range reasons {
		if err := call(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
	}
}

func TestOpen(t *testing.T) {
	root, _ := newRoot(t)
	f := testenv.Must(tree.Open(root, "dir/b"))(t)
	text, err := io.ReadAll(f)
	if err := errors.Join(err, f.Close()); err != nil || string(text) != "22" {
		t.Errorf("%q, %v", text, err)
	}
	testenv.Is(t, testenv.Error(tree.Open(root, "dir/none")), fs.ErrNotExist, "no file")
	checkRefusals(t, map[string]string{
		"link": "link is not a regular file", "within/b": "within is a symbolic link",
		"dir": "dir is not a regular file", "a/b": "a is not a folder",
	}, func(path string) error { return testenv.Error(tree.Open(root, path)) })
}

func TestMakeFolders(t *testing.T) {
	root, outside := newRoot(t)
	testenv.OK(t, tree.MakeFolders(root, "new/x/file"))
	if info, err := root.Stat("new/x"); err != nil || !info.IsDir() {
		t.Errorf("%v, %v", info, err)
	}
	checkRefusals(t, map[string]string{
		"out/x/file": "out is a symbolic link", "within/x/file": "within is a symbolic link", "a/file": "a is not a folder",
	}, func(path string) error { return tree.MakeFolders(root, path) })
	if entries, err := os.ReadDir(outside); err != nil || len(entries) > 0 {
		t.Errorf("outside there is %v, %v", entries, err)
	}
}

func TestRemove(t *testing.T) {
	root, outside := newRoot(t)
	kept := filepath.Join(outside, "kept")
	testenv.OK(t, os.WriteFile(kept, nil, 0o600))
	testenv.OK(t, tree.Remove(root, "dir/deep/c"))
	testenv.Is(t, testenv.Error(root.Lstat("dir/deep")), fs.ErrNotExist, "the empty folder")
	testenv.Check(t, testenv.Error(root.Lstat("dir/b"))) // the other file
	checkRefusals(t, map[string]string{
		"out/kept": "out is a symbolic link", "link": "link is not a regular file", "dir": "dir is not a regular file",
	}, func(path string) error { return tree.Remove(root, path) })
	testenv.Check(t, testenv.Error(os.Stat(kept)))
}
