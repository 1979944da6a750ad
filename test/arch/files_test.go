package arch

import (
	"path"
	"slices"
	"strings"
	"testing"
)

// TestFilesAreLayered checks that a package's files use only declarations in files below them:
// there is no cycle of files. Uses of methods and fields do not count.
func TestFilesAreLayered(t *testing.T) {
	packages := map[string][]source{}
	for _, s := range sources(t) {
		if !s.test {
			packages[s.dir] = append(packages[s.dir], s)
		}
	}
	for dir, files := range packages {
		if cycle := cycleOf(usesOfFiles(files)); cycle != nil {
			t.Errorf("%s: these files use each other in a cycle: %s", dir, strings.Join(cycle, " -> "))
		}
	}
}

// usesOfFiles returns which files in its package each file uses. If several files declare a name,
// for different systems, who uses it uses each of them.
func usesOfFiles(files []source) map[string][]string {
	declaredIn := map[string][]string{}
	for _, s := range files {
		for declared := range s.syntax.Scope.Objects {
			declaredIn[declared] = append(declaredIn[declared], path.Base(s.file))
		}
	}
	uses := map[string][]string{}
	for _, s := range files {
		name := path.Base(s.file)
		for _, ident := range s.syntax.Unresolved {
			for _, in := range declaredIn[ident.Name] {
				if !slices.Contains(uses[name], in) {
					uses[name] = append(uses[name], in)
				}
			}
		}
	}
	return uses
}

// cycleOf returns a cycle of files, or nil.
func cycleOf(uses map[string][]string) []string {
	done := map[string]bool{}
	var visit func(path []string) []string
	visit = func(path []string) []string {
		last := path[len(path)-1]
		if i := slices.Index(path[:len(path)-1], last); i >= 0 {
			return path[i:]
		}
		if done[last] {
			return nil
		}
		for _, used := range uses[last] {
			if cycle := visit(append(slices.Clone(path), used)); cycle != nil {
				return cycle
			}
		}
		done[last] = true
		return nil
	}
	for name := range uses {
		if cycle := visit([]string{name}); cycle != nil {
			return cycle
		}
	}
	return nil
}

// TestCyclesAreFound checks that cycleOf finds cycles and nothing else.
func TestCyclesAreFound(t *testing.T) {
	if cycle := cycleOf(map[string][]string{"a": {"b", "c"}, "b": {"c"}}); cycle != nil {
		t.Errorf("a cycle without one: %v", cycle)
	}
	if cycle := cycleOf(map[string][]string{"a": {"b"}, "b": {"c"}, "c": {"b"}}); len(cycle) != 3 {
		t.Errorf("the cycle is %v", cycle)
	}
}
