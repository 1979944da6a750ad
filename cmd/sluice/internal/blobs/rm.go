package blobs

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"sluice/client"
	"sluice/client/folder"
	"sluice/cmd/sluice/internal/cli"
	"sluice/cmd/sluice/internal/operand"
	"sluice/cmd/sluice/internal/terminal"
	"sluice/internal/units"
)

// Rm deletes blobs.
type Rm struct {
	Blobs []cli.RemoteOperand `arg:"" name:"blob" help:"ACCOUNT/NAME, or ACCOUNT/PREFIX/ with -r. Several are possible."`

	Recursive bool `short:"r" env:"-" help:"Delete all blobs below the prefix. The command asks before."`
	versionFlag
	Bypass bool `env:"-" help:"Delete a version even if it is locked in the mode governance, which is recorded."`
	Yes    bool `short:"y" env:"-" help:"Do not ask."`
	DryRun bool `short:"n" env:"-" help:"Print the changes that would be made, and make none."`

	cli.ServerFlags
	cli.OutputFlags
}

// Run deletes the blobs.
func (c *Rm) Run(ctx context.Context, console *cli.Console) error {
	if err := errors.Join(onlyBelow(c.Blobs, c.Recursive, "delete"), c.check(len(c.Blobs), c.Recursive)); err != nil {
		return err
	}
	if c.Bypass && c.Version == "" {
		return cli.Usagef("--bypass is for a --version: no lock forbids other deletions")
	}
	on, err := c.ClientOf(console, c.Blobs...)
	if err != nil {
		return err
	}
	b := newBatch(console, c.OutputFlags, folder.Options{DryRun: c.DryRun, Bypass: c.Bypass})
	return b.end(ctx, c.run(ctx, b, on))
}

func (c *Rm) run(ctx context.Context, b *batch, on *client.Client) error {
	if !c.Recursive {
		for _, of := range c.Blobs {
			item := b.item(on, of.Remote)
			item.Version = c.Version
			b.Delete(item, true)
		}
		return b.run(ctx)
	}
	d := &belowAll{on: on, prefixes: c.Blobs}
	if err := d.check(ctx, b); err != nil || len(d.prefixes) == 0 {
		return err
	}
	if !c.Yes && !c.DryRun {
		if err := d.count(ctx); err != nil {
			return err
		}
		question := fmt.Sprintf("Delete %s (%s)?", units.Count(d.blobs, "blob"), units.Bytes(d.bytes))
		if err := cli.Confirm(ctx, b.console, question); err != nil {
			return err
		}
	}
	b.runListed(ctx, d.items(ctx))
	return nil
}

// onlyBelow returns an error if there is a prefix without -r.
func onlyBelow(operands []cli.RemoteOperand, recursive bool, verb string) error {
	for _, of := range operands {
		if of.Folder() && !recursive {
			return cli.Usagef("%s is not a blob: use -r to %s all blobs below it", terminal.Name(of.String()), verb)
		}
	}
	return nil
}

// belowAll lists the blobs below prefixes. It holds a page with their names in memory.
type belowAll struct {
	on       *client.Client
	prefixes []cli.RemoteOperand

	// The totals that count has found.
	blobs, bytes int64
	newest       time.Time // the last modification
}

// list returns the blobs below a prefix.
func (d *belowAll) list(ctx context.Context, prefix operand.Remote, pageSize int) iter.Seq2[client.Entry, error] {
	return d.on.List(ctx, prefix.Account, client.ListOptions{Prefix: prefix.Name, PageSize: pageSize})
}

// check returns an error if there are no blobs below a prefix. It omits accounts without blobs.
func (d *belowAll) check(ctx context.Context, b *batch) error {
	var some []cli.RemoteOperand
	for _, of := range d.prefixes {
		prefix, found := cli.AsFolder(of.Remote), false
		for _, err := range d.list(ctx, prefix, 1) {
			if err != nil {
				return blobError(prefix, err)
			}
			found = true
			break
		}
		if found {
			some = append(some, of)
		} else if err := b.nothingAt(prefix); err != nil {
			return fmt.Errorf("%w; nothing was changed", err)
		}
	}
	d.prefixes = some
	return nil
}

// count counts the blobs that would be deleted.
func (d *belowAll) count(ctx context.Context) error {
	for _, of := range d.prefixes {
		prefix := cli.AsFolder(of.Remote)
		for e, err := range d.list(ctx, prefix, 0) {
			if err != nil {
				return blobError(prefix, err)
			}
			d.blobs++
			d.bytes += e.Size
			if e.LastModified.After(d.newest) {
				d.newest = e.LastModified
			}
		}
	}
	return nil
}

// items returns the blobs without those that were written after they were counted: nobody has
// agreed to their deletion.
func (d *belowAll) items(ctx context.Context) iter.Seq2[folder.Item, error] {
	return func(yield func(folder.Item, error) bool) {
		for _, of := range d.prefixes {
			prefix := cli.AsFolder(of.Remote)
			for e, err := range d.list(ctx, prefix, 0) {
				if err != nil {
					yield(folder.Item{}, blobError(prefix, err))
					return
				}
				if d.blobs > 0 && e.LastModified.After(d.newest) {
					continue
				}
				if !yield(folder.Item{Client: d.on, Account: prefix.Account, Name: e.Name}, nil) {
					return
				}
			}
		}
	}
}
