package blobs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"sluice/client"
	"sluice/client/folder"
	"sluice/cmd/sluice/internal/cli"
	"sluice/cmd/sluice/internal/operand"
	"sluice/cmd/sluice/internal/payments"
	"sluice/cmd/sluice/internal/terminal"
)

// Sync makes a folder or a prefix like another.
type Sync struct {
	Source cli.LocalOrRemote `arg:"" name:"source" help:"Folder, ACCOUNT/PREFIX/ or CONTEXT:ACCOUNT/PREFIX/."`
	Target cli.LocalOrRemote `arg:"" name:"target" help:"The same."`

	Delete bool `env:"-" help:"Delete from the target each name that the source does not have."`
	DryRun bool `short:"n" env:"-" help:"Print the changes that would be made, and make none."`
	Force  bool `env:"-" help:"Delete even if the source is empty, or if some of it could not be listed or copied."`

	TrackRenames bool `env:"-" help:"Rename or copy in the target what it has under another name, in place of transferring it."`

	cli.ServerFlags
	cli.OutputFlags
	writeFlags
	payments.ReadFlags
	transferFlags
}

// AfterApply decides which operands are remote.
func (c *Sync) AfterApply() error {
	cli.Resolve(&c.Source, &c.Target)
	return nil
}

// Run copies the blobs and files that differ, and then deletes.
func (c *Sync) Run(ctx context.Context, console *cli.Console) error {
	source, target := c.Source.Operand, c.Target.Operand
	switch {
	case source.Remote == nil && target.Remote == nil:
		return bothLocal(source, target)
	case source.IsStdio() || target.IsStdio():
		return cli.Usagef("sync has no - as operand: want a folder and ACCOUNT/PREFIX/")
	}
	t := transfer{console: console, server: &c.ServerFlags, output: c.OutputFlags, writes: &c.writeFlags, reads: &c.ReadFlags, flags: &c.transferFlags, folders: true}
	b, err := t.batch(ctx, folder.Options{DryRun: c.DryRun, TrackRenames: c.TrackRenames}, source, target)
	if err != nil {
		return err
	}
	b.remarkAssumed(c.Source, c.Target)
	return b.end(ctx, c.run(ctx, b))
}

func (c *Sync) run(ctx context.Context, b *batch) error {
	source, err := c.end(b, b.from, c.Source.Operand, false)
	if err != nil {
		return err
	}
	target, err := c.end(b, b.to, c.Target.Operand, true)
	if err != nil {
		return err
	}
	if err := b.Sync(ctx, source, target, c.Delete, c.Force); err != nil {
		return b.listError(err)
	}
	if err := b.run(ctx); err != nil || !b.SourceIsEmpty() || c.Force {
		return err
	}
	if c.Source.Remote != nil {
		return b.nothingAt(cli.AsFolder(*c.Source.Remote))
	}
	b.nothingIn(c.Source.Path)
	return nil
}

// end returns the folder or prefix that an operand names. A folder must exist unless it is written.
func (c *Sync) end(b *batch, on *client.Client, of operand.Operand, written bool) (folder.End, error) {
	if of.Remote != nil {
		return b.prefix(on, cli.AsFolder(*of.Remote)), nil
	}
	if written && !c.DryRun {
		if err := os.MkdirAll(of.Path, 0o777); err != nil {
			return nil, err
		}
	}
	info, err := os.Stat(of.Path)
	if written && errors.Is(err, fs.ErrNotExist) {
		return folder.Dir(of.Path), nil
	}
	if err != nil || !info.IsDir() {
		return nil, cli.ExitWith(cli.ExitNotFound, fmt.Errorf("there is no folder %s%s", terminal.Name(of.Path), ifRemote(of.Path)))
	}
	return folder.Dir(of.Path), nil
}
