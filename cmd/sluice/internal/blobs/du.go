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

// printedUse counts the blobs below a prefix and their bytes, in JSON.
type printedUse struct {
	Account string `json:"account"`
	Prefix  string `json:"prefix"`
	Blobs   int64  `json:"blobs"`
	Bytes   int64  `json:"bytes"`
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
			return c.print(table, of, printedUse{Account: a.Account, Blobs: a.Blobs, Bytes: a.Bytes})
		})
	}
	err = errors.Join(err, eachOf(c.Prefixes, func(of cli.RemoteOperand) error {
		use := printedUse{Account: of.Account, Prefix: of.Name}
		for e, err := range from.List(ctx, of.Account, client.ListOptions{Prefix: of.Name}) {
			if err != nil {
				return blobError(of.Remote, err)
			}
			use.Blobs++
			use.Bytes += e.Size
		}
		if use.Blobs == 0 {
			if err := remarkNothingAt(console, c.OutputFlags, of.Remote); err != nil {
				return err
			}
		}
		return c.print(table, of.Remote, use)
	}))
	return errors.Join(err, table.Flush())
}

func (c *Du) print(table *cli.Table, of operand.Remote, use printedUse) error {
	return table.Row(use, units.Bytes(use.Bytes), units.Count(use.Blobs, "blob"), terminal.Name(of.String()))
}
