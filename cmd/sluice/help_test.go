package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/mattn/go-runewidth"

	"sluice/internal/testenv"
)

// TestHelpFits checks the help of every command: its width, that it has the same words in two
// spellings, and that it shows the flags' defaults.
func TestHelpFits(t *testing.T) {
	p := testenv.Must(newParser(newCommands()))(t)
	nodes := []*kong.Node{p.kong.Model.Node}
	for i := 0; i < len(nodes); i++ {
		nodes = append(nodes, nodes[i].Children...)
	}
	for _, node := range nodes {
		words := strings.Fields(pathOf(node))
		narrow := helpWithin(t, 80, 80, append(words, "--help")...)
		text := helpWithin(t, 200, helpWidth, append([]string{"help"}, words...)...)
		if narrow != text {
			t.Errorf("sluice help %s differs from --help", pathOf(node))
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

// helpWithin returns the words that a command prints on a terminal with columns. The test fails
// unless every line fits into most.
func helpWithin(t *testing.T, columns, most int, args ...string) string {
	t.Helper()
	t.Setenv("COLUMNS", strconv.Itoa(columns))
	text := must(t, args...).stdout
	for line := range strings.Lines(text) {
		if width := runewidth.StringWidth(strings.TrimSuffix(line, "\n")); width > most {
			t.Errorf("%q on a terminal of %d columns has %d: %s", args, columns, width, line)
		}
	}
	return strings.Join(strings.Fields(text), " ")
}

func TestVersionAndHelpWork(t *testing.T) {
	want := version() + "\n"
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
		if r := must(t, line); r.stdout != help {
			t.Errorf("%s differs from help", line)
		}
	}
}

// TestManualPage checks that a strict formatter accepts the manual page, and that it has every
// command and flag.
func TestManualPage(t *testing.T) {
	testenv.Require(t, testenv.Mandoc)
	page := filepath.Join(testenv.MemoryDir(t), "sluice.1")
	testenv.OK(t, os.WriteFile(page, []byte(must(t, "help", "--man").stdout), 0o600))
	if out, err := exec.Command("mandoc", "-T", "lint", "-W", "warning", page).CombinedOutput(); err != nil {
		t.Errorf("mandoc: %v\n%s", err, out)
	}
	out := testenv.Must(exec.Command("mandoc", "-T", "ascii", "-O", "width=100", page).Output())(t)
	text := regexp.MustCompile(".\x08").ReplaceAllString(string(out), "") // without bold and italics
	p := testenv.Must(newParser(newCommands()))(t)
	for _, command := range p.kong.Model.Leaves(true) {
		if !strings.Contains(text, "sluice "+pathOf(command)) {
			t.Errorf("the page lacks %s", pathOf(command))
		}
		for _, flag := range command.Flags {
			if !flag.Hidden && !strings.Contains(text, "--"+flag.Name) {
				t.Errorf("the page lacks --%s of %s", flag.Name, pathOf(command))
			}
		}
	}
}

// TestEveryCommandHasExamples checks that the help of each command shows how to call it.
func TestEveryCommandHasExamples(t *testing.T) {
	p := testenv.Must(newParser(newCommands()))(t)
	for _, command := range p.kong.Model.Leaves(true) {
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
		json, quiet := flagOf(command, "json"), flagOf(command, "quiet")
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
