package main

import (
	"fmt"
	"runtime"

	"github.com/alecthomas/kong"

	"sluice/cmd/sluice/internal/terminal"
)

type versionCommand struct{ outputFlags }

// printedVersion is the version in JSON.
type printedVersion struct {
	Version  string `json:"version"`
	Go       string `json:"go"`       // the toolchain's version
	Platform string `json:"platform"` // such as linux/amd64
}

// Help returns examples.
func (versionCommand) Help() string { return examples("sluice version", "sluice version --json") }

// Run prints the version.
func (v versionCommand) Run(c *console) error {
	if v.JSON {
		return terminal.WriteJSON(c.out, printedVersion{version(), runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH})
	}
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
