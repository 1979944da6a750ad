package main

import (
	"context"

	"sluice/client/folder"
	"sluice/cmd/sluice/internal/operand"
)

// getCommand reads blobs into files.
type getCommand struct {
	Sources sources[remoteOperand] `arg:"" name:"blob..." help:"ACCOUNT/NAME, or ACCOUNT/PREFIX/ with -r. Several are possible."`
	Target  string                 `arg:"" name:"file" default:"." words:"" help:"File, folder, or - for standard output. Default: the current folder."`

	Recursive bool `short:"r" env:"-" help:"Read all blobs below the prefix into a folder. It is created if needed. Of several, each keeps its own name, too."`
	DryRun    bool `short:"n" env:"-" help:"Print the changes that would be made, and make none."`

	serverFlags
	outputFlags
	readFlags
	transferFlags
}

// Help returns examples.
func (*getCommand) Help() string {
	return "A file appears when all its bytes were verified. A large one that was interrupted is resumed if the same command is run again. " +
		"With -r, files that are there already are not read again, and names that cannot be files of the folder are listed and skipped.\n\n" +
		examples("sluice get team/photos/photo.jpg", "sluice get team/a team/b ./folder/", "sluice get -r team/photos/ ./photos", "sluice get team/backup.tar - | tar x")
}

// Run reads the blobs.
func (c *getCommand) Run(ctx context.Context, console *console) error {
	from, err := c.clientWith(console, "", c.bothWays())
	if err != nil {
		return err
	}
	if c.Target == "" {
		return usagef("the name of the file is empty: want a file, a folder, or - for standard output")
	}
	reads, err := c.reads(ctx, console, from)
	if err != nil {
		return err
	}
	transfers := folder.Options{Get: reads.downloads(), DryRun: c.DryRun}
	if err := c.set(&transfers, c.Recursive); err != nil {
		return err
	}
	b := newBatch(console, c.outputFlags, transfers)
	b.reads = reads
	d := &downloader{from: from, reads: reads}
	var blobs []operand.Remote
	for _, source := range c.Sources.all {
		blobs = append(blobs, source.Remote)
	}
	return b.end(ctx, d.run(ctx, b, blobs, c.Target, c.Recursive))
}
