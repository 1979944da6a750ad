package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"

	"sluice/test/testenv"
)

// TestTestsAreInTheirPlaces checks that make test and make long run the right tests: a file's build
// tag and the names of file and tests agree.
func TestTestsAreInTheirPlaces(t *testing.T) {
	for _, s := range sources(t) {
		if !s.test {
			continue
		}
		for _, complaint := range misplaced(s.file, s.text, s.syntax) {
			t.Errorf("%s: %s", s.file, complaint)
		}
	}
}

// misplaced returns the disagreements in a file of tests.
func misplaced(file, text string, parsed *ast.File) (complaints []string) {
	long := strings.HasSuffix(file, "_long_test.go")
	if tagged := strings.HasPrefix(text, "//go:build long\n"); tagged != long {
		complaints = append(complaints, "the build tag long and a name that ends in _long_test.go belong together")
	}
	for _, declaration := range parsed.Decls {
		f, ok := declaration.(*ast.FuncDecl)
		if ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") && strings.HasSuffix(f.Name.Name, "Long") != long {
			complaints = append(complaints, "make long runs the tests that end in Long, in files that end in _long_test.go; "+f.Name.Name+" is not both")
		}
	}
	return complaints
}

// TestMisplaced checks that each disagreement is found.
func TestMisplaced(t *testing.T) {
	for _, tc := range []struct {
		file, text string
		fine       bool
	}{
		{"blob/put_test.go", "package blob\n\nfunc TestPut(t *testing.T) {}\n", true},
		{"blob/put_long_test.go", "//go:build long\n\npackage blob\n\nfunc TestPutLong(t *testing.T) {}\n", true},
		{"blob/put_long_test.go", "package blob\n\nfunc TestPutLong(t *testing.T) {}\n", false},
		{"blob/put_test.go", "//go:build long\n\npackage blob\n", false},
		{"blob/put_test.go", "package blob\n\nfunc TestPutLong(t *testing.T) {}\n", false},
		{"blob/put_long_test.go", "//go:build long\n\npackage blob\n\nfunc TestPut(t *testing.T) {}\n", false},
	} {
		parsed := testenv.Must(parser.ParseFile(token.NewFileSet(), tc.file, tc.text, 0))(t)
		if got := misplaced(tc.file, tc.text, parsed); (len(got) == 0) != tc.fine {
			t.Errorf("%s with %q: %q", tc.file, tc.text, got)
		}
	}
}
