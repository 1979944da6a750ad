package blobs

import (
	"context"
	"errors"

	"sluice/client"
	"sluice/cmd/sluice/internal/cli"
	"sluice/cmd/sluice/internal/operand"
	"sluice/cmd/sluice/internal/terminal"
	"sluice/internal/units"
)

// Du prints how much blobs store.
type Du struct {
	Prefixes []cli.RemoteOperand `arg:"" optional:"" name:"prefix" help:"ACCOUNT, or ACCOUNT/PREFIX for the names that begin with it. Default: all accounts."`

	cli.ServerFlags
	cli.OutputFlags
}

// Run prints how many blobs there are and their size below each prefix, or in each account.
func (c *Du) Run(ctx context.Context, console *cli.Console) error {
	from, err := c.ClientOf(console, c.Prefixes...)
	if err != nil {
		return err
	}
	table := c.Table(console, "")
	if len(c.Prefixes) == 0 {
		err = eachAccount(ctx, console, c.OutputFlags, from, operand.Remote{}, func(of operand.Remote, a *client.Account) error {
			return c.print(table, of, useOf(a))
		})
	}
	err = errors.Join(err, eachOf(c.Prefixes, func(of cli.RemoteOperand) error {
		use, err := c.below(ctx, from, of.Remote)
		if err != nil {
			return err
		}
		if use.Blobs+use.Versions == 0 {
			if err := remarkNothingAt(console, c.OutputFlags, of.Remote); err != nil {
				return err
			}
		}
		return c.print(table, of.Remote, use)
	}))
	return errors.Join(err, table.Flush())
}

// below adds up the blobs below a prefix, with the kept versions if the key may list them.
func (c *Du) below(ctx context.Context, from *client.Client, of operand.Remote) (printedUse, error) {
	for _, versions := range []bool{true, false} {
		use, allowed := printedUse{Account: of.Account, Prefix: of.Name}, true
		for e, err := range (&Ls{Versions: versions}).entries(ctx, from, of.Account, client.ListOptions{Prefix: of.Name}) {
			switch {
			case versions && cli.AnyOf(err, client.ErrForbidden, client.ErrUnauthorized, client.ErrNotFound):
				allowed = false
			case err != nil:
				return use, blobError(of, err)
			case versions && !e.Current:
				use.Versions++
				use.VersionBytes += e.Size
			default:
				use.Blobs++
				use.Bytes += e.Size
			}
		}
		if allowed {
			return use, nil
		}
	}
	return printedUse{}, nil
}

func (c *Du) print(table *cli.Table, of operand.Remote, use printedUse) error {
	return table.Row(use, units.Bytes(use.Bytes), use.counted(), terminal.Name(of.String()))
}
