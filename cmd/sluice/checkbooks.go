package main

import (
	"context"
	"errors"
	"fmt"

	"sluice/cmd/sluice/internal/terminal"
	"sluice/database"
)

// printedBooks is the result of check --books in JSON.
type printedBooks struct {
	Consistent     bool                `json:"consistent"`
	Faults         []string            `json:"faults"`
	Halted         string              `json:"halted"`         // why settling has; "" if it has not
	ExpiredIn      int64               `json:"expiredIn"`      // channels
	ExpiredAmount  int64               `json:"expiredAmount"`  // in units: of payments that were not collected in time
	Failed         []printedSubmission `json:"failed"`         // the first of them
	Reconciliation []string            `json:"reconciliation"` // changes with channel reconcile
}

// printedSubmission is a payment that the chain has refused, in JSON.
type printedSubmission struct {
	Channel     string `json:"channel"`
	Sequence    int64  `json:"sequence"`
	Amount      int64  `json:"amount"`
	Status      string `json:"status"`
	Transaction string `json:"transaction"`
}

// checkBooks prints a line for each inconsistency in the ledgers of channels and sessions and in
// the counts of accounts, and returns an error if there is any. It also prints why settling has
// halted, and which payments are not collected: that may be a loss, but is no inconsistency.
func (c *checkCommand) checkBooks(ctx context.Context, console *console) error {
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
	books := printedBooks{
		Consistent: len(faults) == 0, Faults: append([]string{}, faults...), Halted: halt, ExpiredIn: unsettled.Expired.Channels, ExpiredAmount: unsettled.Expired.Amount,
		Failed: []printedSubmission{}, Reconciliation: append([]string{}, corrections...),
	}
	for _, s := range failed {
		books.Failed = append(books.Failed, printedSubmission{s.Channel, s.Sequence, s.Amount, s.Status, fmt.Sprintf("0x%x", s.Hash)})
	}
	if c.JSON {
		err = terminal.WriteJSON(console.out, books)
	} else {
		err = printLines(console.out, books.lines())
	}
	if err == nil && !books.Consistent {
		err = exitWith(exitDamaged, fmt.Errorf("inconsistencies in the metadata: %d", len(faults)))
	}
	return err
}

func (b *printedBooks) lines() (lines []string) {
	for _, text := range b.Reconciliation {
		lines = append(lines, "Corrected with sluice channel reconcile at "+text+".")
	}
	if b.Halted != "" {
		lines = append(lines, "Settling has halted, and nothing is sold until sluice resume settling: "+b.Halted)
	}
	if b.ExpiredIn > 0 {
		lines = append(lines, fmt.Sprintf("Expired before they were collected: payments over %d channels, %d units in all.", b.ExpiredIn, b.ExpiredAmount))
	}
	for _, s := range b.Failed {
		lines = append(lines, fmt.Sprintf("The chain refused payment %d of channel %.6s, %d units in all: %s (transaction %s)", s.Sequence, s.Channel, s.Amount, terminal.Text(s.Status), s.Transaction))
	}
	lines = append(lines, b.Faults...)
	if b.Consistent {
		lines = append(lines, "The ledgers and the counts of accounts are consistent.")
	}
	return lines
}
