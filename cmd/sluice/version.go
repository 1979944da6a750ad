package main

import (
	"fmt"

	"github.com/alecthomas/kong"
)

type versionCommand struct{}

// Help returns examples.
func (versionCommand) Help() string { return examples("sluice version") }

// Run prints the version.
func (versionCommand) Run(c *console) error {
	_, err := fmt.Fprintln(c.out, version())
	return err
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
