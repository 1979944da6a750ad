package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"sluice/client"
	"sluice/cmd/sluice/internal/operand"
	"sluice/cmd/sluice/internal/terminal"
	"sluice/internal/units"
)

// duCommand prints how much blobs store.
type duCommand struct {
	Prefixes []remoteOperand `arg:"" optional:"" name:"prefix" help:"ACCOUNT, or ACCOUNT/PREFIX for the names that begin with it. Default: all accounts."`

	serverFlags
	outputFlags
}

// Help returns examples.
func (duCommand) Help() string {
	return examples("sluice du", "sluice du team", "sluice du team/photos/ team/logs/")
}

// printedUse counts the blobs below a prefix and their bytes, in JSON.
type printedUse struct {
	Account string `json:"account"`
	Prefix  string `json:"prefix"`
	Blobs   int64  `json:"blobs"`
	Bytes   int64  `json:"bytes"`
}

// Run prints how many blobs there are and their size below each prefix, or in each account.
func (c *duCommand) Run(ctx context.Context, console *console) error {
	from, err := c.client(console, "")
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(console.out, 0, 0, 2, ' ', 0)
	if len(c.Prefixes) == 0 {
		err = c.eachAccount(ctx, console, from, operand.Remote{}, func(of operand.Remote, a *client.Account) error {
			return c.print(console, table, of, printedUse{Account: a.Account, Blobs: a.Blobs, Bytes: a.Bytes})
		})
	}
	err = errors.Join(err, eachOf(c.Prefixes, func(of remoteOperand) error {
		use := printedUse{Account: of.Account, Prefix: of.Name}
		for e, err := range from.List(ctx, of.Account, client.ListOptions{Prefix: of.Name}) {
			if err != nil {
				return blobError(of.Remote, err)
			}
			use.Blobs++
			use.Bytes += e.Size
		}
		if use.Blobs == 0 {
			if err := c.nothingAt(console, of.Remote); err != nil {
				return err
			}
		}
		return c.print(console, table, of.Remote, use)
	}))
	return errors.Join(err, table.Flush())
}

func (c *duCommand) print(console *console, table io.Writer, of operand.Remote, use printedUse) error {
	if c.JSON {
		return terminal.WriteJSON(console.out, use)
	}
	_, err := fmt.Fprintf(table, "%s\t%s\t%s\n", units.Bytes(use.Bytes), units.Count(use.Blobs, "blob"), terminal.Name(of.String()))
	return err
}
