package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// helpWidth is the maximum width of help texts, in columns.
const helpWidth = 100

// helpCommand prints the help of a command, as --help does.
type helpCommand struct {
	Command []string `arg:"" optional:"" help:"Words of the command. Default: list all commands."`
	Man     bool     `env:"-" help:"Print the manual page of all commands, in roff."`
}

// Help returns examples.
func (helpCommand) Help() string {
	return examples("sluice help", "sluice help key create", "sluice help --man | man -l -")
}

// Run prints the help.
func (c *helpCommand) Run(console *console) error {
	if c.Man {
		return writeMan(console.out, console.parser.kong.Model)
	}
	printed := false
	p, err := newParser(kong.Writers(console.out, console.err), kong.Exit(func(int) { printed = true }))
	if err != nil {
		return err
	}
	if _, err := p.parse(append(slices.Clone(c.Command), "--help")); !printed {
		return exitWith(exitUsage, err)
	}
	return nil
}

// examples returns the detailed help of a command: examples of calls, one a line.
func examples(calls ...string) string {
	return "Examples:\n\n    " + strings.Join(calls, "\n    ")
}

// Help returns what the list of all commands adds: the exit codes.
func (*commands) Help() string {
	var b strings.Builder
	b.WriteString("Exit codes:\n\n")
	for _, c := range exitCodes {
		_, _ = fmt.Fprintf(&b, "    %-3d  %s\n", c.code, c.meaning)
	}
	return b.String()
}

// describeFlag returns the help text of a flag or an argument, with its default and its variable.
func describeFlag(value *kong.Value) string {
	text := value.Help
	if value.HasDefault && value.Default != "" && !value.IsBool() && !strings.Contains(text, "Default:") {
		text = strings.TrimSpace(text + " Default: " + value.Default + ".")
	}
	if len(value.Tag.Envs) > 0 {
		text = strings.TrimSuffix(text, ".") + " (" + strings.Join(value.Tag.Envs, ", ") + ")."
	}
	return text
}

// versionFlag prints the version and ends the process.
type versionFlag bool

// IgnoreDefault makes kong accept the flag without a command.
func (versionFlag) IgnoreDefault() {}

// BeforeReset prints the version. kong calls it before it looks for a command.
func (versionFlag) BeforeReset(k *kong.Kong) error {
	_, err := fmt.Fprintln(k.Stdout, version())
	if err == nil {
		k.Exit(0)
	}
	return err
}
