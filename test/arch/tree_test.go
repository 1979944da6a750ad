package arch

import (
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
)

// picture returns the rows in ARCHITECTURE.md's picture.
func picture(t *testing.T) [][]string {
	t.Helper()
	return rowsOf(textOf(t, "ARCHITECTURE.md"))
}

// TestPictureShowsTheTree checks that the picture in ARCHITECTURE.md has each Go package once, and
// nothing else. It need not have a package that consists of tests, such as a folder of e2e.
func TestPictureShowsTheTree(t *testing.T) {
	shown := map[string]bool{}
	for _, row := range picture(t) {
		for _, dir := range row {
			if shown[dir] {
				t.Errorf("the picture shows %s twice", dir)
			}
			shown[dir] = true
		}
	}
	packages, product := map[string]bool{}, map[string]bool{}
	for _, s := range sources(t) {
		packages[s.dir] = true
		product[s.dir] = product[s.dir] || !s.test
	}
	for dir := range shown {
		if !packages[dir] {
			t.Errorf("the picture shows %s, which is no Go package", dir)
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(packages)) {
		if !shown[dir] && product[dir] {
			t.Errorf("the picture does not show %s", dir)
		}
		if first, _, _ := strings.Cut(dir, "/"); !slices.Contains(layout, first) {
			t.Errorf("layout does not contain %s", first)
		}
	}
}

// TestPictureShowsTheImports checks that a package imports, outside its tests, only packages in the
// picture's rows below its own.
func TestPictureShowsTheImports(t *testing.T) {
	var all []source
	for _, s := range sources(t) {
		if !s.test {
			all = append(all, s)
		}
	}
	for _, up := range upward(picture(t), all) {
		t.Error(up)
	}
}

// upward returns the imports of packages that are not in a row below the importing one.
func upward(rows [][]string, all []source) (found []string) {
	rowOf := map[string]int{}
	for i, row := range rows {
		for _, dir := range row {
			rowOf[dir] = i
		}
	}
	for _, s := range all {
		for _, imported := range s.imports {
			if dir, ours := local(imported); ours && rowOf[dir] <= rowOf[s.dir] {
				found = append(found, s.file+" imports "+dir+", which is not in a lower row of the picture")
			}
		}
	}
	return found
}

// TestUpward checks that imports from a higher row and from the same row are found.
func TestUpward(t *testing.T) {
	rows := [][]string{{"a"}, {"b", "c"}, {"d"}}
	for _, tc := range []struct {
		from, to string
		fine     bool
	}{{"a", "d", true}, {"b", "d", true}, {"b", "c", false}, {"d", "a", false}} {
		found := upward(rows, []source{{file: tc.from + "/x.go", dir: tc.from, imports: []string{"fmt", module + "/" + tc.to}}})
		if fine := len(found) == 0; fine != tc.fine {
			t.Errorf("%s imports %s: %q", tc.from, tc.to, found)
		}
	}
}

// TestRowsOf checks how folders are read: an indented line's first folder is in the folder of the
// latest line that is not indented. Each other one is next to the one before it, or at the root if
// it is a path.
func TestRowsOf(t *testing.T) {
	const text = "An example:\n\n```\na/b/ c/   two folders in a\nd/        a folder\n  e/ f/   two folders in d\ng/ h/i/ j/ d/k/\n```\n\nk/ is text\n"
	want := [][]string{{"a/b", "a/c"}, {"d"}, {"d/e", "d/f"}, {"g", "h/i", "h/j", "d/k"}}
	if got := rowsOf(text); !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("%q, want %q", got, want)
	}
}

// rowsOf returns the folders in each line of a document's first code block.
func rowsOf(text string) (rows [][]string) {
	_, text, _ = strings.Cut(text, "```\n")
	text, _, _ = strings.Cut(text, "```")
	top := "."
	for line := range strings.Lines(text) {
		parent := "."
		if strings.HasPrefix(line, " ") {
			parent = top
		}
		var row []string
		for i, word := range strings.Fields(line) {
			name, isFolder := strings.CutSuffix(word, "/")
			if !isFolder {
				break
			}
			if i > 0 && strings.Contains(name, "/") {
				parent = "."
			}
			dir := path.Join(parent, name)
			if i == 0 && parent == "." {
				top = dir
			}
			row, parent = append(row, dir), path.Dir(dir)
		}
		rows = append(rows, row)
	}
	return rows
}
