package main

import (
	"context"
	"errors"
	"fmt"

	"sluice/instance"
	"sluice/internal/terminal"
	"sluice/internal/units"
)

// checkCommand checks an instance for damage, also while nodes run on it.
type checkCommand struct {
	Config    configFlag `placeholder:"FILE" help:"Configuration file of serve."`
	metaFlags `embed:""`
	Bytes     string `placeholder:"DSN" help:"${bytes_help}"`
	ReadBytes bool   `env:"-" help:"Read all objects and compare them with their checksums."`

	outputFlags
}

// Help describes the command and returns examples.
func (checkCommand) Help() string {
	return `Compares everything that an instance stores with everything else that it stores, and
changes nothing. It may run beside a server. It prints a line for each damage, and what was not
checked. The exit code is 0 if all is well, 6 if there is damage, and 5 if there is none in what
could be checked, but not all could be.

` + examples("sluice check --data ./sluice-data", "sluice check --data ./sluice-data --read-bytes", "sluice check --meta postgres://HOST/DB --bytes s3://BUCKET")
}

// Validate reports all errors.
func (c *checkCommand) Validate() error { return c.location().Validate("--") }

func (c *checkCommand) location() instance.Location {
	return instance.Location{Data: c.Data, Meta: c.Meta, Bytes: c.Bytes}
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
	Skipped     []string         `json:"skipped"`
	Failed      []string         `json:"failed"`
}

type printedFinding struct {
	Kind instance.FindingKind `json:"kind"`
	Text string               `json:"text"`
}

// Run checks the instance.
func (c *checkCommand) Run(ctx context.Context, console *console) error {
	progress := newProgress(console.err, c.Quiet || c.JSON)
	defer progress.Close()
	found, err := instance.Check(ctx, c.location(), instance.CheckOptions{Bytes: c.ReadBytes, Progress: progress.update})
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
		return exitWith(exitDamaged, fmt.Errorf("damage was found: %d; see the runbook for what to do", found.Found))
	case len(found.Failed) > 0:
		return exitWith(exitPartly, errors.New("not everything could be checked; no damage was found in the rest"))
	}
	return nil
}

func printedOf(f instance.Checked) printedCheck {
	p := printedCheck{
		Instance: f.Instance, Damaged: f.Found > 0, Found: f.Found, Findings: []printedFinding{}, Rows: f.Rows, RowsUnknown: f.RowsUnchecked, Inline: f.Inline, Objects: f.Objects, Bytes: f.Bytes,
		BytesRead: f.BytesRead, Orphans: f.Orphans, OrphanBytes: f.OrphanSize, Skipped: append([]string{}, f.Skipped...), Failed: append([]string{}, f.Failed...),
	}
	for _, one := range f.Findings {
		p.Findings = append(p.Findings, printedFinding(one))
	}
	return p
}

// maxPrinted is how many findings are printed; all that are known are in JSON.
const maxPrinted = 100

// printChecked prints the findings and then what was checked.
func printChecked(console *console, f instance.Checked) error {
	var lines []string
	add := func(format string, values ...any) {
		lines = append(lines, terminal.Text(fmt.Sprintf(format, values...)))
	}
	for _, one := range f.Findings[:min(len(f.Findings), maxPrinted)] {
		add("%s: %s", one.Kind, one.Text)
	}
	if more := f.Found - int64(len(lines)); more > 0 {
		add("and %d more", more)
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
	if f.Found == 0 {
		add("No damage was found.")
	}
	for _, line := range lines {
		if err := printLine(console.out, line); err != nil {
			return err
		}
	}
	return nil
}
