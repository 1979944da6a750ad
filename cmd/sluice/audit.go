package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/alecthomas/kong"
)

// auditCommand checks the books of an instance, also while servers run on it.
type auditCommand struct {
	Config kong.ConfigFlag `placeholder:"FILE" help:"The file of flags of serve."`
	Place  metaPlace       `embed:""`
}

// Run prints what is wrong with the ledgers of channels and sessions, a line for
// each fault. Faults are an error.
func (c *auditCommand) Run(console *console) error {
	ctx := context.Background()
	stores, err := openMeta(ctx, c.Place, false)
	if err != nil {
		return err
	}
	faults, err := stores.meta.Audit(ctx)
	channels, amount, err2 := stores.meta.Uncollected(ctx)
	if err := errors.Join(err, err2, stores.Close()); err != nil {
		return err
	}
	if channels > 0 { // a loss, but no fault of the books
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
		return fmt.Errorf("faults in the books: %d", len(faults))
	}
	return printLine(console.out, "The books are in order.")
}
