package main

import (
	"runtime"

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
