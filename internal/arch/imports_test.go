// Package arch tests what the compiler does not: which package may import
// which, and that the documents name only what exists.
package arch

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sluice/internal/testenv"
)

const module = "sluice"

// source is what a Go file imports.
type source struct {
	file    string // path from the root, with slashes
	dir     string
	test    bool
	imports []string
}

// sources reads the imports of every Go file of the module.
func sources(t *testing.T) []source {
	t.Helper()
	root, err := testenv.Root()
	if err != nil {
		t.Fatal(err)
	}
	var all []source
	err = filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "node_modules" || entry.Name() == "testdata") {
			return filepath.SkipDir
		}
		if entry.IsDir() || !strings.HasSuffix(name, ".go") {
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		file := filepath.ToSlash(relative)
		s := source{file: file, dir: path.Dir(file), test: strings.HasSuffix(file, "_test.go")}
		for _, spec := range parsed.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			s.imports = append(s.imports, imported)
		}
		all = append(all, s)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// local gives the folder of an imported package of this module.
func local(imported string) (dir string, ok bool) {
	if imported == module {
		return ".", true
	}
	return strings.CutPrefix(imported, module+"/")
}

// standard tells whether a package is of the standard library.
func standard(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	_, ours := local(imported)
	return !ours && !strings.Contains(first, ".")
}

// within tells whether dir is one of the folders or lies inside one.
func within(dir string, folders ...string) bool {
	return slices.ContainsFunc(folders, func(folder string) bool {
		return dir == folder || strings.HasPrefix(dir, folder+"/")
	})
}

// The layers, from the top. A package imports of this module only what lies
// below it.
var (
	services  = []string{"blob", "session", "paychan", "access"}
	contracts = []string{"metastore", "bytestore"}
	stores    = []string{"metastore/sqlstore", "bytestore/cached", "bytestore/localfs", "bytestore/memory", "bytestore/s3"}
	suites    = []string{"metastore/metatest", "bytestore/bytetest"}
	pure      = []string{"wire", "micropay", "claycode", "commit"}
	// composition is what opens stores and puts the layers together.
	composition = []string{"instance", "internal/node", "internal/storage"}
	testOnly    = append([]string{"internal/fault", "internal/testenv", "internal/arch", "internal/mutants", "e2e"}, suites...)
)

// mayImport lists the folders of this module that a package may import outside
// its tests; ok is false for a folder that no rule names.
func mayImport(dir string) (allowed []string, ok bool) {
	switch {
	case within(dir, "cmd"):
		return slices.Concat([]string{"httpapi", "metering", "console", "client", "internal"}, composition, services, contracts, pure), true
	case within(dir, "internal/node"):
		return slices.Concat([]string{"httpapi", "metering", "console", "internal", "internal/storage"}, services, contracts, pure), true
	case within(dir, "instance"):
		return append([]string{"internal", "internal/storage", "blob"}, contracts...), true
	case within(dir, "internal/storage"):
		return slices.Concat([]string{"internal", "blob"}, contracts, stores), true
	case within(dir, stores...):
		return append([]string{path.Dir(dir), "internal"}, ownSubfolders(dir)...), true
	case within(dir, suites...):
		return []string{path.Dir(dir), "internal"}, true
	case within(dir, contracts...):
		return nil, true
	case within(dir, "httpapi/internal/router", "internal/connlimit"):
		return nil, true
	case within(dir, "httpapi/internal/headers"):
		return []string{"blob"}, true
	case within(dir, "httpapi/internal/transfer"):
		return []string{"access", "blob"}, true
	case within(dir, "httpapi"):
		return slices.Concat([]string{"internal", "httpapi", "metering", "console"}, services, contracts, pure), true
	case within(dir, "metering"):
		return slices.Concat([]string{"internal", "wire"}, services, contracts), true
	case within(dir, services...):
		return slices.Concat([]string{"internal", "micropay", "commit"}, contracts), true
	case within(dir, "client"):
		return pure, true
	case within(dir, "console"):
		return nil, true
	case within(dir, pure...):
		return []string{"claycode"}, true // commit encodes; the others need nothing
	case within(dir, "internal/testenv", "internal/arch", "e2e"):
		return []string{"internal"}, true
	case within(dir, "internal"):
		return append([]string{"internal"}, contracts...), true
	}
	return nil, false
}

