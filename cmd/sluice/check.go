package main

import (
	"context"
	"errors"
	"fmt"

	"sluice/cmd/sluice/internal/terminal"
	"sluice/instance"
	"sluice/internal/datadir"
	"sluice/internal/units"
)

// checkCommand checks an instance for damage, also while nodes run on it.
type checkCommand struct {
	Config    configFlag `placeholder:"FILE" help:"Configuration file of serve."`
	metaFlags `embed:""`
	Bytes     string `placeholder:"DSN" help:"${bytes_help}"`
	ReadBytes bool   `env:"-" help:"Read all objects and compare them with their checksums."`
	Repair    bool   `env:"-" help:"Correct wrong counts, and delete old objects to which nothing refers."`
	Books     bool   `env:"-" help:"Check only the ledgers of channels and sessions and the counts of accounts, and list the payments that are not collected."`
	Recorded  bool   `env:"-" help:"Check nothing, but list the blobs of which a read or the scrub has found damage."`

	outputFlags
}

// Help describes the command and returns examples.
func (checkCommand) Help() string {
	return `Compares everything that an instance stores with everything else that it stores, and
changes nothing. It may run beside a server. It prints a line for each damage, and what was not
checked. The exit code is 0 if all is well, 6 if there is damage, and 5 if there is none in what
could be checked, but not all could be.

With --repair it first repairs what can be repaired without a loss: it corrects counts that follow
from what is stored (the references of contents, the sums of accounts, the usage of owners, what
open uploads count), and deletes objects to which nothing refers, once they are as old as a server's
sweep requires. It prints what it has repaired, then what is damaged and stays as it is, and what it
did not repair. Then the exit code is 0 if nothing is damaged any more. A server must not run on the
data folder; nodes that have everything in PostgreSQL and an object store may run.

` + examples("sluice check --data ./sluice-data", "sluice check --data ./sluice-data --read-bytes", "sluice check --data ./sluice-data --repair", "sluice check --data ./sluice-data --books", "sluice check --data ./sluice-data --recorded --json", "sluice check --meta postgres://HOST/DB --bytes s3://BUCKET")
}

// Validate reports all errors.
func (c *checkCommand) Validate() error {
	err := c.location().Validate("--")
	if c.Books && c.Recorded || (c.Books || c.Recorded) && (c.ReadBytes || c.Repair) {
		err = errors.Join(err, errors.New("--books and --recorded each exclude the other, --read-bytes and --repair"))
	}
	return err
}

func (c *checkCommand) location() instance.Location {
	l := instance.Location{Data: c.Data, Meta: c.Meta, Bytes: c.Bytes}
	if l.Meta != "" && l.Bytes != "" {
		l.Data = "" // nodes that run have it
	}
	return l
}

// printedCheck is the result in JSON.
type printedCheck struct {
	Instance    string           `json:"instance"`
	Damaged     bool             `json:"damaged"`
	Found       int64            `json:"found"`    // all findings
	Findings    []printedFinding `json:"findings"` // the first of them
	Rows        int64            `json:"rows"`
	RowsUnknown int64            `json:"rowsUnchecked"` // have no checksum
	Inline      int64            `json:"inline"`
	Objects     int64            `json:"objects"`
	Bytes       int64            `json:"bytes"`
	BytesRead   int64            `json:"bytesRead"`
	Orphans     int64            `json:"orphans"`
	OrphanBytes int64            `json:"orphanBytes"`
	Repairs     int64            `json:"repairs"`     // their number
	Repaired    []string         `json:"repaired"`    // up to 1,000
	NotRepaired []string         `json:"notRepaired"` // with the reasons
	Skipped     []string         `json:"skipped"`
	Failed      []string         `json:"failed"`
}

type printedFinding struct {
	Kind instance.FindingKind `json:"kind"`
	Text string               `json:"text"`
}

