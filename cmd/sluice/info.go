package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"sluice/client"
	"sluice/internal/terminal"
	"sluice/internal/units"
	"sluice/wire"
)

// infoCommand prints what a server says about itself.
type infoCommand struct {
	serverFlags
	outputFlags
}

// Help returns examples.
func (infoCommand) Help() string { return examples("sluice info", "sluice info --context prod --json") }

// Run prints the version, the limits and the terms of payment of the server.
func (c *infoCommand) Run(ctx context.Context, console *console) error {
	server, err := c.server()
	if err != nil {
		return err
	}
	of, err := newClient(console, server, client.Options{})
	if err != nil {
		return err
	}
	info, err := of.Info(ctx)
	if err != nil {
		return about(server.URL, err)
	}
	if c.JSON {
		return terminal.WriteJSON(console.out, info)
	}
	return writeInfo(console.out, server.URL, info)
}

func writeInfo(out io.Writer, url string, info wire.Info) error {
	reads := map[string]string{"public": "everyone", "key": "keys for the account", "paid": "callers who pay, and keys for the account"}
	who, known := reads[info.Reads]
	if !known {
		who = info.Reads
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	var errs []error
	for _, line := range [][2]string{
		{"server", url},
		{"version", info.Version},
		{"profile", info.Profile},
		{"reads", who},
		{"largest blob", units.Bytes(info.Limits.MaxBlobSize)},
		{"largest part", units.Bytes(info.Limits.MaxPartSize)},
		{"price", fmt.Sprintf("%s for %d bytes (%s)", info.Payment.ChunksetPrice, info.ChunksetSize, units.Bytes(info.ChunksetSize))},
		{"receiver", info.Payment.Receiver},
		{"asset", info.Payment.Asset},
		{"chain", fmt.Sprint(info.Payment.ChainID)},
	} {
		_, err := fmt.Fprintf(table, "%s\t%s\n", line[0], terminal.Text(line[1]))
		errs = append(errs, err)
	}
	return errors.Join(append(errs, table.Flush())...)
}
