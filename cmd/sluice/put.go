package main

import (
	"context"

	"sluice/client/folder"
)

// putCommand stores files.
type putCommand struct {
	Sources sources[string] `arg:"" name:"file..." help:"File, folder with -r, or - for standard input. Several are possible."`
	Target  remoteOperand   `arg:"" name:"blob" help:"ACCOUNT/NAME, or ACCOUNT/PREFIX/ to keep the names of the files."`

	Recursive bool `short:"r" env:"-" help:"Store the files of a folder and of the folders in it, named by their paths below it. Of several, each keeps its own name, too."`
	DryRun    bool `short:"n" env:"-" help:"Print the changes that would be made, and make none."`

	serverFlags
	outputFlags
	writeFlags
	transferFlags
}

// Help returns examples.
func (*putCommand) Help() string {
	return "A large file that was interrupted is resumed if the same command is run again. With -r, files that are stored already are not sent again.\n\n" +
		examples("sluice put photo.jpg team/photos/", "sluice put *.jpg team/photos/", "sluice put -r ./photos team/photos/ --expires 30d", "tar c . | sluice put - team/backup.tar")
}

// Run stores the files.
func (c *putCommand) Run(ctx context.Context, console *console) error {
	options, err := c.options()
	if err != nil {
		return err
	}
	to, err := c.clientWith(console, "", c.bothWays())
	if err != nil {
		return err
	}
	transfers := folder.Options{Put: options, DryRun: c.DryRun}
	if err := c.transferFlags.set(&transfers, c.Recursive); err != nil {
		return err
	}
	b := newBatch(console, c.outputFlags, transfers)
	u := &uploader{to: to, options: options}
	err = u.run(ctx, b, c.Sources.all, c.Target.Remote, c.Recursive)
	return b.end(ctx, err)
}
