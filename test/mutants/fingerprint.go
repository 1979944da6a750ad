package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// fingerprints show whether a fault may have another result in another tree. Its result depends on
// the fault, on the files of its tests' packages, and on the product code that is linked into their
// test binaries, or into the sluice binary if the tests build that. So after a commit only those
// faults are planted again whose tests run code, or are tests, that the commit changed. A change of
// toolchain or modules changes all fingerprints.
//
// A file belongs to the nearest package above it, so that scripts, pages and test data count. Files
// above all packages, such as documents, do not.
type fingerprints struct {
	root   string
	module string
	base   string
	deps   map[string][]string // import paths by import path; a/b.test is the test binary of a/b
	files  map[string][]string // lines with name and hash, by the package's folder
	builds map[string]bool     // folders with files that build the sluice binary
}

// builder is text in each file that builds the sluice binary, and binaryPackage is the binary's
// package.
const (
	builder       = "testenv.BuildSluice("
	binaryPackage = "cmd/sluice"
)

// readFingerprints reads the tree below root.
func readFingerprints(ctx context.Context, root string) (*fingerprints, error) {
	p := &fingerprints{root: root, deps: map[string][]string{}}
	module, err := output(ctx, root, "go", "list", "-m")
	if err != nil {
		return nil, err
	}
	p.module = strings.TrimSpace(string(module))
	list, err := output(ctx, root, "go", "list", "-test", "-json=ImportPath,Deps", "./...")
	if err != nil {
		return nil, err
	}
	for decoder := json.NewDecoder(bytes.NewReader(list)); decoder.More(); {
		var pkg struct {
			ImportPath string
			Deps       []string
		}
		if err := decoder.Decode(&pkg); err != nil {
			return nil, err
		}
		p.deps[pkg.ImportPath] = pkg.Deps
	}
	return p.readFiles(ctx)
}

// readFiles returns the fingerprints with the files as they are now. If they differ, then the
// imports may differ as well.
func (p *fingerprints) readFiles(ctx context.Context) (*fingerprints, error) {
	names, err := output(ctx, p.root, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	if err != nil {
		return nil, err
	}
	now := &fingerprints{
		root: p.root, module: p.module, base: fmt.Sprintln(runtime.Version(), runtime.GOOS, runtime.GOARCH),
		deps: p.deps, files: map[string][]string{}, builds: map[string]bool{},
	}
	sorted := strings.FieldsFunc(string(names), func(r rune) bool { return r == 0 })
	slices.Sort(sorted)
	for _, name := range slices.Compact(sorted) {
		if err := now.readFile(name); err != nil {
			return nil, err
		}
	}
	return now, nil
}

func output(ctx context.Context, dir, program string, args ...string) ([]byte, error) {
	c := exec.CommandContext(ctx, program, args...)
	c.Dir, c.Stderr = dir, os.Stderr
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", program, args[0], err)
	}
	return out, nil
}

// readFile adds a file to the folder of its package.
func (p *fingerprints) readFile(name string) error {
	text, err := os.ReadFile(filepath.Join(p.root, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it was deleted, and the deletion is not committed
	}
	if err != nil {
		return err
	}
	line := fmt.Sprintf("%s %x\n", name, sha256.Sum256(text))
	if name == "go.mod" || name == "go.sum" {
		p.base += line
		return nil
	}
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if _, ok := p.deps[p.module+"/"+dir]; ok {
			p.files[dir] = append(p.files[dir], line)
			p.builds[dir] = p.builds[dir] || bytes.Contains(text, []byte(builder))
			return nil
		}
	}
	return nil
}

func (p *fingerprints) of(f fault) (string, error) {
	tests, product := map[string]bool{}, map[string]bool{}
	builds := false
	for _, pkg := range f.packages {
		dir := path.Clean(pkg)
		deps, ok := p.deps[p.module+"/"+dir+".test"]
		if !ok {
			return "", fmt.Errorf("%s: no tests in %s", f.name, pkg)
		}
		tests[dir] = true
		builds = p.addFolders(product, deps) || p.builds[dir] || builds
	}
	if builds {
		product[binaryPackage] = true
		p.addFolders(product, p.deps[p.module+"/"+binaryPackage])
	}
	hash := sha256.New() // whose Write returns no error
	_, _ = fmt.Fprintf(hash, "%s%q\n", p.base, []string{f.file, f.old, f.new, f.pattern, strings.Join(f.packages, " ")})
	for _, dir := range slices.Sorted(maps.Keys(p.files)) {
		for _, line := range p.files[dir] {
			name, _, _ := strings.Cut(line, " ")
			if tests[dir] || product[dir] && !strings.HasSuffix(name, "_test.go") {
				_, _ = fmt.Fprint(hash, line)
			}
		}
	}
	return fmt.Sprintf("%x", hash.Sum(nil)[:16]), nil
}

// addFolders adds the folders of the packages with these import paths, and reports whether one of
// them builds the sluice binary.
func (p *fingerprints) addFolders(folders map[string]bool, importPaths []string) (builds bool) {
	for _, importPath := range importPaths {
		importPath, _, _ = strings.Cut(importPath, " [") // a package that is compiled for a test
		if dir, ok := strings.CutPrefix(importPath, p.module+"/"); ok {
			folders[dir] = true
			builds = builds || p.builds[dir]
		}
	}
	return builds
}
