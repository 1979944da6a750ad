package arch

import (
	"errors"
	"fmt"
	"go/ast"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"sluice/test/testenv"
)

// document is a Markdown file.
type document struct {
	file string
	text string
}

// documents returns the Markdown files at the project's root and in docs.
func documents(t *testing.T) []document {
	t.Helper()
	root := testenv.Must(testenv.Root())(t)
	files := testenv.Must(filepath.Glob(filepath.Join(root, "*.md")))(t)
	err := filepath.WalkDir(filepath.Join(root, "docs"), func(name string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && strings.HasSuffix(name, ".md") && !entry.IsDir() {
			files = append(files, name)
		}
		return err
	})
	testenv.OK(t, err)
	var all []document
	for _, file := range files {
		text := testenv.Must(os.ReadFile(file))(t)
		relative := testenv.Must(filepath.Rel(root, file))(t)
		all = append(all, document{relative, string(text)})
	}
	return all
}

var (
	quoted     = regexp.MustCompile("`([^`\n]+)`")
	link       = regexp.MustCompile(`\]\(([^)#\s]+)(#[^)]*)?\)`)
	makeTarget = regexp.MustCompile(`\bmake ([a-z][a-z-]*)`)
	testName   = regexp.MustCompile(`\b((?:Test|Fuzz|Benchmark)[A-Z]\w*)`)
	filePath   = regexp.MustCompile(`^[\w.-]+(/[\w.-]+)*/?$`)
)

// layout lists the top-level folders: a path that begins with one of them is a path of this
// project.
var layout = []string{"backup", "feed", "webhook", "chain", "collect", "cmd", "client", "console", "conformance", "checksum", "wire", "micropay", "commit", "claycode", "httpapi", "exchange", "s3api", "metering", "blob", "history", "integrity", "session", "paychan",
	"access", "admin", "instance", "database", "metastore", "ledger", "bytestore", "node", "storage", "load", "internal", "test", "deploy", "e2e", "examples", "docs", ".ci"}

// standardPackage has the packages of Go's library that documents quote and that would be paths of
// this project by their first element.
var standardPackage = map[string]bool{"database/sql": true}

// TestDocumentsNameExistingPaths checks that every path exists if a document quotes or links to it
// and it is in the project.
func TestDocumentsNameExistingPaths(t *testing.T) {
	root := testenv.Must(testenv.Root())(t)
	for _, d := range documents(t) {
		for _, found := range quoted.FindAllStringSubmatch(d.text, -1) {
			if name := found[1]; namesFile(name) {
				checkPath(t, d, root, name)
			}
		}
		for _, found := range link.FindAllStringSubmatch(d.text, -1) {
			if target := found[1]; !strings.Contains(target, ":") {
				checkPath(t, d, filepath.Join(root, filepath.Dir(d.file)), target)
			}
		}
	}
}

// namesFile reports whether a quoted word is a path in the project.
func namesFile(word string) bool {
	if !filePath.MatchString(word) || standardPackage[word] {
		return false
	}
	if first, _, nested := strings.Cut(word, "/"); nested {
		return slices.Contains(layout, first)
	}
	return strings.HasSuffix(word, ".md") || word == "Makefile"
}

func checkPath(t *testing.T, d document, base, name string) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(base, filepath.FromSlash(name))); err != nil {
		t.Errorf("%s names %s: %v", d.file, name, err)
	}
}

var (
	anchor  = regexp.MustCompile(`\]\(([^)#\s]*)#([^)]*)\)`)
	heading = regexp.MustCompile(`(?m)^#+ +(.+)$`)
	omitted = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// TestDocumentsNameExistingSections checks that each link to a section, of the same document or of
// another one, names a heading as GitHub's anchors do.
func TestDocumentsNameExistingSections(t *testing.T) {
	sections := map[string]bool{} // FILE#ANCHOR
	for _, d := range documents(t) {
		for _, found := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(d.text, ""), -1) {
			name := d.file + "#" + strings.ReplaceAll(omitted.ReplaceAllString(strings.ToLower(found[1]), ""), " ", "-")
			unique := name
			for i := 1; sections[unique]; i++ {
				unique = fmt.Sprintf("%s-%d", name, i)
			}
			sections[unique] = true
		}
	}
	for _, d := range documents(t) {
		for _, found := range anchor.FindAllStringSubmatch(d.text, -1) {
			file := d.file
			if found[1] != "" {
				file = filepath.Join(filepath.Dir(d.file), found[1])
			}
			if strings.HasSuffix(file, ".md") && !strings.Contains(found[1], ":") && !sections[file+"#"+found[2]] {
				t.Errorf("%s links to the section #%s of %s, which does not exist", d.file, found[2], file)
			}
		}
	}
}