// Run checks the instance.
func (c *checkCommand) Run(ctx context.Context, console *console) error {
	switch {
	case c.Books:
		return c.checkBooks(ctx, console)
	case c.Recorded:
		return c.checkRecorded(ctx, console)
	}
	progress := newProgress(console.err, c.Quiet || c.JSON)
	defer progress.Close()
	found, err := instance.Check(ctx, c.location(), instance.CheckOptions{Bytes: c.ReadBytes, Repair: c.Repair, Progress: progress.update})
	if errors.Is(err, datadir.ErrInUse) {
		return exitWith(exitRefused, err)
	}
	if err != nil {
		return err
	}
	progress.Close()
	if c.JSON {
		err = terminal.WriteJSON(console.out, printedOf(found))
	} else {
		err = printChecked(console, found)
	}
	switch {
	case err != nil:
		return err
	case found.Found > 0:
		return exitWith(exitDamaged, fmt.Errorf("damage was found: %d; see the runbook for the remedy", found.Found))
	case len(found.Failed) > 0:
		return exitWith(exitPartly, errors.New("not everything could be checked; no damage was found in the rest"))
	case len(found.NotRepaired) > 0:
		return exitWith(exitPartly, errors.New("not everything could be repaired; no damage was found"))
	}
	return nil
}

func printedOf(f instance.Checked) printedCheck {
	p := printedCheck{
		Instance: f.Instance, Damaged: f.Found > 0, Found: f.Found, Findings: []printedFinding{}, Rows: f.Rows, RowsUnknown: f.RowsUnchecked, Inline: f.Inline, Objects: f.Objects, Bytes: f.Bytes,
		BytesRead: f.BytesRead, Orphans: f.Orphans, OrphanBytes: f.OrphanSize,
		Repairs: f.Repairs, Repaired: append([]string{}, f.Repaired...), NotRepaired: append([]string{}, f.NotRepaired...), Skipped: append([]string{}, f.Skipped...), Failed: append([]string{}, f.Failed...),
	}
	for _, one := range f.Findings {
		p.Findings = append(p.Findings, printedFinding(one))
	}
	return p
}

// maxPrinted is how many findings are printed; all that are known are in JSON.
const maxPrinted = 100

// printChecked prints the findings and then the totals of the check.
func printChecked(console *console, f instance.Checked) error {
	var lines []string
	add := func(format string, values ...any) {
		lines = append(lines, terminal.Text(fmt.Sprintf(format, values...)))
	}
	for _, text := range f.Repaired[:min(len(f.Repaired), maxPrinted)] {
		add("Repaired: %s.", text)
	}
	if more := f.Repairs - maxPrinted; more > 0 {
		add("and %d more repairs", more)
	}
	named := f.Findings[:min(len(f.Findings), maxPrinted)]
	for _, one := range named {
		add("%s: %s", one.Kind, one.Text)
	}
	if more := f.Found - int64(len(named)); more > 0 {
		add("and %d more", more)
	}
	for _, text := range f.NotRepaired {
		add("Not repaired: %s.", text)
	}
	add("Checked: %d objects with %s, %s of them read; %d rows; and %d bodies in the database.", f.Objects, units.Bytes(f.Bytes), units.Bytes(f.BytesRead), f.Rows, f.Inline)
	if f.RowsUnchecked > 0 {
		add("Rows that an earlier version has written, and that have no checksum: %d.", f.RowsUnchecked)
	}
	if f.Orphans > 0 {
		add("Objects to which nothing refers: %d, with %s. A server's next sweep deletes them.", f.Orphans, units.Bytes(f.OrphanSize))
	}
	for _, text := range f.Skipped {
		add("Not checked: %s.", text)
	}
	for _, text := range f.Failed {
		add("Could not be checked: %s.", text)
	}
	switch {
	case f.Found > 0:
	case f.Repairs > 0:
		add("No other damage was found.")
	default:
		add("No damage was found.")
	}
	return printLines(console.out, lines)
}
