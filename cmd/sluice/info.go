package main

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"sluice/client"
	"sluice/cmd/sluice/internal/terminal"
	"sluice/internal/units"
	"sluice/wire"
)

// infoCommand prints a server's description of itself.
type infoCommand struct {
	serverFlags
	outputFlags
}

// Help returns examples.
func (infoCommand) Help() string { return examples("sluice info", "sluice info --context prod --json") }

// Run prints the server's version, limits and terms of payment.
func (c *infoCommand) Run(ctx context.Context, console *console) error {
	server, err := c.server()
	if err != nil {
		return err
	}
	roots, err := c.roots()
	if err != nil {
		return err
	}
	of, err := newClient(console, server, client.Options{RootCAs: roots})
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
	lines := [][2]string{
		{"server", url},
		{"version", info.Version},
		{"profile", info.Profile},
		{"reads", who},
		{"largest blob", units.Bytes(info.Limits.MaxBlobSize)},
		{"largest part", units.Bytes(info.Limits.MaxPartSize)},
		{"price", fmt.Sprintf("%s for %d bytes (%s)", info.Payment.ChunksetPrice, info.ChunksetSize, units.Bytes(info.ChunksetSize))},
	}
	return printTable(out, append(lines, termsOf(info.Payment)...))
}

// termsOf returns the names and values of payment terms. A term that the server does not state is
// absent.
func termsOf(p wire.Payment) [][2]string {
	settlement := map[string]string{wire.SettlementLedger: "in the ledger of the server: no money moves", wire.SettlementChain: "on the chain"}
	collected, known := settlement[p.Settlement]
	if !known {
		collected = p.Settlement
	}
	price := ""
	switch {
	case p.MinGasPrice != "" && p.MaxGasPrice != "":
		price = p.MinGasPrice + " to " + p.MaxGasPrice
	case p.MinGasPrice != "":
		price = "at least " + p.MinGasPrice
	case p.MaxGasPrice != "":
		price = "at most " + p.MaxGasPrice
	}
	var lines [][2]string
	for _, line := range [][2]string{
		{"receiver", p.Receiver},
		{"asset", p.Asset},
		{"module", p.Module},
		{"chain", strconv.Itoa(p.ChainID)},
		{"payments are collected", collected},
		{"unsettled limit", p.UnsettledLimit},
		{"starting limit", p.StartingLimit},
		{"least gas", p.MinGas},
		{"gas price", price},
		{"greatest fee", p.MaxFee},
	} {
		if line[1] != "" {
			lines = append(lines, line)
		}
	}
	return lines
}
