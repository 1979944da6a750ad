package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"sluice/cmd/sluice/internal/settings"
	"sluice/test/testenv"
)

// TestRecipeOfASetting follows the recipe of CONTRIBUTING.md: a row in the table is all that a
// flag, its variable, its key in the file, its default, its check, config print, docs/flags.md and
// completion need.
func TestRecipeOfASetting(t *testing.T) {
	ownContexts(t)
	var widgets int64 // for a field of node.Config
	table := func(c *settings.Configuration) []settings.Setting {
		return append(settings.Table(c), settings.Setting{Name: "max-widgets", Section: settings.Limits, Value: settings.Constant(&widgets, "12"), Check: settings.AtLeast(&widgets, 10), Help: "Maximum number of widgets."})
	}
	var commands *commands
	parsed := func(args ...string) (*kong.Context, *parser, error) {
		commands = newCommands()
		commands.Serve.Flags = settings.NewFlags(table)
		p := testenv.Must(newParser(commands))(t)
		command, err := p.parse(append([]string{"serve"}, args...))
		return command, p, err
	}
	file := configFileOf(t, "max-widgets: 13\n")
	for _, test := range []struct {
		args     []string
		variable string
		value    int64
		source   string
	}{
		{nil, "", 12, settings.SourceDefault},
		{[]string{"--config", file}, "", 13, file + ":1"},
		{[]string{"--config", file}, "14", 14, "SLUICE_MAX_WIDGETS"},
		{[]string{"--config", file, "--max-widgets", "15"}, "14", 15, settings.SourceFlag},
	} {
		if test.variable != "" {
			t.Setenv("SLUICE_MAX_WIDGETS", test.variable)
		}
		command, p, err := parsed(test.args...)
		if err != nil || widgets != test.value {
			t.Fatalf("%q: %d, %v", test.args, widgets, err)
		}
		printed := commands.Serve.Effective(command, &p.read)
		if last := printed[len(printed)-1]; last.Name != "max-widgets" || last.Value != settings.TextOf(test.value) || last.Source != test.source {
			t.Errorf("%q: printed as %+v", test.args, last)
		}
	}
	if _, _, err := parsed("--max-widgets", "9"); err == nil || err.Error() != "--max-widgets 9: must be at least 10" {
		t.Errorf("a wrong value: %v", err)
	}
	_, p, err := parsed()
	testenv.OK(t, err)
	var documented strings.Builder
	testenv.OK(t, settings.WriteTable(&documented, p.kong.Model, table(&settings.Configuration{})))
	row := "| `--max-widgets N` | `SLUICE_MAX_WIDGETS` | `max-widgets` | `12` | Maximum number of widgets. | both |\n"
	if !strings.HasSuffix(documented.String(), row) {
		t.Errorf("docs/flags.md would not end in %s", row)
	}
	if words := candidates(t.Context(), p.kong.Model.Node, []string{"serve", "--max-w"}); !slices.Equal(words, []string{"--max-widgets"}) {
		t.Errorf("completion offers %q", words)
	}
}