// ownSubfolders lets a store have packages of its own.
func ownSubfolders(dir string) []string {
	return slices.DeleteFunc(slices.Clone(stores), func(store string) bool { return !within(dir, store) })
}

// TestImports holds every package to the layer below it.
func TestImports(t *testing.T) {
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		allowed, ok := mayImport(s.dir)
		if !ok {
			t.Errorf("%s: no rule says what %s may import; name it in this test", s.file, s.dir)
			continue
		}
		for _, imported := range s.imports {
			dir, ours := local(imported)
			if ours && !permitted(dir, allowed) {
				t.Errorf("%s imports %s; %s may import only %v", s.file, imported, s.dir, allowed)
			}
		}
	}
}

// permitted reports whether dir is one of the folders or in one of them. The folder
// of a contract does not include its implementations, and internal does not include
// the packages of composition.
func permitted(dir string, allowed []string) bool {
	if slices.Contains(allowed, dir) {
		return true
	}
	return !within(dir, contracts...) && !within(dir, composition...) && within(dir, allowed...)
}

// TestServicesKnowNoMachinery: the rules know neither HTTP, SQL nor files.
func TestServicesKnowNoMachinery(t *testing.T) {
	machinery := []string{"net", "net/http", "database/sql", "os", "os/exec", "path/filepath"}
	for _, s := range sources(t) {
		if s.test || !within(s.dir, services...) {
			continue
		}
		for _, imported := range s.imports {
			if slices.Contains(machinery, imported) {
				t.Errorf("%s imports %s", s.file, imported)
			}
		}
	}
}

// TestContractsNeedNothing: the contracts and the wire forms import only the
// standard library.
func TestContractsNeedNothing(t *testing.T) {
	for _, s := range sources(t) {
		if s.test || !slices.Contains(append([]string{"wire"}, contracts...), s.dir) {
			continue
		}
		for _, imported := range s.imports {
			if !standard(imported) {
				t.Errorf("%s imports %s", s.file, imported)
			}
		}
	}
}

// TestOnePackageNamesImplementations checks that outside tests only
// internal/storage names the implementations of stores.
func TestOnePackageNamesImplementations(t *testing.T) {
	for _, s := range sources(t) {
		if s.test || within(s.dir, "internal/storage") || within(s.dir, testOnly...) {
			continue
		}
		for _, imported := range s.imports {
			dir, ours := local(imported)
			if ours && within(dir, stores...) && !within(s.dir, stores...) {
				t.Errorf("%s imports %s", s.file, imported)
			}
		}
	}
}

// TestTestPackagesStayInTests: what is made for tests is imported by tests only.
func TestTestPackagesStayInTests(t *testing.T) {
	for _, s := range sources(t) {
		if s.test || within(s.dir, testOnly...) {
			continue
		}
		for _, imported := range s.imports {
			dir, ours := local(imported)
			if imported == "testing" || ours && within(dir, testOnly...) {
				t.Errorf("%s imports %s", s.file, imported)
			}
		}
	}
}

// TestRulesSeeTheTree guards the rules themselves: what they must allow, what
// they must refuse, and that they look at real files.
func TestRulesSeeTheTree(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range sources(t) {
		seen[s.dir] = true
	}
	for _, dir := range []string{"bytestore", "metastore", "internal/testenv"} {
		if !seen[dir] {
			t.Errorf("the tests of this package do not see %s", dir)
		}
	}
	for dir, want := range map[string]string{"blob": "metastore", "httpapi": "blob", "bytestore/localfs": "bytestore"} {
		allowed, _ := mayImport(dir)
		if !permitted(want, allowed) {
			t.Errorf("%s may not import %s", dir, want)
		}
	}
	for dir, not := range map[string]string{"blob": "httpapi", "bytestore": "wire", "httpapi": "bytestore/localfs", "session": "blob",
		"metastore/sqlstore": "bytestore", "bytestore/localfs": "bytestore/s3", "wire": "httpapi", "instance": "bytestore/s3", "internal/lease": "internal/node"} {
		if allowed, _ := mayImport(dir); permitted(not, allowed) {
			t.Errorf("%s may import %s", dir, not)
		}
	}
}
