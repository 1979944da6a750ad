package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"sluice/database"
	"sluice/internal/terminal"
	"sluice/ledger"
)

// auditCommand audits an instance, also while nodes run on it.
type auditCommand struct {
	Config    configFlag `placeholder:"FILE" help:"Configuration file of serve."`
	metaFlags `embed:""`
}

// Help returns examples.
func (auditCommand) Help() string {
	return examples("sluice audit --data ./hosted-data", "sluice audit --meta postgres://sluice@db.example.org/sluice")
}

// Run prints a line for each inconsistency in the ledgers of channels and sessions and in the
// counts of accounts, and returns an error if there is any.
func (c *auditCommand) Run(ctx context.Context, console *console) error {
	stores, err := c.openMeta(ctx, false)
	if err != nil {
		return err
	}
	faults, err := stores.Meta.Audit(ctx)
	unsettled, err2 := stores.Meta.Unsettled(ctx)
	failed, err3 := stores.Meta.FailedSubmissions(ctx, database.MaxFindings)
	halt, err4 := stores.Meta.Halted(ctx)
	corrections, err5 := stores.Meta.Corrections(ctx)
	if err := errors.Join(err, err2, err3, err4, err5, stores.Close()); err != nil {
		return err
	}
	for _, c := range corrections {
		if err := printLine(console.out, "Corrected with sluice channel reconcile at "+c+"."); err != nil {
			return err
		}
	}
	if err := printUncollected(console.out, halt, unsettled, failed); err != nil {
		return err
	}
	for _, fault := range faults {
		if err := printLine(console.out, fault); err != nil {
			return err
		}
	}
	if len(faults) > 0 {
		return fmt.Errorf("inconsistencies in the metadata: %d", len(faults))
	}
	return printLine(console.out, "The ledgers and the counts of accounts are consistent.")
}

// printUncollected prints why settling has halted, and which payments are not collected. That may
// be a loss, but is no inconsistency.
func printUncollected(out io.Writer, halt string, u ledger.Unsettled, failed []ledger.Submission) error {
	if halt != "" {
		if err := printLine(out, "Settling has halted, and nothing is sold until a node starts with --resume-settling: "+halt); err != nil {
			return err
		}
	}
	if u.Expired.Channels > 0 {
		if err := printLine(out, fmt.Sprintf("Expired before they were collected: payments over %d channels, %d units in all.", u.Expired.Channels, u.Expired.Amount)); err != nil {
			return err
		}
	}
	for _, s := range failed {
		if err := printLine(out, fmt.Sprintf("The chain refused payment %d of channel %.6s, %d units in all: %s (transaction 0x%x)", s.Sequence, s.Channel, s.Amount, terminal.Text(s.Status), s.Hash)); err != nil {
			return err
		}
	}
	return nil
}
