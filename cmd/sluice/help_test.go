package main

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/mattn/go-runewidth"

	"sluice/cmd/sluice/internal/cli"
	"sluice/cmd/sluice/internal/settings"
	"sluice/test/testenv"
)

// unreplaced matches a variable of kong, and none of a shell's arrays.
var unreplaced = regexp.MustCompile(`\$\{[a-z0-9_-]+\}`)

// TestHelpFits checks the help of every command: its width, and that it shows the flags' defaults.
func TestHelpFits(t *testing.T) {
	var out strings.Builder
	p := testenv.Must(newParser(newCommands(), kong.Writers(&out, &out), kong.Exit(func(int) {})))(t)
	nodes := []*kong.Node{p.kong.Model.Node}
	for i := 0; i < len(nodes); i++ {
		nodes = append(nodes, nodes[i].Children...)
	}
	// helpWithin returns the words of a command's help on a terminal with columns. The test fails
	// unless every line fits into most.
	helpWithin := func(node *kong.Node, columns, most int) string {
		t.Setenv("COLUMNS", strconv.Itoa(columns))
		out.Reset()
		// After the help the parser goes on, and may miss arguments.
		_, _ = p.parse(append(strings.Fields(pathOf(node)), "--help"))
		for line := range strings.Lines(out.String()) {
			if width := runewidth.StringWidth(strings.TrimSuffix(line, "\n")); width > most {
				t.Errorf("%q on a terminal of %d columns has %d: %s", pathOf(node), columns, width, line)
			}
		}
		return strings.Join(strings.Fields(out.String()), " ")
	}
	for _, node := range nodes {
		narrow, text := helpWithin(node, 80, 80), helpWithin(node, 200, helpWidth)
		if narrow != text || !strings.HasPrefix(text, "Usage: ") {
			t.Errorf("the help of %q depends on the terminal: %s", pathOf(node), text)
		}
		if strings.Contains(text, "(-)") || unreplaced.MatchString(text) {
			t.Errorf("the help of %q has variables without a name or a text", pathOf(node))
		}
		for _, flag := range node.Flags {
			if flag.HasDefault && !flag.IsBool() && !strings.Contains(flag.Help, "Default:") && !strings.Contains(text, "Default: "+flag.Default) {
				t.Errorf("%s: the default of --%s, %s, is not shown", pathOf(node), flag.Name, flag.Default)
			}
			if flag.Help == "" {
				t.Errorf("%s: --%s has no help", pathOf(node), flag.Name)
			}
		}
	}
}

func TestVersionAndHelpWork(t *testing.T) {
	want := cli.Version() + "\n"
	for _, line := range []string{"version", "--version", "-v"} {
		if r := must(t, line); r.stdout != want || r.stderr != "" {
			t.Errorf("%s: %+v, want %q", line, r, want)
		}
	}
	help := must(t, "help").stdout
	for _, want := range []string{"serve ", "key create ", "130  interrupted"} {
		if !strings.Contains(help, want) {
			t.Errorf("the help lacks %q:\n%s", want, help)
		}
	}
	for _, line := range []string{"--help", "-h"} {
		testenv.Equal(t, must(t, line).stdout, help, "%s", line)
	}
	of := must(t, "help", "key", "create").stdout
	testenv.Equal(t, must(t, "key", "create", "--help").stdout, of, "key create --help")
}

// TestEveryCommandHasExamples checks that the help of each command shows how to call it. A default
// command may be shown without its name.
func TestEveryCommandHasExamples(t *testing.T) {
	p := testenv.Must(newParser(newCommands()))(t)
	for _, command := range p.kong.Model.Leaves(true) {
		if command.Parent.DefaultCmd == command && strings.Contains(command.Detail, "sluice "+pathOf(command.Parent)+" ") {
			continue
		}
		if !strings.Contains(command.Detail, "sluice "+pathOf(command)) {
			t.Errorf("%s has no example: it needs a method Help that returns examples(...)", pathOf(command))
		}
	}
}

// TestOutputFlagsAreTheSame checks that commands with --json also have --quiet, and that both are
// described in the same way everywhere.
func TestOutputFlagsAreTheSame(t *testing.T) {
	p := testenv.Must(newParser(newCommands()))(t)
	help := map[string]string{}
	for _, command := range p.kong.Model.Leaves(true) {
		json, quiet := settings.FlagOf(command, "json"), settings.FlagOf(command, "quiet")
		if (json == nil) != (quiet == nil) && pathOf(command) != "cat" { // which has no output of its own
			t.Errorf("%s has one of --json and --quiet", pathOf(command))
		}
		for _, flag := range []*kong.Flag{json, quiet} {
			if flag == nil || pathOf(command) == "cat" {
				continue
			}
			if other := help[flag.Name]; other != "" && other != flag.Help {
				t.Errorf("%s describes --%s as %q, another command as %q", pathOf(command), flag.Name, flag.Help, other)
			}
			help[flag.Name] = flag.Help
		}
	}
	if len(help) != 2 {
		t.Errorf("there are %v", help)
	}
}
