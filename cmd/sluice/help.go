package main

import (
	"slices"

	"github.com/alecthomas/kong"
)

// helpCommand prints a command's help, as --help does.
type helpCommand struct {
	Command []string `arg:"" optional:"" help:"Words of the command. Default: list all commands."`
	Flags   bool     `env:"-" help:"Print the table of the flags of serve, in Markdown."`
}

// Help returns examples.
func (helpCommand) Help() string {
	return examples("sluice help", "sluice help key create", "sluice help --flags")
}

// Run prints the help.
func (c *helpCommand) Run(console *console) error {
	if c.Flags {
		return writeFlagTable(console.out, console.parser.kong.Model, settingTable(&configuration{}))
	}
	printed := false
	p, err := console.newParser(kong.Writers(console.out, console.err), kong.Exit(func(int) { printed = true }))
	if err != nil {
		return err
	}
	if _, err := p.parse(append(slices.Clone(c.Command), "--help")); !printed {
		return exitWith(exitUsage, err)
	}
	return nil
}
