package blobs

import (
	"context"
	"errors"

	"sluice/client"
	"sluice/client/folder"
	"sluice/cmd/sluice/internal/cli"
	"sluice/cmd/sluice/internal/operand"
	"sluice/cmd/sluice/internal/terminal"
)

// Mv renames blobs.
type Mv struct {
	Source cli.RemoteOperand `arg:"" name:"source" help:"ACCOUNT/NAME, or ACCOUNT/PREFIX/ with -r."`
	Target cli.RemoteOperand `arg:"" name:"target" help:"The same, on the same server. A target that ends in / keeps the source's name."`

	Recursive bool `short:"r" env:"-" help:"Move all blobs below the prefix."`
	DryRun    bool `short:"n" env:"-" help:"Print the changes that would be made, and make none."`

	cli.ServerFlags
	cli.OutputFlags
}

// Run moves the blobs.
func (c *Mv) Run(ctx context.Context, console *cli.Console) error {
	from, to := c.Source.Remote, c.Target.Remote
	if from.Folder() && !c.Recursive {
		return cli.Usagef("%s is not a blob: use -r to move all blobs below it", terminal.Name(from.String()))
	}
	on, err := c.ClientOf(console, c.Source, c.Target)
	if err != nil {
		return err
	}
	b := newBatch(console, c.OutputFlags, folder.Options{DryRun: c.DryRun})
	b.dryRun, b.moves = c.DryRun, true
	b.progress.CountTransfers()
	return b.end(ctx, c.run(ctx, b, on, from, to))
}

func (c *Mv) run(ctx context.Context, b *batch, on *client.Client, from, to operand.Remote) error {
	if !c.Recursive {
		if to.Folder() {
			to = cli.Below(cli.AsFolder(to), cli.KeptName(from))
		}
		b.MoveBlob(b.item(on, from), b.item(on, to))
		return b.run(ctx)
	}
	from, to = cli.AsFolder(from), cli.AsFolder(to)
	switch err := b.Move(ctx, b.prefix(on, from), b.prefix(on, to)); {
	case errors.Is(err, folder.ErrEmpty):
		return b.nothingAt(from)
	case errors.Is(err, client.ErrInvalid):
		return cli.Usagef("%s and %s contain each other: move to a prefix beside it", terminal.Name(from.String()), terminal.Name(to.String()))
	case err != nil:
		return b.listError(err)
	}
	return b.run(ctx)
}
