package blobs

import (
	"context"
	"errors"
	"io"

	"sluice/client"
	"sluice/cmd/sluice/internal/cli"
	"sluice/cmd/sluice/internal/payments"
)

// Cat writes blobs to standard output.
type Cat struct {
	Blobs []cli.RemoteOperand `arg:"" name:"blob" help:"ACCOUNT/NAME. Several are written one after another."`

	Quiet bool `short:"q" env:"-" help:"Do not print the spending."`
	versionFlag

	cli.ServerFlags
	payments.ReadFlags
}

// Run writes the blobs. It ends with the first error, so that no bytes are missing in the middle.
func (c *Cat) Run(ctx context.Context, console *cli.Console) error {
	from, err := c.ClientOf(console, c.Blobs...)
	if err != nil {
		return err
	}
	if err := errors.Join(allBlobs(c.Blobs), c.check(len(c.Blobs), false)); err != nil {
		return err
	}
	reads, err := c.Reads(ctx, console, from)
	if err != nil {
		return err
	}
	err = c.write(ctx, console.Out, from, reads)
	return errors.Join(err, reads.Report(ctx, console, cli.OutputFlags{Quiet: c.Quiet}))
}

func (c *Cat) write(ctx context.Context, out io.Writer, from *client.Client, reads *payments.PaidReads) error {
	written := int64(0)
	o := reads.Options()
	o.Version = c.Version
	for _, of := range c.Blobs {
		r, err := from.Get(ctx, of.Account, of.Name, o)
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
		err = blobError(of.Remote, reads.Explain(err))
		if written > 0 && !errors.Is(err, client.ErrCorrupt) {
			return cli.ExitWith(cli.ExitPartly, err)
		}
		return err
	}
	return nil
}
