package arch

import (
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sluice/internal/testenv"
)

// TestArchitectureShowsTheTree checks that each folder of the tree in ARCHITECTURE.md contains a Go
// package, and that the tree has each top-level folder of Go packages and each folder below internal.
func TestArchitectureShowsTheTree(t *testing.T) {
	root, err := testenv.Root()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	shown := treeOf(string(text))
	packages := map[string]bool{}
	required := map[string]bool{}
	for _, s := range sources(t) {
		for dir := s.dir; dir != "."; dir = path.Dir(dir) {
			packages[dir] = true
			if parent := path.Dir(dir); dir != "internal" && (parent == "." || parent == "internal") {
				required[dir] = true
			}
		}
	}
	for _, dir := range shown {
		if !packages[dir] {
			t.Errorf("ARCHITECTURE.md shows %s, which has no Go package", dir)
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(required)) {
		if !slices.ContainsFunc(shown, func(s string) bool { return within(s, dir) }) {
			t.Errorf("ARCHITECTURE.md does not show %s", dir)
		}
		if first, _, _ := strings.Cut(dir, "/"); !slices.Contains(layout, first) {
			t.Errorf("layout does not contain %s", first)
		}
	}
}

// TestTreeOf checks how folders are read: the first one of an indented line is in the folder of the
// latest line that is not indented, and each of the others next to the one before it.
func TestTreeOf(t *testing.T) {
	const text = "An example:\n\n```\na/b/ c/   two folders in a\nd/        a folder\n  e/ f/   two folders in d\ng/ h/i/ j/\n```\n\nk/ is text\n"
	want := []string{"a/b", "a/c", "d", "d/e", "d/f", "g", "h/i", "h/j"}
	if got := treeOf(text); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// treeOf returns the folders in the first code block of a document.
func treeOf(text string) []string {
	_, text, _ = strings.Cut(text, "```\n")
	text, _, _ = strings.Cut(text, "```")
	var all []string
	top := "."
	for line := range strings.Lines(text) {
		parent := "."
		if strings.HasPrefix(line, " ") {
			parent = top
		}
		for i, word := range strings.Fields(line) {
			name, isFolder := strings.CutSuffix(word, "/")
			if !isFolder {
				break
			}
			dir := path.Join(parent, name)
			if i == 0 && parent == "." {
				top = dir
			}
			all, parent = append(all, dir), path.Dir(dir)
		}
	}
	return all
}
