package main

import (
	"fmt"
	"runtime"

	"github.com/alecthomas/kong"

	"sluice/cmd/sluice/internal/cli"
)

type versionCommand struct{ cli.OutputFlags }

// printedVersion is the version in JSON.
type printedVersion struct {
	Version  string `json:"version"`
	Go       string `json:"go"`       // the toolchain's version
	Platform string `json:"platform"` // such as linux/amd64
}

// Run prints the version.
func (v versionCommand) Run(c *cli.Console) error {
	return v.Result(c, printedVersion{cli.Version(), runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}, cli.Version())
}

// versionFlag prints the version and ends the process.
type versionFlag bool

// IgnoreDefault makes kong accept the flag without a command.
func (versionFlag) IgnoreDefault() {}

// BeforeReset prints the version. kong calls it before it looks for a command.
func (versionFlag) BeforeReset(k *kong.Kong) error {
	_, err := fmt.Fprintln(k.Stdout, cli.Version())
	if err == nil {
		k.Exit(0)
	}
	return err
}
