package servers

import (
	"context"
	"fmt"
	"strconv"

	"sluice/cmd/sluice/internal/cli"
	"sluice/internal/units"
	"sluice/wire"
)

// Info prints a server's description of itself.
type Info struct {
	cli.ServerFlags
	cli.OutputFlags
}

// Run prints the server's version, limits and terms of payment.
func (c *Info) Run(ctx context.Context, console *cli.Console) error {
	of, err := c.Client(console, "")
	if err != nil {
		return err
	}
	info, err := of.Info(ctx)
	if err != nil {
		return cli.About(of.URL(), err)
	}
	return c.Facts(console, info, infoFacts(of.URL(), info))
}

// infoFacts returns the names and values of a server's description.
func infoFacts(url string, info wire.Info) [][2]string {
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
	return append(lines, termsOf(info.Payment)...)
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
	return [][2]string{
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
	}
}
