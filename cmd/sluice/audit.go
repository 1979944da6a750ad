package main

import (
	"context"
	"errors"
	"fmt"

	"sluice/internal/storage"
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
	stores, err := storage.OpenMeta(ctx, c.location(), false)
	if err != nil {
		return err
	}
	faults, err := stores.Meta.Audit(ctx)
	channels, amount, err2 := stores.Meta.Uncollected(ctx)
	if err := errors.Join(err, err2, stores.Close()); err != nil {
		return err
	}
	if channels > 0 { // a loss, but not an inconsistency
		if err := printLine(console.out, fmt.Sprintf("Expired before they were collected: payments over %d channels, %d units in all.", channels, amount)); err != nil {
			return err
		}
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
