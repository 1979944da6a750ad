package main

import (
	"context"
	"errors"
	"io"

	"sluice/client"
)

// catCommand writes blobs to standard output.
type catCommand struct {
	Blobs []remoteOperand `arg:"" name:"blob" help:"ACCOUNT/NAME. Several are written one after another."`

	Quiet bool `short:"q" env:"-" help:"Do not print the spending."`

	serverFlags
	readFlags
}

// Help returns examples.
func (catCommand) Help() string {
	return "A blob is written while it is read: its checksum is verified at the end, and if it differs, the exit code is 1. After any other error it is 5 if something was written.\n\n" +
		examples("sluice cat team/notes.txt", "sluice cat team/log.1 team/log.2 | grep error")
}

// Run writes the blobs. It ends with the first error, so that no bytes are missing in the middle.
func (c *catCommand) Run(ctx context.Context, console *console) error {
	from, err := c.client(console, "")
	if err != nil {
		return err
	}
	if err := allBlobs(c.Blobs); err != nil {
		return err
	}
	reads, err := c.reads(ctx, console, from)
	if err != nil {
		return err
	}
	err = c.write(ctx, console.out, from, reads)
	return errors.Join(err, reads.report(ctx, console, outputFlags{Quiet: c.Quiet}))
}

func (c *catCommand) write(ctx context.Context, out io.Writer, from *client.Client, reads *paidReads) error {
	written := int64(0)
	for _, of := range c.Blobs {
		r, err := from.Get(ctx, of.Account, of.Name, reads.options())
		if err == nil {
			var n int64
			n, err = io.Copy(out, r)
			written += n
			err = errors.Join(err, r.Close())
		}
		if err == nil {
			continue
		}
		if isMissing(err) {
			err = withBelow(ctx, from, of.Remote, err, "sluice ls lists them")
		}
		err = blobError(of.Remote, reads.explain(err))
		if written > 0 && !errors.Is(err, client.ErrCorrupt) {
			return exitWith(exitPartly, err)
		}
		return err
	}
	return nil
}
