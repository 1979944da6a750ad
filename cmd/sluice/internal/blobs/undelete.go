package blobs

import (
	"context"
	"fmt"
	"time"

	"sluice/client/folder"
	"sluice/cmd/sluice/internal/cli"
	"sluice/cmd/sluice/internal/terminal"
	"sluice/internal/units"
)

// Undelete restores blobs that were deleted.
type Undelete struct {
	Blobs []cli.RemoteOperand `arg:"" name:"blob" help:"ACCOUNT/NAME, or ACCOUNT/PREFIX/ for all blobs below it. Several are possible."`

	Recursive bool     `short:"r" env:"-" help:"Restore all blobs below the prefix, as with a slash at its end."`
	At        pastTime `env:"-" placeholder:"TIME" help:"Restore the blobs as they were then, also those that have other content since: 12:00, 2026-01-31T12:00:00Z, '2026-01-31 12:00:00' in the local time zone, or 2h for two hours ago. Default: restore those that are deleted."`
	DryRun    bool     `short:"n" env:"-" help:"Print the changes that would be made, and make none."`

	cli.ServerFlags
	cli.OutputFlags
}

// pastTime is a time that is not in the future.
type pastTime struct{ time.Time }

// UnmarshalText parses the time.
func (p *pastTime) UnmarshalText(text []byte) (err error) {
	p.Time, err = parsePast(string(text), time.Now())
	return err
}

// parsePast parses a time of RFC 3339, a local time as ls prints it or without its seconds or its
// date, or a duration before now.
func parsePast(text string, now time.Time) (time.Time, error) {
	ago, err := units.ParseDuration(text)
	at := now.Add(-ago)
	for _, layout := range []string{time.RFC3339, time.DateTime, "2006-01-02 15:04", time.DateOnly} {
		for _, full := range []string{text, now.Format("2006-01-02 ") + text} {
			if err != nil {
				at, err = time.ParseInLocation(layout, full, now.Location())
			}
		}
	}
	switch {
	case err != nil:
		return at, fmt.Errorf("want a time, such as 12:00, '2026-01-31 12:00:00' or 2026-01-31T12:00:00Z, or a duration, such as 2h, not %q", text)
	case at.After(now):
		return at, fmt.Errorf("%s is in the future", text)
	}
	return at, nil
}

// Run restores the blobs.
func (c *Undelete) Run(ctx context.Context, console *cli.Console) error {
	on, err := c.ClientOf(console, c.Blobs...)
	if err != nil {
		return err
	}
	b := newBatch(console, c.OutputFlags, folder.Options{DryRun: c.DryRun})
	var items []folder.Item
	for _, of := range c.Blobs {
		if c.Recursive {
			of.Remote = cli.AsFolder(of.Remote)
		}
		b.several = b.several || of.Folder() || len(c.Blobs) > 1
		items = append(items, b.item(on, of.Remote))
	}
	b.ctx = ctx
	b.sum, _ = b.Restore(ctx, items, c.At.Time) // show has seen its errors
	if b.sum.Total() == 0 {
		err = cli.ExitWith(cli.ExitNotFound, fmt.Errorf("nothing to restore below %s; sluice bucket versions shows whether the account keeps deleted blobs", terminal.Name(c.Blobs[0].String())))
	}
	return b.end(ctx, err)
}
