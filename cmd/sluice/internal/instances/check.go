package instances

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"sluice/cmd/sluice/internal/administration"
	"sluice/cmd/sluice/internal/cli"
	"sluice/cmd/sluice/internal/settings"
	"sluice/cmd/sluice/internal/terminal"
	"sluice/database"
	"sluice/database/whole"
	"sluice/instance"
	"sluice/internal/datadir"
	"sluice/internal/units"
	"sluice/wire"
)

// Check checks an instance for damage, also while nodes run on it.
type Check struct {
	settings.InstanceFlags `embed:""`
	administration.Choice
	ReadBytes bool `env:"-" help:"Read all objects and compare them with their checksums."`
	Repair    bool `env:"-" help:"Correct wrong counts, and delete old objects to which nothing refers."`
	Books     bool `env:"-" help:"Check only the ledgers of channels and sessions and the counts of accounts, and list the payments that are not collected."`
	Recorded  bool `env:"-" help:"Check nothing, but list the blobs in which a read or the scrub has found damage."`

	cli.OutputFlags
}

// Validate reports all errors.
func (c *Check) Validate() error {
	err := c.InstanceFlags.Validate()
	if c.Books && c.Recorded || (c.Books || c.Recorded) && (c.ReadBytes || c.Repair) {
		err = errors.Join(err, errors.New("--books and --recorded each exclude the other, --read-bytes and --repair"))
	}
	return err
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
func (c *Check) Run(ctx context.Context, console *cli.Console) error {
	switch {
	case c.Recorded:
		of := administration.Flags{MetaFlags: c.MetaFlags, Choice: c.Choice, OutputFlags: c.OutputFlags}
		return of.With(ctx, console, administration.Options{}, func(ctx context.Context, on administration.Instance) error { return c.checkRecorded(ctx, console, on) })
	case c.Named():
		return cli.Usagef("--url and --context require --recorded: everything else is checked on a machine that reaches the instance's stores")
	case c.Books:
		return c.checkBooks(ctx, console)
	}
	progress := newProgress(console.Err, c.Quiet || c.JSON)
	defer progress.Close()
	found, err := instance.Check(ctx, c.Location(), instance.CheckOptions{Bytes: c.ReadBytes, Repair: c.Repair, Progress: progress.update})
	if errors.Is(err, datadir.ErrInUse) {
		return cli.ExitWith(cli.ExitRefused, err)
	}
	if err != nil {
		return err
	}
	progress.Close()
	err = c.Result(console, printedOf(found), linesOf(found)...)
	switch {
	case err != nil:
		return err
	case found.Found > 0:
		return cli.ExitWith(cli.ExitDamaged, fmt.Errorf("damage was found: %d; see the runbook for the remedy", found.Found))
	case len(found.Failed) > 0:
		return cli.ExitWith(cli.ExitPartly, errors.New("not everything could be checked; no damage was found in the rest"))
	case len(found.NotRepaired) > 0:
		return cli.ExitWith(cli.ExitPartly, errors.New("not everything could be repaired; no damage was found"))
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

// linesOf returns lines with the findings and then the totals of the check.
func linesOf(f instance.Checked) (lines []string) {
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
	return lines
}

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
func (c *Check) checkBooks(ctx context.Context, console *cli.Console) error {
	return c.WithMeta(ctx, false, func(ctx context.Context, meta whole.Database) error {
		books, err := readBooks(ctx, meta)
		if err != nil {
			return err
		}
		if err := c.Result(console, books, books.lines()...); err != nil || books.Consistent {
			return err
		}
		return cli.ExitWith(cli.ExitDamaged, fmt.Errorf("inconsistencies in the metadata: %d", len(books.Faults)))
	})
}

func readBooks(ctx context.Context, meta whole.Database) (*printedBooks, error) {
	faults, err := meta.Audit(ctx)
	unsettled, err2 := meta.Unsettled(ctx)
	failed, err3 := meta.FailedSubmissions(ctx, database.MaxFindings)
	halt, err4 := meta.Halted(ctx)
	corrections, err5 := meta.Corrections(ctx)
	books := &printedBooks{
		Consistent: len(faults) == 0, Faults: append([]string{}, faults...), Halted: halt, ExpiredIn: unsettled.Expired.Channels, ExpiredAmount: unsettled.Expired.Amount,
		Failed: []printedSubmission{}, Reconciliation: append([]string{}, corrections...),
	}
	for _, s := range failed {
		books.Failed = append(books.Failed, printedSubmission{s.Channel, s.Sequence, s.Amount, s.Status, fmt.Sprintf("0x%x", s.Hash)})
	}
	return books, errors.Join(err, err2, err3, err4, err5)
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

// checkRecorded prints the damage that reads and the scrub have recorded: a line for each blob and
// extent, or with --json an object for each extent. It returns an error if there is any.
func (c *Check) checkRecorded(ctx context.Context, console *cli.Console, on administration.Instance) error {
	extents := 0
	for d, err := range on.Damaged(ctx) {
		if err == nil {
			err = c.printOne(console.Out, &d)
		}
		if err != nil {
			return err
		}
		extents++
	}
	switch {
	case extents > 0:
		return cli.ExitWith(cli.ExitDamaged, fmt.Errorf("damaged extents: %d", extents))
	case c.JSON:
		return nil
	}
	return cli.PrintLine(console.Out, "No damage is recorded.")
}

func (c *Check) printOne(out io.Writer, d *wire.Damage) error {
	if c.JSON {
		return terminal.WriteJSON(out, d)
	}
	where := "in object " + terminal.Text(d.Object)
	if d.Object == "" {
		where = "in the database"
	}
	damage := fmt.Sprintf("%s damaged %s, part %d, offset %d, since %s: %s", units.Bytes(d.Bytes), where, d.Part, d.Offset, d.Since.UTC().Format(time.RFC3339), terminal.Text(d.Reason))
	if len(d.Blobs) == 0 {
		return cli.PrintLine(out, "a part of an upload: "+damage)
	}
	for _, b := range d.Blobs {
		of := terminal.Name(b.Account + "/" + b.Name)
		if b.Version != "" {
			of += ", version " + b.Version
		}
		if err := cli.PrintLine(out, of+": "+damage); err != nil {
			return err
		}
	}
	return nil
}
