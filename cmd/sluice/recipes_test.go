package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sluice/test/testenv"
)

// recipes are sections of CONTRIBUTING.md, each with regular expressions that find examples of its
// subject.
var recipes = []struct {
	title    string
	examples string
	in       []string // folders and files in which they are looked for
	acts     []string // code that acts on an example, which no recipe can name
	others   []string // places that no example needs
	tests    bool     // tests must be named, too
}{
	{title: "A member of a body", examples: `(?i)maxMetadataBytes|foldedAmount`, in: []string{""}},
	{title: "An operation of S3's interface", examples: `[pP]utObjectTagging|putTagging`, in: []string{""}, tests: true},
	{title: "An error code", examples: `deposit_on_chain|CodeDepositOnChain|CodeDamaged\b`, in: []string{""}, acts: []string{"wire/openapi.yaml"}, others: []string{"client/errors.go"}},
	{title: "A setting", examples: `verify-ttl|VerifyTTL|drain-deadline|DrainDeadline`, in: []string{"cmd/", "node/", "docs/flags.md"},
		acts: []string{"node/node.go", "node/services.go"}, others: []string{"access/keys/limits.go", "docs/operations.md", "node/membership.go"}},
	{title: "A flag of a command", examples: `older-than|OlderThan`, in: []string{""}, tests: true},
	{title: "A column of blobs", examples: `shared_second|SharedSecond|(?i:\bcrc64)`, in: []string{"database/sqlstore/", "metastore/"}},
}

// place finds the paths in a recipe.
var place = regexp.MustCompile("`([\\w./-]+)`|([\\w.-]+/[\\w./-]*\\.\\w+)")

// TestRecipesNameThePlaces checks that each file with an example of a recipe's subject is in the
// recipe, by itself or by its folder, and that each place in the recipe has an example.
func TestRecipesNameThePlaces(t *testing.T) {
	root := testenv.Must(testenv.Root())(t)
	files := filesBelow(t, root)
	for _, r := range recipes {
		recipe := recipeOf(t, root, r.title)
		needed := append([]string{"CHANGELOG.md"}, r.others...)
		var places []string
		for _, match := range place.FindAllStringSubmatch(recipe, -1) {
			name := match[1] + match[2]
			if _, err := os.Stat(filepath.Join(root, name)); err == nil {
				places = append(places, name)
			}
		}
		example := regexp.MustCompile(r.examples)
		for file, content := range files {
			test := strings.HasSuffix(file, "_test.go") || strings.Contains(file, "e2e/") || strings.Contains(file, "testdata/")
			within := slices.ContainsFunc(r.in, func(folder string) bool { return strings.HasPrefix(file, folder) })
			if !within || test && !r.tests || slices.Contains(r.acts, file) || !example.Match(content) {
				continue
			}
			i := slices.IndexFunc(places, func(p string) bool { return file == p || strings.HasPrefix(file, p+"/") })
			if i < 0 {
				t.Errorf("the recipe %q does not name %s", r.title, file)
				continue
			}
			needed = append(needed, places[i])
		}
		for _, p := range places {
			if !slices.Contains(needed, p) {
				t.Errorf("the recipe %q names %s, which has no example", r.title, p)
			}
		}
	}
}

// recipeOf returns a section of CONTRIBUTING.md.
func recipeOf(t *testing.T, root, title string) string {
	t.Helper()
	text := testenv.Must(os.ReadFile(filepath.Join(root, "CONTRIBUTING.md")))(t)
	_, recipe, _ := strings.Cut(string(text), "### "+title+"\n")
	recipe, _, _ = strings.Cut(recipe, "\n### ")
	return recipe
}

// filesBelow returns the contents of the files in which a recipe's subject can be, by their paths.
func filesBelow(t *testing.T, root string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if strings.HasPrefix(entry.Name(), ".") || slices.Contains([]string{"node_modules", "vendor", "decisions", "mutants"}, entry.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		relative, _ := filepath.Rel(root, name) // it is below the root
		if relative = filepath.ToSlash(relative); !slices.Contains([]string{"CHANGELOG.md", "CONTRIBUTING.md", "cmd/sluice/recipes_test.go"}, relative) {
			files[relative], err = os.ReadFile(name)
		}
		return err
	})
	testenv.OK(t, err)
	return files
}