// TestDocumentsNameExistingTargets checks that every make target in a document exists.
func TestDocumentsNameExistingTargets(t *testing.T) {
	makefile := textOf(t, "Makefile")
	for _, d := range documents(t) {
		for _, code := range codeOf(d.text) {
			for _, found := range makeTarget.FindAllStringSubmatch(code, -1) {
				if !strings.Contains("\n"+makefile, "\n"+found[1]+":") {
					t.Errorf("%s names %q, but the Makefile has no such target", d.file, found[0])
				}
			}
		}
	}
}

var fenced = regexp.MustCompile("(?s)```.*?```")

// codeOf returns the code in a document: fenced blocks and quoted words.
func codeOf(text string) []string {
	code := fenced.FindAllString(text, -1)
	for _, found := range quoted.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
		code = append(code, found[1])
	}
	return code
}

// TestDocumentsNameExistingTests checks that every test, fuzz target and benchmark in a document
// exists.
func TestDocumentsNameExistingTests(t *testing.T) {
	known := map[string]bool{}
	for _, s := range sources(t) {
		if !s.test {
			continue
		}
		for _, declared := range s.syntax.Decls {
			if function, ok := declared.(*ast.FuncDecl); ok {
				known[function.Name.Name] = true
			}
		}
	}
	for _, d := range documents(t) {
		for _, found := range testName.FindAllStringSubmatch(d.text, -1) {
			if !known[found[1]] {
				t.Errorf("%s names %s, which does not exist", d.file, found[1])
			}
		}
	}
}

// TestEachPromiseIsDefended checks that docs/reliability.md names tests for each row of the
// guarantees in README.md, and has no other row but the backups.
func TestEachPromiseIsDefended(t *testing.T) {
	root := testenv.Must(testenv.Root())(t)
	rows := func(file, heading string) (list [][]string) {
		_, text, found := strings.Cut(string(testenv.Must(os.ReadFile(filepath.Join(root, file)))(t)), "\n## "+heading+"\n")
		if !found {
			t.Fatalf("%s has no section %q", file, heading)
		}
		text, _, _ = strings.Cut(text, "\n## ")
		_, text, _ = strings.Cut(text, "|---|")
		for line := range strings.Lines(text) {
			if cells := strings.Split(strings.TrimSpace(line), " | "); strings.HasPrefix(line, "| ") {
				list = append(list, append([]string{strings.TrimPrefix(cells[0], "| ")}, cells[1:]...))
			}
		}
		return list
	}
	var promised, defended []string
	for _, row := range rows("README.md", "Guarantees") {
		promised = append(promised, row[0])
	}
	for _, row := range rows("docs/reliability.md", "What defends each promise") {
		defended = append(defended, row[0])
		if !strings.Contains(row[1], "`Test") {
			t.Errorf("%s is defended by no test", row[0])
		}
	}
	if want := append(promised, "Backups"); len(promised) == 0 || !slices.Equal(defended, want) {
		t.Errorf("defended are %q, want %q", defended, want)
	}
}

// TestDocumentsAreWrapped checks that ARCHITECTURE.md has at most 100 lines, and that the lines of
// documents have at most 100 columns, except in tables and code and if a long quotation is in them.
func TestDocumentsAreWrapped(t *testing.T) {
	const limit, longQuotation = 100, 60
	for _, d := range documents(t) {
		lines := strings.Split(strings.TrimSuffix(d.text, "\n"), "\n")
		if d.file == "ARCHITECTURE.md" && len(lines) > limit {
			t.Errorf("%s has %d lines, want at most %d", d.file, len(lines), limit)
		}
		code := false
		for i, line := range lines {
			switch start := strings.TrimLeft(line, " "); {
			case strings.HasPrefix(start, "```"):
				code = !code
				continue
			case code, strings.HasPrefix(start, "|"), utf8.RuneCountInString(line) <= limit:
				continue
			}
			if !slices.ContainsFunc(quoted.FindAllString(line, -1), func(q string) bool { return len(q) > longQuotation }) {
				t.Errorf("%s:%d has %d columns, want at most %d", d.file, i+1, utf8.RuneCountInString(line), limit)
			}
		}
	}
}

// TestDocumentRules checks which words count as paths.
func TestDocumentRules(t *testing.T) {
	for word, want := range map[string]bool{
		"bytestore/bytestore.go": true,
		"internal/vfs":           true,
		"cmd/sluice/":            true,
		"README.md":              true,
		"Makefile":               true,
		"application/json":       false,
		"/v1/blobs":              false,
		"./sluice-data":          false,
		"a//b":                   false,
		"go test ./...":          false,
		"s3://bucket/prefix":     false,
		"blob":                   false,
	} {
		testenv.Equal(t, namesFile(word), want, "namesFile(%q)", word)
	}
}
