package main

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"sluice/client"
	"sluice/client/folder"
	"sluice/cmd/sluice/internal/operand"
)

// syncCommand makes a folder or a prefix like another.
type syncCommand struct {
	Source localOrRemote `arg:"" name:"source" help:"Folder, or CONTEXT:ACCOUNT/PREFIX/; :ACCOUNT/PREFIX/ on the current server."`
	Target localOrRemote `arg:"" name:"target" help:"The same."`

	Delete bool `env:"-" help:"Delete from the target each name that the source does not have."`
	DryRun bool `short:"n" env:"-" help:"Print the changes that would be made, and make none."`
	Force  bool `env:"-" help:"Delete even if the source is empty, or if some of it could not be listed or copied."`

	TrackRenames bool `env:"-" help:"Rename or copy in the target what it has under another name, in place of transferring it."`

	serverFlags
	outputFlags
	writeFlags
	readFlags
	transferFlags
}

// Help returns examples.
func (*syncCommand) Help() string {
	return "Files and blobs are the same if their sizes and ETags are. Without --delete nothing is removed. With --track-renames a renamed file is not sent again: with --delete the server moves the blob, otherwise it copies it.\n\n" +
		examples("sluice sync ./site :team/site/", "sluice sync --delete --track-renames ./photos :team/photos/", "sluice sync --delete --dry-run ./site prod:team/site/", "sluice sync prod:team/ test:team/")
}

// Run copies the blobs and files that differ, and then deletes.
func (c *syncCommand) Run(ctx context.Context, console *console) error {
	source, target := c.Source.Operand, c.Target.Operand
	switch {
	case source.Remote == nil && target.Remote == nil:
		return bothLocal(source, target)
	case source.IsStdio() || target.IsStdio():
		return usagef("sync has no - as operand: want a folder and CONTEXT:ACCOUNT/PREFIX/")
	case target.Remote == nil && c.writeFlags.set():
		return errStoresNothing
	}
	options, err := c.options()
	if err != nil {
		return err
	}
	from, to, err := clientsOf(console, &c.serverFlags, c.bothWays(), source, target)
	if err != nil {
		return err
	}
	reads, err := c.reads(ctx, console, from)
	if err != nil {
		return err
	}
	transfers := folder.Options{Put: options, Get: reads.downloads(), StateDir: copyStateDir(), DryRun: c.DryRun, TrackRenames: c.TrackRenames}
	if err := c.transferFlags.set(&transfers, true); err != nil {
		return err
	}
	b := newBatch(console, c.outputFlags, transfers)
	b.reads = reads
	return b.end(ctx, c.run(ctx, b, from, to))
}

// run syncs. A client is nil for a local operand.
func (c *syncCommand) run(ctx context.Context, b *batch, from, to *client.Client) error {
	source, err := c.end(b, from, c.Source.Operand, false)
	if err != nil {
		return err
	}
	target, err := c.end(b, to, c.Target.Operand, true)
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
		return b.nothingAt(asFolder(*c.Source.Remote))
	}
	b.nothingIn(c.Source.Path)
	return nil
}

// end returns the folder or prefix that an operand names. A folder must exist unless it is written.
func (c *syncCommand) end(b *batch, on *client.Client, of operand.Operand, written bool) (folder.End, error) {
	if of.Remote != nil {
		return b.prefix(on, asFolder(*of.Remote)), nil
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
		return nil, noFolder(of.Path)
	}
	return folder.Dir(of.Path), nil
}
