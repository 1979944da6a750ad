package main

import (
	"context"
	"errors"

	"sluice/client"
	"sluice/client/folder"
	"sluice/cmd/sluice/internal/operand"
	"sluice/cmd/sluice/internal/terminal"
)

// mvCommand renames blobs.
type mvCommand struct {
	Source remoteOperand `arg:"" name:"source" help:"ACCOUNT/NAME, or ACCOUNT/PREFIX/ with -r."`
	Target remoteOperand `arg:"" name:"target" help:"The same, on the same server. A target that ends in / keeps the source's name."`

	Recursive bool `short:"r" env:"-" help:"Move all blobs below the prefix."`
	DryRun    bool `short:"n" env:"-" help:"Print the changes that would be made, and make none."`

	serverFlags
	outputFlags
}

// Help returns examples.
func (*mvCommand) Help() string {
	return "The server moves a blob whatever its size, and replaces one that has the name. After an interruption the same command moves the rest.\n\n" +
		examples("sluice mv team/draft.txt team/final.txt", "sluice mv team/photo.jpg archive/", "sluice mv -r team/2025/ archive/2025/")
}

// Run moves the blobs.
func (c *mvCommand) Run(ctx context.Context, console *console) error {
	from, to := c.Source.Remote, c.Target.Remote
	if from.Folder() && !c.Recursive {
		return usagef("%s is not a blob: use -r to move all blobs below it", terminal.Name(from.String()))
	}
	on, err := c.client(console, "")
	if err != nil {
		return err
	}
	b := newBatch(console, c.outputFlags, folder.Options{DryRun: c.DryRun})
	b.dryRun, b.moves = c.DryRun, true
	b.progress.CountTransfers()
	return b.end(ctx, c.run(ctx, b, on, from, to))
}

func (c *mvCommand) run(ctx context.Context, b *batch, on *client.Client, from, to operand.Remote) error {
	if !c.Recursive {
		if to.Folder() {
			to = below(asFolder(to), keptName(from))
		}
		b.MoveBlob(b.item(on, from), b.item(on, to))
		return b.run(ctx)
	}
	from, to = asFolder(from), asFolder(to)
	switch err := b.Move(ctx, b.prefix(on, from), b.prefix(on, to)); {
	case errors.Is(err, folder.ErrEmpty):
		return b.nothingAt(from)
	case errors.Is(err, client.ErrInvalid):
		return usagef("%s and %s contain each other: move to a prefix beside it", terminal.Name(from.String()), terminal.Name(to.String()))
	case err != nil:
		return b.listError(err)
	}
	return b.run(ctx)
}
