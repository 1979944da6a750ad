package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"time"

	"sluice/client"
	"sluice/client/folder"
	"sluice/cmd/sluice/internal/operand"
	"sluice/cmd/sluice/internal/terminal"
	"sluice/internal/units"
)

// rmCommand deletes blobs.
type rmCommand struct {
	Blobs []remoteOperand `arg:"" name:"blob" help:"ACCOUNT/NAME, or ACCOUNT/PREFIX/ with -r. Several are possible."`

	Recursive bool `short:"r" env:"-" help:"Delete all blobs below the prefix. The command asks before."`
	Yes       bool `short:"y" env:"-" help:"Do not ask."`
	DryRun    bool `short:"n" env:"-" help:"Print the changes that would be made, and make none."`

	serverFlags
	outputFlags
}

// Help returns examples.
func (rmCommand) Help() string {
	return examples("sluice rm team/photos/photo.jpg", "sluice rm -r team/photos/", "sluice rm -r --yes team/tmp/")
}

// Run deletes the blobs.
func (c *rmCommand) Run(ctx context.Context, console *console) error {
	for _, of := range c.Blobs {
		if of.Folder() && !c.Recursive {
			return usagef("%s is not a blob: use -r to delete all blobs below it", terminal.Name(of.String()))
		}
	}
	on, err := c.client(console, "")
	if err != nil {
		return err
	}
	b := newBatch(console, c.outputFlags, folder.Options{DryRun: c.DryRun})
	return b.end(ctx, c.run(ctx, b, on))
}

func (c *rmCommand) run(ctx context.Context, b *batch, on *client.Client) error {
	if !c.Recursive {
		for _, of := range c.Blobs {
			b.Delete(b.item(on, of.Remote), true)
		}
		return b.run(ctx)
	}
	d := &deletions{on: on, prefixes: c.Blobs}
	if err := d.check(ctx, b); err != nil || len(d.prefixes) == 0 {
		return err
	}
	if !c.Yes && !c.DryRun {
		if err := d.count(ctx); err != nil {
			return err
		}
		question := fmt.Sprintf("Delete %s (%s)?", units.Count(d.blobs, "blob"), units.Bytes(d.bytes))
		if err := confirm(ctx, b.console, question); err != nil {
			return err
		}
	}
	b.runListed(ctx, d.items(ctx))
	return nil
}

// deletions deletes the blobs below prefixes. It holds a page of their names in memory.
type deletions struct {
	on       *client.Client
	prefixes []remoteOperand

	// The totals that count has found.
	blobs, bytes int64
	newest       time.Time // the last modification
}

// list returns the blobs below a prefix.
func (d *deletions) list(ctx context.Context, prefix operand.Remote, pageSize int) iter.Seq2[client.Entry, error] {
	return d.on.List(ctx, prefix.Account, client.ListOptions{Prefix: prefix.Name, PageSize: pageSize})
}

// check returns an error if there are no blobs below a prefix. It omits accounts without blobs.
func (d *deletions) check(ctx context.Context, b *batch) error {
	var some []remoteOperand
	for _, of := range d.prefixes {
		prefix, found := asFolder(of.Remote), false
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
			return fmt.Errorf("%w; nothing was deleted", err)
		}
	}
	d.prefixes = some
	return nil
}

// count counts the blobs that would be deleted.
func (d *deletions) count(ctx context.Context) error {
	for _, of := range d.prefixes {
		prefix := asFolder(of.Remote)
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

// items returns the blobs to delete, without those that were written after they were counted:
// nobody has agreed to their deletion.
func (d *deletions) items(ctx context.Context) iter.Seq2[folder.Item, error] {
	return func(yield func(folder.Item, error) bool) {
		for _, of := range d.prefixes {
			prefix := asFolder(of.Remote)
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

// confirm asks a question on the terminal. It returns an error if the response is not yes, or if
// there is no terminal to ask on.
func confirm(ctx context.Context, console *console, question string) error {
	if !isTerminal(console.in) {
		return usagef("standard input is not a terminal to confirm on: use --yes to do it without a question; nothing was changed")
	}
	return askOn(interruptible(ctx, console.in), console.err, question)
}

func askOn(in io.Reader, out io.Writer, question string) error {
	if _, err := fmt.Fprintf(out, "%s [y/N] ", question); err != nil {
		return err
	}
	response, err := bufio.NewReader(in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	switch strings.ToLower(strings.TrimSpace(response)) {
	case "y", "yes":
		return nil
	default:
		return errors.New("nothing was changed")
	}
}
