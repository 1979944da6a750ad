package arch

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestDependenciesAreListed checks that each direct dependency of go.mod is named exactly once by
// the decision about dependencies, among the tests' if nothing else imports it, and that the
// decision names no other module.
func TestDependenciesAreListed(t *testing.T) {
	var direct []string
	for _, line := range regexp.MustCompile(`(?m)^\t(\S+) v\S+$`).FindAllStringSubmatch(textOf(t, "go.mod"), -1) {
		direct = append(direct, line[1])
	}
	if len(direct) < 20 {
		t.Fatalf("go.mod has %d direct dependencies", len(direct))
	}
	production, tests, found := strings.Cut(textOf(t, "docs", "decisions", "0009-dependencies.md"), "\nTests only:\n")
	if !found {
		t.Fatal("the decision has no dependencies of the tests")
	}
	production, tests = strings.Join(listedModules(production), " "), strings.Join(listedModules(tests), " ")
	served := productionModules(t, direct)
	for _, module := range direct {
		inProduction, inTests := strings.Count(" "+production+" ", " "+module+" "), strings.Count(" "+tests+" ", " "+module+" ")
		switch {
		case inProduction+inTests != 1:
			t.Errorf("the decision names %s %d times, want once", module, inProduction+inTests)
		case served[module] != (inProduction == 1):
			t.Errorf("%s is imported by the product: %t; the decision names it as one of the tests only: %t", module, served[module], inTests == 1)
		}
	}
	for _, module := range strings.Fields(production + " " + tests) {
		if !slices.Contains(direct, module) {
			t.Errorf("the decision names %s, which is no direct dependency", module)
		}
	}
}

// listedModules returns the Go modules in the first column of a document's tables.
func listedModules(text string) (modules []string) {
	for _, row := range regexp.MustCompile(`(?m)^\| ([^|]+) \|`).FindAllStringSubmatch(text, -1) {
		if strings.Contains(row[1], "(npm") {
			continue
		}
		for _, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[1], -1) {
			modules = append(modules, name[1])
		}
	}
	return modules
}

// productionModules returns the modules that packages import outside the tests.
func productionModules(t *testing.T, modules []string) map[string]bool {
	served := map[string]bool{}
	for _, s := range sources(t) {
		if s.test || within(s.dir, testOnly...) {
			continue
		}
		for _, imported := range s.imports {
			served[moduleOf(imported, modules)] = true
		}
	}
	return served
}

// moduleOf returns the longest module that a package can be in, or "".
func moduleOf(path string, modules []string) (longest string) {
	for _, module := range modules {
		if (path == module || strings.HasPrefix(path, module+"/")) && len(module) > len(longest) {
			longest = module
		}
	}
	return longest
}
