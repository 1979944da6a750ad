package main

import (
	"context"
	"errors"
	"fmt"

	"sluice/cmd/sluice/internal/terminal"
	"sluice/database"
	"sluice/database/whole"
	"sluice/instance"
)

// resumeCommand lets a task that a safety brake has stopped continue, once.
type resumeCommand struct {
	Settling resumeSettling `cmd:"" help:"Resume settling on the chain, which has halted because the chain contradicted the contract."`
	Sweep    resumeSweep    `cmd:"" help:"Permit one sweep that deletes more orphans than its safety limit."`
}

// resumeFlags are the flags of both.
type resumeFlags struct {
	Config    configFlag `placeholder:"FILE" help:"Configuration file of serve."`
	metaFlags `embed:""`
	Yes       bool `short:"y" env:"-" help:"Do not ask."`
}

type resumeSettling struct{ resumeFlags }

// Help describes the command and returns examples.
func (resumeSettling) Help() string {
	return `Prints why settling has halted, asks, and resumes it. Servers that run continue by themselves.

` + examples("sluice resume settling --data ./sluice-data", "sluice resume settling --meta postgres://HOST/DB")
}

// Run resumes settling, unless it has halted for another reason while the question was open.
func (c *resumeSettling) Run(ctx context.Context, console *console) error {
	return c.withMeta(ctx, func(meta whole.Database) error { return c.resume(ctx, console, meta) })
}

func (c *resumeSettling) resume(ctx context.Context, console *console, meta whole.Database) error {
	reason, err := meta.Halted(ctx)
	if err != nil {
		return err
	}
	if reason == "" {
		return printLine(console.out, "Settling has not halted.")
	}
	if err := printLine(console.out, "Settling has halted: "+terminal.Text(reason)); err != nil {
		return err
	}
	if err := c.confirm(ctx, console, "Collect and sell again, with that explained and mended?"); err != nil {
		return err
	}
	if err := meta.Resume(ctx, reason); err != nil && !errors.Is(err, database.ErrNotFound) {
		return err
	}
	if reason, err = meta.Halted(ctx); err == nil && reason != "" {
		err = exitWith(exitRefused, fmt.Errorf("settling has halted again: %s", terminal.Text(reason)))
	}
	if err != nil {
		return err
	}
	return printLine(console.out, "Settling is resumed.")
}

type resumeSweep struct{ resumeFlags }

// Help describes the command and returns examples.
func (resumeSweep) Help() string {
	return `Permits the next sweep within a day to delete more orphans than its safety limit, once. The log of
the sweep that was refused has their number. First make sure that the metadata is not older than
the objects, as an old database that was put back is: then the orphans are its lost blobs.

` + examples("sluice resume sweep --data ./sluice-data", "sluice resume sweep --meta postgres://HOST/DB --yes")
}

// Run permits one large sweep.
func (c *resumeSweep) Run(ctx context.Context, console *console) error {
	return c.withMeta(ctx, func(meta whole.Database) error {
		err := c.confirm(ctx, console, "Let one sweep delete all objects to which nothing refers?")
		if err == nil {
			err = instance.PermitLargeSweep(ctx, meta)
		}
		if err != nil {
			return err
		}
		return printLine(console.out, "The next sweep within a day may delete more orphans than its limit.")
	})
}

func (f *resumeFlags) confirm(ctx context.Context, console *console, question string) error {
	if f.Yes {
		return nil
	}
	return confirm(ctx, console, question)
}
