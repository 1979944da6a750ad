package main

import (
	"slices"

	"sluice/cmd/sluice/internal/cli"
	"sluice/cmd/sluice/internal/settings"
)

// helpCommand prints a command's help, as --help does.
type helpCommand struct {
	Command []string `arg:"" optional:"" help:"Words of the command. Default: list all commands."`
	Flags   bool     `env:"-" xor:"form" help:"Print the table of the flags of serve, in Markdown."`
	Man     bool     `env:"-" xor:"form" help:"Print the manual page, for man."`
}

// Run prints the help.
func (c *helpCommand) Run(console *cli.Console, parser *parser) error {
	if c.Flags {
		return settings.WriteTable(console.Out, parser.kong.Model, settings.Table(&settings.Configuration{}))
	}
	if c.Man {
		return writeMan(console.Out, parser.kong.Model)
	}
	printed := false
	parser.kong.Exit = func(int) { printed = true }
	if _, err := parser.parse(append(slices.Clone(c.Command), "--help")); !printed {
		return cli.ExitWith(cli.ExitUsage, err)
	}
	return nil
}
