package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sluice/internal/testenv"
)

// TestRecipeOfASetting follows the recipe of CONTRIBUTING.md: a row in the table is all that a
// flag, its variable, its key in the file, its default, its check, config print, docs/flags.md and
// completion need.
func TestRecipeOfASetting(t *testing.T) {
	ownContexts(t)
	var widgets int64 // for a field of node.Config
	table := func(c *configuration) []setting {
		return append(settingTable(c), setting{name: "max-widgets", section: limits, value: constant(&widgets, "12"), check: atLeast(&widgets, 10), help: "Maximum number of widgets."})
	}
	var commands *commands
	parsed := func(args ...string) (*console, error) {
		commands = newCommands()
		commands.Serve.settingFlags = newSettingFlags(table)
		p, err := newParser(commands)
		if err != nil {
			t.Fatal(err)
		}
		command, err := p.parse(append([]string{"serve"}, args...))
		return &console{parser: p, parsed: command}, err
	}
	file := configFileOf(t, "max-widgets: 13\n")
	for _, test := range []struct {
		args     []string
		variable string
		value    int64
		source   string
	}{
		{nil, "", 12, sourceDefault},
		{[]string{"--config", file}, "", 13, file + ":1"},
		{[]string{"--config", file}, "14", 14, "SLUICE_MAX_WIDGETS"},
		{[]string{"--config", file, "--max-widgets", "15"}, "14", 15, sourceFlag},
	} {
		if test.variable != "" {
			t.Setenv("SLUICE_MAX_WIDGETS", test.variable)
		}
		console, err := parsed(test.args...)
		if err != nil || widgets != test.value {
			t.Fatalf("%q: %d, %v", test.args, widgets, err)
		}
		printed := commands.Serve.effective(console)
		if last := printed[len(printed)-1]; last.Name != "max-widgets" || last.Value != textOf(test.value) || last.Source != test.source {
			t.Errorf("%q: printed as %+v", test.args, last)
		}
	}
	if _, err := parsed("--max-widgets", "9"); err == nil || err.Error() != "--max-widgets 9: must be at least 10" {
		t.Errorf("a wrong value: %v", err)
	}
	console, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	var documented strings.Builder
	if err := writeFlagTable(&documented, console.parser.kong.Model, table(&configuration{})); err != nil {
		t.Fatal(err)
	}
	row := "| `--max-widgets N` | `SLUICE_MAX_WIDGETS` | `max-widgets` | `12` | Maximum number of widgets. | both |\n"
	if !strings.HasSuffix(documented.String(), row) {
		t.Errorf("docs/flags.md would not end in %s", row)
	}
	if words := candidates(console.parser.kong.Model.Node, []string{"serve", "--max-w"}); !slices.Equal(words, []string{"--max-widgets"}) {
		t.Errorf("completion offers %q", words)
	}
}

// TestRecipeNamesThePlaces checks with two settings that what the recipe of CONTRIBUTING.md names
// is all that mentions a setting, except the code that acts on it, tests, and the manual.
func TestRecipeNamesThePlaces(t *testing.T) {
	root, err := testenv.Root()
	if err != nil {
		t.Fatal(err)
	}
	contributing, err := os.ReadFile(filepath.Join(root, "CONTRIBUTING.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, recipe, _ := strings.Cut(string(contributing), "### A flag\n")
	recipe, _, _ = strings.Cut(recipe, "\n### ")
	places := []string{"cmd/sluice/settingtable.go", "docs/flags.md", "internal/node/config.go"}
	for _, place := range places {
		if !strings.Contains(recipe, "`"+place) && !strings.Contains(recipe, place+"`") {
			t.Errorf("the recipe does not name %s", place)
		}
	}
	acts := []string{"internal/node/node.go", "internal/node/services.go"}
	for _, words := range [][]string{{"verify-ttl", "VerifyTTL"}, {"drain-deadline", "DrainDeadline"}} {
		var found []string
		for _, folder := range []string{"cmd", "internal/node", "docs/flags.md"} {
			err := filepath.WalkDir(filepath.Join(root, folder), func(name string, entry fs.DirEntry, err error) error {
				if err != nil || entry.IsDir() || strings.HasSuffix(name, "_test.go") || strings.Contains(name, "testdata") {
					return err
				}
				text, err := os.ReadFile(name)
				if err == nil && slices.ContainsFunc(words, func(w string) bool { return strings.Contains(string(text), w) }) {
					relative, _ := filepath.Rel(root, name) // it is below the root
					found = append(found, filepath.ToSlash(relative))
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		found = slices.DeleteFunc(found, func(name string) bool { return slices.Contains(acts, name) })
		slices.Sort(found)
		if !slices.Equal(found, places) {
			t.Errorf("%q is in %q, want %q", words, found, places)
		}
	}
}
