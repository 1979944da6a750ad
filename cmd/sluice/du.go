package main

import (
	"context"
	"errors"
	"fmt"
	"text/tabwriter"

	"sluice/client"
	"sluice/internal/terminal"
	"sluice/internal/units"
)

// duCommand prints how much blobs store.
type duCommand struct {
	Prefixes []remoteOperand `arg:"" name:"prefix" help:"ACCOUNT, or ACCOUNT/PREFIX for the names that begin with it."`

	serverFlags
	outputFlags
}

// Help returns examples.
func (duCommand) Help() string {
	return examples("sluice du team", "sluice du team/photos/ team/logs/")
}

// printedUse is what the blobs below a prefix store, in JSON.
type printedUse struct {
	Account string `json:"account"`
	Prefix  string `json:"prefix"`
	Blobs   int64  `json:"blobs"`
	Bytes   int64  `json:"bytes"`
}

// Run lists the blobs of each prefix, and prints their number and the sum of their sizes.
func (c *duCommand) Run(ctx context.Context, console *console) error {
	from, err := c.client(console, "")
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(console.out, 0, 0, 2, ' ', 0)
	err = eachOf(c.Prefixes, func(of remoteOperand) error {
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
		if c.JSON {
			return terminal.WriteJSON(console.out, use)
		}
		_, err := fmt.Fprintf(table, "%s\t%d blobs\t%s\n", units.Bytes(use.Bytes), use.Blobs, terminal.Name(of.String()))
		return err
	})
	return errors.Join(err, table.Flush())
}
