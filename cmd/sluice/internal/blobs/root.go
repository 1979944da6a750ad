package blobs

import (
	"context"
	"errors"
	"os"

	"sluice/cmd/sluice/internal/cli"
	"sluice/cmd/sluice/internal/operand"
	"sluice/cmd/sluice/internal/terminal"
	"sluice/commit"
)

// Root prints the roots of files, and needs no server.
type Root struct {
	Files []string `arg:"" name:"file" help:"File, or - for standard input. Several are possible."`

	cli.OutputFlags
}

// printedRoot is a file's root in JSON.
type printedRoot struct {
	File string      `json:"file"`
	Size int64       `json:"size"`
	Root commit.Root `json:"root"`
}

// Run prints the roots. A file that cannot be read does not stop the rest.
func (c *Root) Run(ctx context.Context, console *cli.Console) error {
	table := c.Table(console, "")
	var errs []error
	for _, file := range c.Files {
		of, err := rootOf(ctx, console, file)
		if err == nil {
			err = table.Row(printedRoot{file, of.Size, of.Root}, of.Root.String(), terminal.Name(file))
		}
		if err != nil {
			errs = append(errs, err)
		}
		if ctx.Err() != nil {
			break
		}
	}
	err := errors.Join(append(errs, table.Flush())...)
	if err != nil && len(errs) < len(c.Files) {
		return cli.ExitWith(cli.ExitPartly, err)
	}
	return err
}

// rootOf reads a file and returns its roots.
func rootOf(ctx context.Context, console *cli.Console, file string) (commit.Commitment, error) {
	in := console.In
	if file != operand.Stdio {
		f, err := os.Open(file)
		if err != nil {
			return commit.Commitment{}, err
		}
		defer func() { _ = f.Close() }() // it was only read
		in = f
	}
	var w commit.Writer
	if _, err := w.ReadFrom(cli.Interruptible(ctx, in)); err != nil {
		return commit.Commitment{}, err
	}
	return w.Commitment(), nil
}
