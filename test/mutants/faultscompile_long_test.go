//go:build long

package main

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sluice/test/testenv"
)

// goPackage is a package as go list shows it.
type goPackage struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
}

// listedPackages returns the tree's packages and their dependencies by path, compiled.
func listedPackages(t *testing.T, root string) map[string]goPackage {
	list := exec.Command("go", "list", "-deps", "-export", "-json=ImportPath,Dir,Export,GoFiles", "./...")
	list.Dir = root
	out := testenv.Must(list.Output())(t)
	packages := map[string]goPackage{}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p goPackage
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else {
			testenv.OK(t, err)
		}
		packages[p.ImportPath] = p
	}
}

// TestFaultsCompileLong checks the types of each package with each fault in it: tests that build a
// binary of their own would seem to detect a fault that does not compile.
func TestFaultsCompileLong(t *testing.T) {
	root := testenv.Must(testenv.Root())(t)
	packages, fset := listedPackages(t, root), token.NewFileSet()
	exports := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(packages[path].Export) })
	parsed := map[string]*ast.File{}
	for _, f := range testenv.Must(readFaults(root))(t) {
		if filepath.Ext(f.file) != ".go" {
			continue
		}
		p, found := packages["sluice/"+filepath.ToSlash(filepath.Dir(f.file))]
		var files []*ast.File
		var planted bool
		for _, name := range p.GoFiles {
			name = filepath.Join(p.Dir, name)
			if name == filepath.Join(root, f.file) {
				planted = true
				text := testenv.Must(f.apply(string(testenv.Must(os.ReadFile(name))(t))))(t)
				files = append(files, testenv.Must(parser.ParseFile(fset, name, text, parser.SkipObjectResolution))(t))
				continue
			}
			if parsed[name] == nil {
				parsed[name] = testenv.Must(parser.ParseFile(fset, name, nil, parser.SkipObjectResolution))(t)
			}
			files = append(files, parsed[name])
		}
		if !found || !planted {
			t.Errorf("%s: %s belongs to no package of this system", f.name, f.file)
			continue
		}
		config := types.Config{Importer: exports}
		if _, err := config.Check(p.ImportPath, fset, files, nil); err != nil {
			t.Errorf("%s does not compile: %v", f.name, err)
		}
	}
}
