package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sluice/internal/testenv"
)

// layered are packages in which files must not use each other in a cycle.
var layered = []string{"cmd/sluice", "httpapi", "httpapi/internal/headers", "httpapi/internal/router", "httpapi/internal/transfer", "internal/connlimit",
	"internal/contexts", "internal/datadir", "internal/folder", "internal/lease", "internal/load", "internal/loopback", "internal/node", "internal/operand",
	"internal/storage", "internal/terminal", "internal/units", "blob", "chain", "checksum", "instance", "metering", "paychan", "session", "wire", "metastore", "metastore/sqlstore",
	"bytestore", "bytestore/memory"}

// TestFilesAreLayered checks that the files of a package use only declarations of files below them: there is
// no cycle of files. Uses of methods and fields do not count.
func TestFilesAreLayered(t *testing.T) {
	root, err := testenv.Root()
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range layered {
		if cycle := cycleOf(usesOfFiles(t, filepath.Join(root, dir))); cycle != nil {
			t.Errorf("%s: these files use each other in a cycle: %s", dir, strings.Join(cycle, " -> "))
		}
	}
}

// usesOfFiles returns which files of a folder each file uses.
func usesOfFiles(t *testing.T, dir string) map[string][]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	declaredIn := map[string]string{}
	unresolved := map[string][]*ast.Ident{}
	for _, entry := range entries {
		name := entry.Name()
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, "_other.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, name), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for declared := range file.Scope.Objects {
			declaredIn[declared] = name
		}
		unresolved[name] = file.Unresolved
	}
	uses := map[string][]string{}
	for name, idents := range unresolved {
		for _, ident := range idents {
			if in, ok := declaredIn[ident.Name]; ok && in != name && !slices.Contains(uses[name], in) {
				uses[name] = append(uses[name], in)
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
